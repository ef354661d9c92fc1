"""Transactional writes of a few records to internal topics, fenced by transactional id."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.logs.record_writer import NotWritten, RecordWriter
from mm2.kafka.logs.transaction_coordinator import Fenced, TransactionCoordinator
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.transaction_requests import NO_PRODUCER
from mm2.kafka.retrying import retried_until

log = logging.getLogger(__name__)

_FIRST_PAUSE_MS = 20  # as in Java: the time a coordinator needs to write its markers after a commit
_ABORT_MS = 5_000  # to abort after a failure; otherwise the broker aborts after the transaction's timeout

_LOST = frozenset(  # the broker lost our producer state or transaction: retry all of it with a new epoch
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,  # unused for transactional.id.expiration.ms, a week
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


class TransactionalWriter:
    """Writes records in transactions; fences earlier writers with the same transactional id.

    A. All records of one ``write`` become visible to read_committed readers, or none.
    B. When ``write`` returns, the partition's end for such a reader is after these records.
    C. After ``begin``, every earlier writer with this id gets Fenced, and writes nothing visible any more. No ``write``
       takes the id back: after an error the writer continues only as the same producer.
    D. A failed transaction is aborted: immediately, before the next ``write``, or by the broker after ``timeout_ms``.

    ``timeout_ms`` is the broker's transaction timeout and the limit for ``begin``; ``write`` retries for half of it, so
    that it aborts before the broker does. Concurrent calls of ``write`` are executed one after the other.
    """

    def __init__(
        self, cluster: Cluster, transactional_id: str, *, timeout_ms: int = 60_000, purpose: str = "transactions"
    ) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._settings = replace(cluster.settings, retry_backoff_ms=_FIRST_PAUSE_MS)
        self._coordinator = TransactionCoordinator(cluster, transactional_id, timeout_ms=timeout_ms, purpose=purpose)
        self._writer = RecordWriter(
            cluster, self._coordinator, transactional_id, purpose=purpose, first_pause_ms=_FIRST_PAUSE_MS
        )
        self._producer = NO_PRODUCER
        self._perhaps_open = False  # a transaction
        self._epoch_spent = False  # unknown which of its sequences were used
        self._one_at_a_time = asyncio.Lock()

    async def begin(self, *, timeout_ms: int | None = None) -> None:
        """Acquire the transactional id: earlier writers are fenced, and their open transactions aborted.

        ``timeout_ms`` of this call only; 0 is one attempt. Raises ClusterError: BrokerError with
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED without permission, NotSupported for brokers older than Kafka 2.5.
        """
        async with self._one_at_a_time:
            self._producer = NO_PRODUCER
            await self._new_epoch(time.monotonic() + (self._timeout_ms if timeout_ms is None else timeout_ms) / 1000)
            self._perhaps_open = False

    async def write(self, topic: str, partition: int, records: Sequence[tuple[bytes, bytes | None]]) -> int:
        """Write these records (key, value) in one transaction, timestamped now. Return the last offset; -1 if empty.

        Raises Fenced; BrokerError if the broker rejects the write; another ClusterError, after which the records may
        have been written, though that is unlikely.
        """
        if not records:
            return -1
        async with self._one_at_a_time:
            self._check_begun()
            deadline = time.monotonic() + self._timeout_ms / 2000
            try:
                return await self._attempt(TopicPartition(topic, partition), records, deadline)
            except BrokerError as error:
                if error.code not in _LOST:
                    raise
                log.info("transactional id %s: %s; retrying with a new producer epoch", self._id, error)
            return await self._attempt(TopicPartition(topic, partition), records, deadline)

    def _check_begun(self) -> None:
        if self._producer == NO_PRODUCER:
            raise Fenced(f"transactional id {self._id}: not held by this producer (fenced by a newer one?)")

    async def _attempt(
        self, partition: TopicPartition, records: Sequence[tuple[bytes, bytes | None]], deadline: float
    ) -> int:
        try:
            await self._settle(deadline)
            return await self._transaction(partition, records, deadline)
        except Fenced:
            self._producer = NO_PRODUCER
            raise
        except ClusterError:
            await self._give_up()
            raise

    async def _transaction(
        self, partition: TopicPartition, records: Sequence[tuple[bytes, bytes | None]], deadline: float
    ) -> int:
        self._perhaps_open = self._epoch_spent = True  # until the commit succeeded, also in case of cancellation
        await retried_until(partial(self._coordinator.add, self._producer, [partition]), self._settings, deadline)
        try:
            last = await self._writer.write(self._producer, {partition: records}, deadline=deadline)
        except NotWritten as failed:
            raise failed.error from failed
        await retried_until(partial(self._coordinator.commit, self._producer), self._settings, deadline)
        self._perhaps_open = self._epoch_spent = False
        await self._wait_visible(deadline)
        return last[partition]

    async def _wait_visible(self, deadline: float) -> None:
        """Wait until every marker is written. The transaction is committed even if this fails."""
        try:
            await retried_until(partial(self._coordinator.commit, self._producer), self._settings, deadline)
        except ClusterError as error:
            log.info("transactional id %s: transaction committed, but possibly not visible yet: %s", self._id, error)

    async def _give_up(self) -> None:
        """Abort after a failure, since an open transaction blocks readers. Raises Fenced if the writer was fenced."""
        try:
            await self._settle(time.monotonic() + _ABORT_MS / 1000)
        except Fenced:
            self._producer = NO_PRODUCER
            raise
        except ClusterError as error:
            log.info("transactional id %s: transaction not aborted yet: %s", self._id, error)

    async def _settle(self, deadline: float) -> None:
        """Abort a transaction that may be open, and get a new epoch if the sequences of this one are unknown."""
        if self._perhaps_open:
            await retried_until(partial(self._coordinator.abort, self._producer), self._settings, deadline)
            self._perhaps_open = False
        if self._epoch_spent:
            await self._new_epoch(deadline)

    async def _new_epoch(self, deadline: float) -> None:
        init = partial(self._coordinator.init, self._producer)
        self._producer = await retried_until(init, self._settings, deadline)
        self._writer.new_epoch()
        self._epoch_spent = False
