"""The producer of one source task's transactions, with all that its coordinator is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TypeVar

from flows.batch.target_batch import ProducerId
from flows.partition.replicator import PartitionReplicator
from flows.partition.timeouts import TIMEOUTS, Timeouts
from mm2.core.lanes.lease import TaskProducer
from mm2.core.naming.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.logs.record_writer import NotWritten, Records, RecordWriter
from mm2.kafka.logs.transaction_coordinator import Fenced, TransactionCoordinator
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.transaction_requests import ProducerIdAndEpoch

T = TypeVar("T")

PURPOSE = "transactions"
"""Not the connection of the records: its requests would wait for theirs."""

_CONCURRENT_MS, _CONCURRENT_MAX_MS = 4, 20  # the coordinator is still writing the markers of the last transaction

_REFUSED = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
_CANNOT_COMMIT = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""The transaction cannot be committed any more, but the producer can continue with the next epoch."""


class CannotCommit(Exception):
    """The open transaction has to be aborted. ``late``: partitions whose batches were not acknowledged in time."""

    def __init__(self, reason: str, late: Collection[PartitionReplicator] = ()) -> None:
        super().__init__(reason)
        self.late = late


class TransactionalProducer:
    """Each call is repeated until it succeeds; ``error`` is why that takes long.

    All raise Fenced when another owner has acquired the transactional id, or when the broker has timed the transaction
    out, and other ClusterErrors that are final. Without a transaction, `CannotCommit` is not raised.
    """

    def __init__(
        self, cluster: Cluster, producer: TaskProducer, *, timeout_ms: int, timeouts: Timeouts = TIMEOUTS
    ) -> None:
        self._report_after_s = timeouts.unanswered_report_s
        self.transactional_id = producer.transactional_id
        self.error: str | None = None
        self.is_confirmed = True
        """Whether the markers of the last transaction are written: everybody reads what it has committed."""
        self._settings = cluster.settings
        self._coordinator = TransactionCoordinator(
            cluster, producer.transactional_id, timeout_ms=timeout_ms, purpose=PURPOSE
        )
        self._producer = ProducerIdAndEpoch(producer.producer_id, producer.epoch)
        self._writer = RecordWriter(cluster, self._coordinator, producer.transactional_id, purpose=PURPOSE)
        self._failure: ClusterError | None = None

    @property
    def id(self) -> ProducerId:
        """The current producer id and epoch."""
        return ProducerId(*self._producer, transactional=True)

    def fail(self, reason: str) -> None:
        """Let the current call, and all later ones, raise ClusterError."""
        self._failure = ClusterError(reason)

    def check(self) -> None:
        """Raise the error of `fail`."""
        if self._failure is not None:
            raise self._failure

    async def next_epoch(self) -> ProducerId:
        """Continue with the next epoch (KIP-360), after the last transaction has ended. Nothing may be in flight."""
        self._producer = await self._retried(partial(self._coordinator.init, self._producer))
        self.is_confirmed = True  # the coordinator answers only when the last transaction has ended
        self._writer.new_epoch()
        return self.id

    async def add(self, outputs: set[TopicPartition]) -> dict[TopicPartition, int]:
        """Add partitions to the transaction; return the error codes of those that were refused: then none was added.

        Raises CannotCommit.
        """
        return await self._retried(partial(self._try_add, outputs), in_transaction=True) if outputs else {}

    async def write(self, records: Mapping[TopicPartition, Records], *, deadline: float) -> None:
        """Write records (key, value) in the transaction. Raises NotWritten."""
        try:
            await self._writer.write(self._producer, records, deadline=deadline)
        except NotWritten as failed:
            if isinstance(failed.error, Fenced | ClusterClosed):
                raise failed.error from failed
            raise

    async def commit(self) -> None:
        """Commit the transaction. From now on it is never aborted."""
        self.is_confirmed = False
        await self._retried(partial(self._coordinator.commit, self._producer))

    async def confirm(self) -> None:
        """Wait until the markers of the last transaction are written; until then, a repeated commit is refused."""
        if not self.is_confirmed:
            await self._retried(partial(self._coordinator.commit, self._producer))
            self.is_confirmed = True

    async def abort(self) -> None:
        """Abort the transaction, if one is open."""
        await self._retried(partial(self._coordinator.abort, self._producer))

    async def _try_add(self, outputs: set[TopicPartition]) -> dict[TopicPartition, int]:
        codes = await self._coordinator.try_add(self._producer, outputs)
        refused = {place: code for place, code in codes.items() if code in _REFUSED}
        for place, code in codes.items():
            if place not in refused:
                what = f"add {place} to a transaction of {self.transactional_id}"
                self._coordinator.check(code, what, topic=place.topic)
        return refused

    async def _retried(self, attempt: Callable[[], Awaitable[T]], *, in_transaction: bool = False) -> T:
        concurrent, others = Backoff(_CONCURRENT_MS, _CONCURRENT_MAX_MS), Backoff.for_retries(self._settings)
        report_at = time.monotonic() + self._report_after_s
        while True:
            self.check()
            try:
                result = await attempt()
            except (Fenced, ClusterClosed):
                raise
            except ClusterError as error:
                code = error.code if isinstance(error, BrokerError) else None
                if in_transaction and code in _CANNOT_COMMIT:
                    raise CannotCommit(str(error)) from error
                if not error.retriable:
                    raise
                if time.monotonic() > report_at:
                    self.error = f"cannot commit transactions of {self.transactional_id}: {error}"
                pause = (concurrent if code == ErrorCode.CONCURRENT_TRANSACTIONS else others).next()
                await asyncio.sleep(pause)
            else:
                self.error = None
                return result
