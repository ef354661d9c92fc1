"""Reading of a small compacted topic to its end, and of new records after that."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator

from mm2.core.access.rights import on_topic
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import IsolationLevel
from mm2.core.topics.acls import Operation
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import BrokerError, ClusterError, RequestTimedOut, check
from mm2.kafka.logs.record_fetch import OpenTransactions, fetch_records
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.retrying import API_TIMEOUT_MS, retried

log = logging.getLogger(__name__)

_PARTITION_BYTES = 1 << 18
_LONG_POLL_MS = 500  # Java's fetch.max.wait.ms
_ISOLATION = IsolationLevel.READ_UNCOMMITTED  # see `OpenTransactions`

CAUGHT_UP_LOOK_S = 0.02
"""Poll interval of `CompactedLog.catch_up`: records arrive within milliseconds, and a partition waits for them."""


class CompactedLog:
    """A reader of one compacted topic, for use by one task at a time.

    A. Records of one partition are returned in offset order, those of a transaction at its commit under read_committed,
       each once, unless the partition was truncated.
    B. ``read_to_end`` returns everything that was in the topic (and committed, under read_committed) when it was
       called, also what lies behind an open transaction of another producer.
    C. A partition whose position no longer exists is read again from its beginning, so that a caller that keeps the
       last record of each key misses nothing.

    ``last_error`` is the error that currently prevents progress. New partitions are found at the next ``read_to_end``.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        purpose: str = "log",
        last: int | None = None,
    ) -> None:
        """``last``: read only this many offsets at the end of each partition."""
        self._cluster = cluster
        self._topic = topic
        committed = isolation is IsolationLevel.READ_COMMITTED
        self._transactions: defaultdict[TopicPartition, OpenTransactions] | None
        self._transactions = defaultdict(OpenTransactions) if committed else None
        self._purpose = purpose
        self._last = last
        self._positions: dict[TopicPartition, int] = {}
        self._handed_out: dict[TopicPartition, int] = {}
        self.last_error: ClusterError | None = None

    async def read_to_end(self, *, timeout_ms: int = API_TIMEOUT_MS) -> AsyncIterator[StoredRecord]:
        """Yield the records from the current position to the current end.

        Retries retriable errors. Raises ClusterError if there is no progress for ``timeout_ms``, or immediately for
        other errors.
        """
        ends = await retried(self._ends, self._cluster.settings, timeout_ms=timeout_ms)
        backoff = Backoff.for_retries(self._cluster.settings)
        moved = time.monotonic()
        while missing := [one for one, end in ends.items() if self._positions[one] < end]:
            before = {one: self._positions[one] for one in missing}
            for record in await self._round(missing, wait_ms=0):
                yield record
            self._handed_out = dict(self._positions)
            if any(self._positions[one] != before[one] for one in missing):
                moved = time.monotonic()
                backoff.reset()
                continue
            if time.monotonic() - moved > timeout_ms / 1000:
                raise self.last_error or RequestTimedOut(
                    f"cannot read {missing[0]} to its end: no record received after offset {before[missing[0]]} of"
                    f" {ends[missing[0]]} for {timeout_ms} ms"
                )
            await asyncio.sleep(backoff.next())

    async def follow(self) -> AsyncIterator[StoredRecord]:
        """Yield records from the current position without end, retrying retriable errors. Raises ClusterError."""
        partitions: list[TopicPartition] = []
        backoff = Backoff.for_retries(self._cluster.settings)
        while True:
            try:
                partitions = partitions or list(await self._ends())
                records = await self._round(partitions, wait_ms=_LONG_POLL_MS)
            except ClusterError as error:
                if not error.retriable:
                    raise
                self.last_error, records = error, []
            for record in records:
                yield record
            self._handed_out = dict(self._positions)
            if self.last_error is None:
                backoff.reset()
            else:
                await asyncio.sleep(backoff.next())

    async def catch_up(self, *, timeout_ms: int = API_TIMEOUT_MS) -> None:
        """Wait until the task in `follow` has received everything that is in the topic now. For use by other tasks.

        Raises ClusterError if that takes longer than ``timeout_ms``.
        """
        partitions = list(self._positions)
        answers = await retried(
            lambda: self._offsets(partitions, OffsetSpec.LATEST), self._cluster.settings, timeout_ms=timeout_ms
        )
        deadline = time.monotonic() + timeout_ms / 1000
        while late := [one for one, end in answers.items() if self._handed_out.get(one, -1) < end]:
            if time.monotonic() > deadline:
                raise self.last_error or RequestTimedOut(f"cannot read {late[0]} to its end within {timeout_ms} ms")
            await asyncio.sleep(CAUGHT_UP_LOOK_S)

    async def _ends(self) -> dict[TopicPartition, int]:
        """Return the end of each partition, and set the position of new partitions to their beginning."""
        await self._cluster.refresh([self._topic])
        info = self._cluster.cached_topic(self._topic)
        code = info.error if info else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        right = on_topic(Operation.READ, self._topic, self._cluster.settings.alias)
        check(code, f"read topic {self._topic}", right=right)
        partitions = [TopicPartition(self._topic, one.partition) for one in info.partitions] if info else []
        unread = [one for one in partitions if one not in self._positions]
        starts = await self._offsets(unread, OffsetSpec.EARLIEST)
        ends = await self._offsets(partitions, OffsetSpec.LATEST)
        if self._last is not None:
            starts = {one: max(start, ends[one] - self._last) for one, start in starts.items()}
        self._positions |= starts
        return ends

    async def _offsets(self, partitions: list[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        answers = await list_offsets(self._cluster, partitions, spec, isolation=_ISOLATION, timeout_ms=0)
        for one, answer in answers.items():
            if isinstance(answer, ClusterError):
                raise answer
            found[one] = answer
        return found

    async def _round(self, partitions: list[TopicPartition], *, wait_ms: int) -> list[StoredRecord]:
        """Fetch once from every leader and move positions. Retriable errors set ``last_error``, others are raised."""
        records: list[StoredRecord] = []
        by_leader, unknown = await self._cluster.by_leader(partitions)
        problems = list(unknown.values())
        answers = await asyncio.gather(*(self._fetch(node, led, wait_ms) for node, led in by_leader.items()))
        for found, last_error in answers:
            records += found
            problems += last_error
        for problem in problems:
            if not problem.retriable:
                raise problem
        self.last_error = problems[0] if problems else None
        return records

    async def _fetch(
        self, node_id: int, partitions: list[TopicPartition], wait_ms: int
    ) -> tuple[list[StoredRecord], list[ClusterError]]:
        positions = {one: self._positions[one] for one in partitions}
        records: list[StoredRecord] = []
        problems: list[ClusterError] = []
        try:
            answers = await fetch_records(
                self._cluster,
                node_id,
                positions,
                isolation=_ISOLATION,
                purpose=self._purpose,
                partition_bytes=_PARTITION_BYTES,
                wait_ms=wait_ms,
                transactions=self._transactions,
            )
            for one, fetched in answers.items():
                if not isinstance(fetched, ClusterError):
                    found, self._positions[one] = fetched
                    records += found
                elif isinstance(fetched, BrokerError) and fetched.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    await self._start_again(one)
                else:
                    problems.append(fetched)
        except ClusterError as error:
            problems.append(error)
        return records, problems

    async def _start_again(self, partition: TopicPartition) -> None:
        position = self._positions[partition]
        log.warning(
            "offset %d of %s no longer exists; reading the partition again from its beginning", position, partition
        )
        self._positions |= await self._offsets([partition], OffsetSpec.EARLIEST)
        if self._transactions is not None:
            self._transactions.pop(partition, None)
