"""A few records to internal topics in transactions, under an id of which only the newest holder may write."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from mm2.core.names import TopicPartition
from mm2.kafka.cluster import Cluster, CoordinatorKind
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, ClusterError, check
from mm2.kafka.raw_produce import ProduceRequest
from mm2.kafka.retrying import retried
from mm2.kafka.transaction_requests import NOBODY, InitProducerIdRequest, Producer, add_partition, end

log = logging.getLogger(__name__)

T = TypeVar("T")

_ACKS_ALL = -1
_BATCH_BYTES = 512 * 1024  # below any sensible max.message.bytes (Kafka's default is 1 MiB)
_FIRST_PAUSE_MS = 20  # Java's too: what a coordinator needs to write its markers after a commit
_ANSWER_MS = 10_000  # for one answer: repeating does no harm here, so a silent broker may be asked again sooner
_ABORT_MS = 5_000  # to abort what failed; a broker that is away aborts it by itself, after the transaction's timeout
_HIGHEST_SEQUENCE = 2**31 - 1

_REPLACED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_LOST = frozenset(  # the broker has forgotten us or our transaction: a new epoch, and all of it once more
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,  # unused for transactional.id.expiration.ms, a week
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
_NOTHING_OPEN = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING})


class Fenced(ClusterError):
    """A newer writer has the transactional id: this one may not write any more.

    Also what a broker answers after it gave up on a transaction of ours that took longer than its timeout. Whoever
    makes sure that it is still the one to write may ``begin`` again.
    """


class _Batch(NamedTuple):
    raw: bytes
    records: int


class TransactionalWriter:
    """A. All records of one ``write`` become visible to read_committed readers, or none.
    B. When ``write`` returns, such a reader that looks for the end of the partition finds them before it.
    C. After ``begin``, every writer that began under this id before gets Fenced, and writes nothing visible any more.
       No ``write`` takes the id back: after an error the writer goes on only as the producer it was.
    D. A transaction that failed is aborted: at once, or before the next ``write``, or by the broker after
       ``timeout_ms``.

    ``timeout_ms`` is how long the broker lets a transaction be open, and how long ``begin`` tries; ``write`` tries for
    half of it, so that its abort comes before the broker's. ``write`` may be called side by side: one after the other
    is carried out.
    """

    def __init__(
        self, cluster: Cluster, transactional_id: str, *, timeout_ms: int = 60_000, purpose: str = "transactions"
    ) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._purpose = purpose
        self._settings = replace(cluster.settings, retry_backoff_ms=_FIRST_PAUSE_MS)
        self._answer_ms = min(cluster.settings.request_timeout_ms, _ANSWER_MS)
        self._coordinator: int | None = None
        self._producer = NOBODY
        self._sequences: dict[TopicPartition, int] = {}
        self._perhaps_open = False  # a transaction
        self._epoch_spent = False  # it is not known which sequences of it were used
        self._one_at_a_time = asyncio.Lock()

    async def begin(self, *, timeout_ms: int | None = None) -> None:
        """Take the transactional id: whoever began before is refused from now on, and what it left open is aborted.

        ``timeout_ms`` of this call only; 0 is one attempt. Raises ClusterError: BrokerError with
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED where we are not permitted, NotSupported for a broker before Kafka 2.5.
        """
        async with self._one_at_a_time:
            self._producer = NOBODY
            await self._new_epoch(self._timeout_ms if timeout_ms is None else timeout_ms)
            self._perhaps_open = False

    async def write(self, topic: str, partition: int, records: Sequence[tuple[bytes, bytes | None]]) -> int:
        """One transaction with these records (key, value), with the time of now; the offset of the last one, or -1.

        Raises Fenced; ClusterError, after which it is possible that the records were written, though not likely; and
        BrokerError for what the broker refuses.
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
                log.info("transactional id %s: %s; once more in a new epoch", self._id, error)
            return await self._attempt(TopicPartition(topic, partition), records, deadline)

    def _check_begun(self) -> None:
        if self._producer == NOBODY:
            raise Fenced(f"transactional id {self._id}: not ours, or not ours any more")

    async def _attempt(
        self, partition: TopicPartition, records: Sequence[tuple[bytes, bytes | None]], deadline: float
    ) -> int:
        try:
            await self._settle(deadline)
            return await self._transaction(partition, records, deadline)
        except Fenced:
            self._producer = NOBODY
            raise
        except ClusterError:
            await self._give_up()
            raise

    async def _transaction(
        self, partition: TopicPartition, records: Sequence[tuple[bytes, bytes | None]], deadline: float
    ) -> int:
        first = self._sequences.get(partition, 0)
        batches = _batches(records, self._producer, first)
        last = -1
        self._perhaps_open = self._epoch_spent = True  # until we know better, also if we are cancelled meanwhile
        await self._retried(partial(self._add, partition), deadline)
        for batch in batches:
            base_offset = await self._retried(partial(self._produce, partition, batch), deadline)
            last = base_offset + batch.records - 1
        await self._retried(partial(self._end, commit=True), deadline)
        self._perhaps_open = self._epoch_spent = False
        self._sequences[partition] = _after(first, len(records))
        await self._wait_visible(deadline)
        return last

    async def _wait_visible(self, deadline: float) -> None:
        """Until every marker is written. It is committed, whatever becomes of this."""
        try:
            await self._retried(partial(self._end, commit=True), deadline)
        except ClusterError as error:
            log.info("transactional id %s: committed, but perhaps not yet visible: %s", self._id, error)

    async def _give_up(self) -> None:
        """After a failure: readers wait for a transaction that stays open. Raises Fenced if that is what we learn."""
        try:
            await self._settle(time.monotonic() + _ABORT_MS / 1000)
        except Fenced:
            self._producer = NOBODY
            raise
        except ClusterError as error:
            log.info("transactional id %s: not aborted yet: %s", self._id, error)

    async def _settle(self, deadline: float) -> None:
        """Abort what may be open, and get a new epoch if sequences of this one are not known."""
        if self._perhaps_open:
            await self._retried(self._abort, deadline)
            self._perhaps_open = False
        if self._epoch_spent:
            await self._new_epoch(max(0, round((deadline - time.monotonic()) * 1000)))

    async def _new_epoch(self, timeout_ms: int) -> None:
        self._producer = await retried(self._init, self._settings, timeout_ms=timeout_ms)
        self._sequences.clear()
        self._epoch_spent = False

    async def _retried(self, attempt: Callable[[], Awaitable[T]], deadline: float) -> T:
        left_ms = max(0, round((deadline - time.monotonic()) * 1000))
        return await retried(attempt, self._settings, timeout_ms=left_ms)

    # -- one request each

    async def _init(self) -> Producer:
        request = InitProducerIdRequest(self._id, self._timeout_ms, self._producer)
        answer = await self._ask_coordinator(request)
        self._check(answer.error, f"take the transactional id {self._id}")
        found: Producer = answer.producer
        return found

    async def _add(self, partition: TopicPartition) -> None:
        answer = await self._ask_coordinator(add_partition(self._id, self._producer, partition))
        for _, errors in answer.errors:
            for _, code in errors:
                self._check(code, f"begin a transaction of {self._id} on {partition}")

    async def _end(self, *, commit: bool) -> None:
        answer = await self._ask_coordinator(end(self._id, self._producer, commit=commit))
        self._check(answer.error_code, f"{'commit' if commit else 'abort'} a transaction of {self._id}")

    async def _abort(self) -> None:
        try:
            await self._end(commit=False)
        except BrokerError as error:
            if error.code not in _NOTHING_OPEN:
                raise

    async def _produce(self, partition: TopicPartition, batch: _Batch) -> int:
        leader = await self._cluster.leader(partition)
        request = ProduceRequest(
            acks=_ACKS_ALL,
            timeout_ms=self._answer_ms,
            batches={partition: [batch.raw]},
            transactional_id=self._id,
        )
        # twice the time, for the broker's own timeout to come back as an answer
        answer = await self._cluster.send(
            leader.node_id, request, purpose=self._purpose, timeout_ms=2 * self._answer_ms
        )
        (result,) = answer.partitions
        if result.error:
            self._cluster.forget(partition)
            words = next((words for _, words in result.record_errors if words), None) or result.message
            self._check(result.error, f"write to {partition}", words)
        return int(result.base_offset)

    async def _ask_coordinator(self, request: Any) -> Any:
        if self._coordinator is None:
            self._coordinator = await self._cluster.coordinator(CoordinatorKind.TRANSACTION, self._id)
        try:
            return await self._cluster.send(
                self._coordinator, request, purpose=self._purpose, timeout_ms=self._answer_ms
            )
        except ClusterError:
            self._coordinator = None
            raise

    def _check(self, code: int, what: str, words: str | None = None) -> None:
        if code in _REPLACED:
            raise Fenced(f"{what}: a newer writer has transactional id {self._id}, or the broker gave up on this one")
        if code and code != ErrorCode.CONCURRENT_TRANSACTIONS:
            self._coordinator = None  # it may be another one now
        check(code, what, words)


def _after(sequence: int, records: int) -> int:
    """The sequence so many records later; behind the highest comes 0."""
    return (sequence + records) & _HIGHEST_SEQUENCE


def _batches(records: Sequence[tuple[bytes, bytes | None]], producer: Producer, sequence: int) -> list[_Batch]:
    now_ms = int(time.time() * 1000)
    batches: list[_Batch] = []
    taken = 0
    while taken < len(records):
        builder = DefaultRecordBatchBuilder(2, 0, 1, *producer, _after(sequence, taken), _BATCH_BYTES)
        inside = 0
        for key, value in records[taken:]:
            if builder.append(inside, now_ms, key, value, []) is None:
                break
            inside += 1
        batches.append(_Batch(bytes(builder.build()), inside))
        taken += inside
    return batches
