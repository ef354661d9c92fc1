"""A small producer for state records: heartbeats, offset syncs, source offsets.

It sends produce requests with acks=all and retries until they succeed. It is idempotent (KIP-98): a request that timed
out can still be in a broker's queue, and would otherwise be stored after newer records of the same keys.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from mm2.core.naming.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError, NotSupported
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.produce_request import ProducedPartition, ProduceRequest, init_producer_id
from mm2.kafka.protocol.transaction_requests import NO_PRODUCER, ProducerIdAndEpoch

_BATCH_BYTES = 512 * 1024  # below any sensible max.message.bytes (Kafka's default is 1 MiB)
_RECORD_OVERHEAD = 200  # upper bound for our bookkeeping and the batch's framing
_HEADER_OVERHEAD = 10  # two lengths
_HIGHEST_SEQUENCE = 0x7FFFFFFF  # the next one is 0


Headers = Sequence[tuple[str, bytes | None]]

Finish = Callable[[bytes], bytes]


class RetryLimit(Protocol):
    """Decides how long the retriable errors of one partition are retried."""

    def is_exceeded(self, error: ClusterError, now: float) -> bool:
        """Count a retriable error at ``now`` monotonic seconds, and return whether it is not retried any more."""

    def reset(self) -> None:
        """A batch was stored."""


@dataclass(slots=True, kw_only=True)
class PendingRecord:
    """A record that is not stored yet."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    stored: asyncio.Future[int]
    headers: Headers = ()

    @property
    def size(self) -> int:
        """Its share of the buffer in bytes."""
        headers = sum(len(name) + len(value or b"") + _HEADER_OVERHEAD for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers + _RECORD_OVERHEAD


class ProducerQueue:
    """Records of one partition in order. ``busy``: some are in flight, or a backoff is not over.

    Invariants, from KIP-98: (A) a batch is repeated with the same records, producer ID and sequence until its outcome
    is known, so that the broker drops the copies. (B) A sequence is used for one batch only: if the records of a batch
    are given up, the partition continues with another producer ID.

    ``producer`` is the partition's producer ID; None: it needs another one; `NO_PRODUCER`: write without idempotence.
    ``last_error`` is its last error, until a batch is stored.
    """

    def __init__(self, backoff: Backoff, finish: Finish | None = None, limit: RetryLimit | None = None) -> None:
        """``finish``: makes the batch to write of an uncompressed one. ``limit``: without it retries never end."""
        self.backoff = backoff
        self.last_error: ClusterError | None = None
        self._limit = limit
        self._finish = finish
        self.records: deque[PendingRecord] = deque()
        self.busy = False
        self.producer: ProducerIdAndEpoch | None = None
        self._sequence = 0
        self._batch: bytes | None = None
        self._in_batch = 0

    def failed(self, error: ClusterError, now: float) -> bool:
        """A batch was not stored; return whether to retry it."""
        self.last_error = error
        return error.retriable and not (self._limit is not None and self._limit.is_exceeded(error, now))

    def succeeded(self) -> None:
        """A batch was stored."""
        self.last_error = None
        self.backoff.reset()
        if self._limit is not None:
            self._limit.reset()

    def use(self, producer: ProducerIdAndEpoch) -> None:
        """Number batches from 0 with a producer ID that this partition has not used."""
        self.producer, self._sequence = producer, 0

    def abandon_producer(self) -> None:
        """Give up the producer ID and the batch; its records stay in the queue."""
        self.producer = self._batch = None
        self._in_batch = 0

    def batch(self) -> bytes:
        """Return the batch to write now, with as many records as fit; they stay in the queue until `take_batch`."""
        if self._batch is None:
            producer = self.producer or NO_PRODUCER
            sequence = -1 if producer == NO_PRODUCER else self._sequence
            builder = DefaultRecordBatchBuilder(2, 0, 0, *producer, sequence, _BATCH_BYTES)
            for one in self.records:
                if builder.append(self._in_batch, one.timestamp_ms, one.key, one.value, list(one.headers)) is None:
                    break
                self._in_batch += 1
            batch = bytes(builder.build())
            self._batch = batch if self._finish is None else self._finish(batch)
        return self._batch

    def take_batch(self) -> list[PendingRecord]:
        """Remove and return the records of the batch, because it is stored."""
        taken = [self.records.popleft() for _ in range(self._in_batch)]
        self._sequence = (self._sequence + len(taken)) & _HIGHEST_SEQUENCE
        self._batch, self._in_batch = None, 0
        return taken

    def give_up(self, *, everything: bool) -> list[PendingRecord]:
        """Remove and return the records of the batch, because they cannot be stored.

        These are all records if ``everything``, or if there is no batch.
        """
        count = len(self.records) if everything or self._batch is None else self._in_batch
        given_up = [self.records.popleft() for _ in range(count)]
        self.abandon_producer()
        return given_up


log = logging.getLogger(__name__)

_ACKS_ALL = -1
BUFFER_BYTES = 32 * 1024 * 1024  # Java's buffer.memory
_ROOM_MS = 5_000  # for the broker to report its own timeout (request.timeout.ms)

_PRODUCER_UNKNOWN = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)
"""The broker has lost the state of the producer ID and has not stored the batch, of which no other is in flight."""


