"""Finds the records that a lost owner of a source task copied after it last stored its offsets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import Segment
from mm2.core.problems.grouped_problems import PlacedProblem, grouped
from mm2.core.settings.client import IsolationLevel
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.record_stream import records_between
from mm2.kafka.logs.stored_records import StoredRecord

log = logging.getLogger(__name__)

SEARCH_S = 3.0
"""Limit for all partitions of a source task, since nothing is copied meanwhile: what is not found is copied again."""

RECORDS = 20_000
"""Limit for one partition: comparing takes about 20 µs for each record."""

AT_ONCE = 8
"""Partitions that are compared at the same time."""

_PURPOSE = "uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEnd:
    """Where copying of a partition had arrived when its offset was stored.

    ``position``: the next source offset. ``remote_position``: the target offset after the last record before it.
    """

    source: TopicPartition
    remote: TopicPartition
    position: int
    remote_position: int


def remote_position(segment: Segment, position: int) -> int | None:
    """Return the target offset after the copy of the last record before source offset ``position``, if it is known."""
    for copied in reversed(segment.ranges):
        if copied.upstream < position <= copied.upstream_end:
            return copied.downstream + position - copied.upstream
    last = segment.ranges[-1] if segment.ranges else None
    if last is not None and last.upstream_end <= position <= segment.through:
        return last.downstream_end
    packed = segment.packed
    if packed is not None and packed.upstream < position <= packed.upstream_end:
        copied_before = packed.before(position)
        if copied_before.upstream_end == position:
            return copied_before.downstream_end
    return None


class UncommittedCopies:
    """Finds the source offset up to which a remote partition contains every record.

    (A) Records count as copied only if the remote partition contains nothing behind the copy of the last record whose
        offset is stored, except these records, all of them, in their order and with the same content. With anything
        else there, a repeated or foreign record for example, the offset stays: copying all of them again makes the last
        value of each key the right one.
    (B) The previous owners must be fenced, so that the remote partition does not change meanwhile.
    """

    def __init__(self, settings: FlowSettings, target: Cluster) -> None:
        """``target`` has the settings of the producers of records."""
        self._settings = settings
        self._target = target
        self._limit = asyncio.Semaphore(AT_ONCE)

    async def find(self, ends: Collection[StoredEnd]) -> dict[TopicPartition, int]:
        """Return the next source offset to copy, for the partitions where it is after the stored one."""
        found: dict[TopicPartition, int] = {}
        failed: list[PlacedProblem] = []

        async def one(end: StoredEnd) -> None:
            async with self._limit:
                position = await self._find(source, end, failed)
            if position > end.position:
                found[end.source] = position

        settings = self._settings.clients.of(ClientRole.REPLICATION_CONSUMER)
        try:
            async with asyncio.timeout(SEARCH_S), Cluster(settings) as source, asyncio.TaskGroup() as tasks:
                for end in ends:
                    tasks.create_task(one(end))
        except TimeoutError:
            log.info("%s: not all remote partitions could be compared within %.0f s", self._settings.flow, SEARCH_S)
        except Exception:  # comparing is optional: without it, records are copied again
            log.exception("%s: unexpected error while comparing remote partitions", self._settings.flow)
        for cause in grouped(failed):
            log.info("%s: cannot compare %s with the copies: %s", self._settings.flow, cause.place, cause.reason)
        return found

    async def _find(self, source: Cluster, end: StoredEnd, failed: list[PlacedProblem]) -> int:
        try:
            copies = await self._records(self._target, end.remote, end.remote_position)
            originals = await self._records(source, end.source, end.position)
            position = end.position
            async for copy in copies:
                original = await anext(originals, None)
                for one in (original, copy):
                    if one is not None and one.problem is not None:
                        raise _Unknown(f"offset {one.offset}: {one.problem}")  # noqa: TRY301
                if original is None or not _same(original, copy):
                    return end.position
                position = original.offset + 1
        except _Unknown as reason:
            failed.append(not_compared(end.source, end.remote, str(reason)))
        except ClusterError as error:
            failed.append(not_compared(end.source, end.remote, str(error)))
        else:
            return position
        return end.position

    async def _records(self, cluster: Cluster, partition: TopicPartition, start: int) -> AsyncIterator[StoredRecord]:
        """Return the records from ``start`` to the current end: of the source as the flow reads it, of the target all.

        Raises _Unknown if the target has records of open transactions, or too many records.
        """
        is_target = cluster is self._target
        isolation = IsolationLevel.READ_COMMITTED if is_target else self._settings.clients.fetch.isolation_level
        end = await _end(cluster, partition, isolation)
        if is_target and end != await _end(cluster, partition, IsolationLevel.READ_UNCOMMITTED):
            raise _Unknown("it has an open transaction")
        if is_target and end - start > RECORDS:
            raise _Unknown(f"more than {RECORDS} records")
        return records_between(cluster, partition, start, end, isolation=isolation, purpose=_PURPOSE)


def not_compared(source: TopicPartition, remote: TopicPartition, reason: str) -> PlacedProblem:
    """Return why ``source`` was not compared with its copy, to be grouped by cause."""
    return PlacedProblem(
        state=TaskState.RUNNING,
        topic=source.topic,
        remote_topic=remote.topic,
        partition=source.partition,
        reason=reason,
    )


class _Unknown(Exception):
    """It cannot be found out what the remote partition contains."""


async def _end(cluster: Cluster, partition: TopicPartition, isolation: IsolationLevel) -> int:
    ends = await list_offsets(cluster, [partition], OffsetSpec.LATEST, isolation=isolation, timeout_ms=1_000)
    end = ends[partition]
    if isinstance(end, ClusterError):
        raise end
    return end


def _same(original: StoredRecord, copy: StoredRecord) -> bool:
    return (original.key, original.value, original.headers, original.timestamp) == (
        copy.key,
        copy.value,
        copy.headers,
        copy.timestamp,
    )