class BufferFull(ClusterError):
    """The unsent records exceed the buffer, since the cluster has been unavailable for long."""

    retriable = True


class UnexpectedError(ClusterError):
    """An error of this program while writing; the log has the details."""

    retriable = True


class ControlProducer:
    """An async context manager with one queue per partition.

    A. Records of one partition are stored in the order of ``send``, also after retries: one batch at a time. Each is
       stored once, unless the cluster does not permit idempotent writes, or the producer is closed meanwhile.
    B. Retriable errors are retried with backoff, up to a ``retry_limit`` if there is one; another error fails only the
       records of its batch.
    C. At most ``buffer_bytes`` are buffered.
    D. A broker that throttles gets no request until the throttle time is over: it would not read it earlier, and the
       request's timeout would already run (KIP-219).

    ``last_error`` is the last error while something is being retried, otherwise None. On leaving the context, records
    that are not stored fail with ClusterClosed; call ``flush`` before.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        purpose: str = "control",
        idempotent: bool = True,
        buffer_bytes: int = BUFFER_BYTES,
        finish: Finish | None = None,
        retry_limit: Callable[[], RetryLimit] | None = None,
    ) -> None:
        """``finish``: makes the batch to write of an uncompressed one, such as a compressed one. ``retry_limit``: makes
        the one of a partition."""
        self._cluster = cluster
        self._purpose = purpose
        self._buffer_bytes = buffer_bytes
        self._finish = finish
        self._retry_limit = retry_limit
        self._queues: dict[TopicPartition, ProducerQueue] = {}
        self._producer: ProducerIdAndEpoch | None = None if idempotent else NO_PRODUCER  # for partitions without one
        self._requesting_id = asyncio.Lock()
        self._held = 0
        self._released = asyncio.Event()  # some of it
        self._rounds: set[asyncio.Task[None]] = set()
        self._kicked = False
        self._closed = False
        self._throttled: dict[int, float] = {}  # broker to the end of its throttle time
        self.last_error: ClusterError | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        rounds = list(self._rounds)
        for task in rounds:
            task.cancel()
        if rounds:
            await asyncio.wait(rounds)
        for partition, queue in self._queues.items():
            for one in queue.records:
                if not one.stored.done():
                    one.stored.set_exception(
                        ClusterClosed(f"the producer was closed before a record for {partition} was written")
                    )
                    one.stored.exception()  # mark as retrieved: callers need not await a closed producer
        self._queues.clear()
        self._released.set()

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[int]:
        """Queue a record. The future returns its offset once all in-sync replicas have it, or raises ClusterError.

        ``timestamp_ms`` is epoch ms; the default is now. Raises BufferFull, ClusterClosed after the end, and, as
        Java's KafkaProducer, MESSAGE_TOO_LARGE as BrokerError for a record that is larger than the buffer.
        """
        if self._closed:
            raise ClusterClosed("the producer is closed")
        record = PendingRecord(
            key=key,
            value=value,
            timestamp_ms=int(time.time() * 1000) if timestamp_ms is None else timestamp_ms,
            stored=asyncio.get_running_loop().create_future(),
            headers=headers,
        )
        size = record.size
        if size > self._buffer_bytes:
            raise BrokerError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"write to {TopicPartition(topic, partition)}",
                f"the record of {size} bytes is larger than the producer's buffer of {self._buffer_bytes} bytes",
            )
        if self._held + size > self._buffer_bytes:
            raise BufferFull(f"buffer full ({self._held} bytes unsent): {self.last_error or 'the cluster is too slow'}")
        self._held += size
        self._queue(TopicPartition(topic, partition)).records.append(record)
        self._kick_soon()  # after the caller has yielded, so that records sent together share a request
        return record.stored

    async def room(self) -> None:
        """Wait, after BufferFull, until records were stored or have failed, or the producer is closed.

        Unlike `flush`, it costs the same however many records are queued.
        """
        self._released.clear()
        await self._released.wait()

    def error_of(self, partition: TopicPartition) -> ClusterError | None:
        """Return the last error of a partition, if nothing was stored in it since then."""
        queue = self._queues.get(partition)
        return queue.last_error if queue is not None else None

    @property
    def throttled(self) -> float:
        """Remaining seconds of a broker's throttle time; 0: none."""
        return max(0.0, max(self._throttled.values(), default=0.0) - time.monotonic())

    async def flush(self, timeout: float) -> bool:
        """Wait until everything sent so far is stored or has failed; return False after ``timeout`` seconds."""
        waiting = [record.stored for queue in self._queues.values() for record in queue.records]
        if not waiting:
            return True
        _, late = await asyncio.wait(waiting, timeout=timeout)
        return not late

    def _queue(self, partition: TopicPartition) -> ProducerQueue:
        queue = self._queues.get(partition)
        if queue is None:
            limit = self._retry_limit() if self._retry_limit is not None else None
            queue = self._queues[partition] = ProducerQueue(
                Backoff.for_retries(self._cluster.settings), self._finish, limit
            )
        return queue

    def _kick_soon(self) -> None:
        if not self._kicked:
            self._kicked = True
            asyncio.get_running_loop().call_soon(self._kick)

    def _kick(self) -> None:
        """Send what is queued for partitions that are not busy."""
        self._kicked = False
        ready = [one for one, queue in self._queues.items() if queue.records and not queue.busy]
        if ready and not self._closed:
            for one in ready:
                self._queues[one].busy = True
            task = asyncio.create_task(self._complete(self._round, ready))
            self._rounds.add(task)
            task.add_done_callback(self._rounds.discard)

    def _free(self, partition: TopicPartition) -> None:
        queue = self._queues.get(partition)
        if queue is not None:
            queue.busy = False
            self._kick_soon()

    async def _complete(
        self, step: Callable[[set[TopicPartition]], Awaitable[None]], partitions: list[TopicPartition]
    ) -> None:
        """Run a step of a round for these partitions, and then fail those that it has left in its argument.

        No partition stays busy, whatever happens.
        """
        left = set(partitions)
        error: ClusterError = UnexpectedError("the broker's response lacks the partition")
        try:
            await step(left)
        except ClusterError as raised:
            error = raised
        except Exception as raised:
            log.exception("unexpected error while writing to %s; retrying", ", ".join(map(str, sorted(left))))
            error = UnexpectedError(f"unexpected error while writing (see the log): {raised!r}")
        for one in left:
            self._failed(one, error)

    async def _round(self, left: set[TopicPartition]) -> None:
        """Send one batch for each partition; each is freed as soon as its leader has answered."""
        await self._give_producer_ids(left)
        by_leader, unknown = await self._cluster.by_leader(list(left))
        left.clear()
        for one, error in unknown.items():
            self._failed(one, error, everything=True)
        await asyncio.gather(
            *(self._complete(partial(self._produce, node_id), led) for node_id, led in by_leader.items())
        )

    async def _produce(self, node_id: int, left: set[TopicPartition]) -> None:
        await asyncio.sleep(max(0.0, self._throttled.get(node_id, 0.0) - time.monotonic()))
        batches = {one: [self._queues[one].batch()] for one in left}
        broker_waits_ms = self._cluster.settings.request_timeout_ms
        request = ProduceRequest(acks=_ACKS_ALL, timeout_ms=broker_waits_ms, batches=batches)
        answer = await self._cluster.send(
            node_id, request, purpose=self._purpose, timeout_ms=broker_waits_ms + _ROOM_MS
        )
        self._throttled[node_id] = time.monotonic() + answer.throttle_ms / 1000
        for result in answer.partitions:
            one = TopicPartition(result.topic, result.partition)
            if one in left:
                left.remove(one)
                self._apply(one, result)

    def _apply(self, partition: TopicPartition, result: ProducedPartition) -> None:
        refused = result.broker_error(self._cluster.settings.alias)
        if refused is None or refused.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._stored(partition, result.base_offset)
            return
        self._cluster.forget(partition)
        queue = self._queues[partition]
        idempotent = queue.producer != NO_PRODUCER
        if idempotent and refused.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            self._disable_idempotence(refused)
            queue.abandon_producer()
            self._free(partition)
        elif idempotent and refused.code in _PRODUCER_UNKNOWN:
            if self._producer == queue.producer:
                self._producer = None
            queue.abandon_producer()
            self._failed(partition, UnexpectedError(f"{refused}; retrying with another producer ID"))
        else:
            self._failed(partition, refused)

    def _stored(self, partition: TopicPartition, base_offset: int) -> None:
        queue = self._queues[partition]
        for index, record in enumerate(queue.take_batch()):
            self._release(record)
            if not record.stored.done():  # the caller may have given up waiting
                record.stored.set_result(base_offset + index if base_offset >= 0 else -1)
        queue.succeeded()
        self.last_error = None
        self._free(partition)

    def _release(self, record: PendingRecord) -> None:
        self._held -= record.size
        self._released.set()

    def _failed(self, partition: TopicPartition, error: ClusterError, *, everything: bool = False) -> None:
        """Retry after the backoff if the error is retriable and within the limit; otherwise fail the batch's records.

        ``everything``: fail all records, because the error concerns the partition rather than the batch.
        """
        self.last_error = error
        queue = self._queues[partition]
        if queue.failed(error, time.monotonic()):
            asyncio.get_running_loop().call_later(queue.backoff.next(), self._free, partition)
            return
        if self._producer == queue.producer != NO_PRODUCER:
            self._producer = None  # this partition must not use it again
        for record in queue.give_up(everything=everything):
            self._release(record)
            if not record.stored.done():
                record.stored.set_exception(error)
        self._free(partition)

    # -- producer IDs

    async def _give_producer_ids(self, partitions: set[TopicPartition]) -> None:
        """Give each partition without a producer ID one that it has not used. Raises ClusterError."""
        lacking = [self._queues[one] for one in partitions if self._queues[one].producer is None]
        if not lacking:
            return
        async with self._requesting_id:
            if self._producer is None:
                await self._request_id()
            assert self._producer is not None
            for queue in lacking:
                queue.use(self._producer)

    async def _request_id(self) -> None:
        try:
            self._producer = ProducerIdAndEpoch(*await init_producer_id(self._cluster, purpose=self._purpose))
        except NotSupported as error:
            self._disable_idempotence(error)
        except BrokerError as error:
            if error.retriable:
                raise
            self._disable_idempotence(error)

    def _disable_idempotence(self, error: ClusterError) -> None:
        if self._producer != NO_PRODUCER:
            self._producer = NO_PRODUCER
            log.warning(
                "writing internal records without idempotence, so that they can be stored twice or in another order"
                " when a broker fails: %s; grant IDEMPOTENT_WRITE on the cluster",
                error,
            )
