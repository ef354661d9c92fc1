"""A small producer for the records we keep state in: heartbeats, offset syncs, source offsets.

Plain produce requests with acks=all, repeated until they work. A record may therefore be stored twice; that is
harmless, because these records are read by key and the last one counts.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from mm2.core.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.metadata import Leader
from mm2.kafka.raw_produce import ProduceRequest

_ACKS_ALL = -1
_BATCH_BYTES = 512 * 1024  # below any sensible max.message.bytes (Kafka's default is 1 MiB)
_BUFFER_BYTES = 32 * 1024 * 1024  # Java's buffer.memory
_RECORD_OVERHEAD = 200  # our bookkeeping and the batch's framing, generously
_ROOM_MS = 5_000  # for the broker's own timeout (request.timeout.ms) to come back as an answer


class BufferFull(ClusterError):
    """More waits to be sent than we are willing to hold; the cluster has been away for long."""

    retriable = True


@dataclass(slots=True, kw_only=True)
class _Pending:
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    stored: asyncio.Future[int]

    @property
    def size(self) -> int:
        return len(self.key or b"") + len(self.value or b"") + _RECORD_OVERHEAD


@dataclass(slots=True)
class _Queue:
    """Records of one partition in order. ``busy``: some of them are on their way, or it waits out a backoff."""

    backoff: Backoff
    records: deque[_Pending] = field(default_factory=deque)
    busy: bool = False

    def batch(self) -> tuple[bytes, list[_Pending]]:
        """The longest head of the queue that fits one batch, which stays in the queue until it is stored."""
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, _BATCH_BYTES)
        taken: list[_Pending] = []
        for one in self.records:
            if builder.append(len(taken), one.timestamp_ms, one.key, one.value, []) is None:
                break
            taken.append(one)
        return bytes(builder.build()), taken


class ControlProducer:
    """A. Records of one partition are stored in the order of ``send``, also through retries: one batch at a time.
    B. A retriable error is retried for ever with backoff; another error fails the records of its batch, and only those.
    C. What is held is at most 32 MiB.
    D. A broker that throttles is sent nothing before the time it named is over: it would only read it then, and the
       request's time limit would run meanwhile (KIP-219).

    ``trouble`` is the last error while something is being retried, None when all goes well. On leaving the context,
    what is not stored fails with ClusterClosed; call ``flush`` before.
    """

    def __init__(self, cluster: Cluster, *, purpose: str = "control") -> None:
        self._cluster = cluster
        self._purpose = purpose
        self._queues: dict[TopicPartition, _Queue] = {}
        self._held = 0
        self._rounds: set[asyncio.Task[None]] = set()
        self._kicked = False
        self._closed = False
        self._throttled: dict[int, float] = {}  # broker to when it takes records again
        self.trouble: ClusterError | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        rounds = list(self._rounds)
        for task in rounds:
            task.cancel()
        if rounds:
            await asyncio.wait(rounds)
        for partition, queue in self._queues.items():
            for one in queue.records:
                if not one.stored.done():
                    one.stored.set_exception(ClusterClosed(f"closed before a record for {partition} was stored"))
                    one.stored.exception()  # seen: nobody has to wait for a closed producer
        self._queues.clear()

    def send(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, *, timestamp_ms: int | None = None
    ) -> asyncio.Future[int]:
        """Queue a record; the future gives its offset once all in-sync replicas have it, or ClusterError.

        ``timestamp_ms`` is epoch ms, by default now. Raises BufferFull, and ClusterClosed after the end.
        """
        if self._closed:
            raise ClusterClosed("the producer is closed")
        record = _Pending(
            key=key,
            value=value,
            timestamp_ms=int(time.time() * 1000) if timestamp_ms is None else timestamp_ms,
            stored=asyncio.get_running_loop().create_future(),
        )
        if self._held + record.size > _BUFFER_BYTES:
            raise BufferFull(f"{self._held} bytes wait to be stored: {self.trouble or 'the cluster is too slow'}")
        self._held += record.size
        self._queue(TopicPartition(topic, partition)).records.append(record)
        self._kick_soon()  # after the caller let go: records sent together travel together
        return record.stored

    @property
    def throttled(self) -> float:
        """Seconds for which a broker's quota still holds records up; 0 when none does."""
        return max(0.0, max(self._throttled.values(), default=0.0) - time.monotonic())

    async def flush(self, timeout: float) -> bool:
        """Wait until everything sent so far is stored or failed; False when ``timeout`` seconds were not enough."""
        waiting = [record.stored for queue in self._queues.values() for record in queue.records]
        if not waiting:
            return True
        _, late = await asyncio.wait(waiting, timeout=timeout)
        return not late

    def _queue(self, partition: TopicPartition) -> _Queue:
        queue = self._queues.get(partition)
        if queue is None:
            settings = self._cluster.settings
            queue = _Queue(Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms))
            self._queues[partition] = queue
        return queue

    def _kick_soon(self) -> None:
        if not self._kicked:
            self._kicked = True
            asyncio.get_running_loop().call_soon(self._kick)

    def _kick(self) -> None:
        """Send what is waiting and not held up."""
        self._kicked = False
        ready = [one for one, queue in self._queues.items() if queue.records and not queue.busy]
        if ready and not self._closed:
            for one in ready:
                self._queues[one].busy = True
            task = asyncio.create_task(self._round(ready))
            self._rounds.add(task)
            task.add_done_callback(self._rounds.discard)

    def _free(self, partition: TopicPartition) -> None:
        queue = self._queues.get(partition)
        if queue is not None:
            queue.busy = False
            self._kick_soon()

    async def _round(self, partitions: list[TopicPartition]) -> None:
        """One batch for each partition. Each is freed as soon as its own leader has answered."""
        try:
            leaders = await self._cluster.leaders(partitions)
        except ClusterError as error:
            for one in partitions:
                self._failed(one, error, list(self._queues[one].records))
            return
        by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for one, leader in leaders.items():
            if isinstance(leader, Leader):
                by_leader[leader.node_id].append(one)
            else:
                self._failed(one, leader, list(self._queues[one].records))
        await asyncio.gather(*(self._produce(node_id, led) for node_id, led in by_leader.items()))

    async def _produce(self, node_id: int, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(max(0.0, self._throttled.get(node_id, 0.0) - time.monotonic()))
        batches: dict[TopicPartition, list[bytes]] = {}
        taken: dict[TopicPartition, list[_Pending]] = {}
        for one in partitions:
            batch, taken[one] = self._queues[one].batch()
            batches[one] = [batch]
        broker_waits_ms = self._cluster.settings.request_timeout_ms
        request = ProduceRequest(acks=_ACKS_ALL, timeout_ms=broker_waits_ms, batches=batches)
        try:
            answer = await self._cluster.send(
                node_id, request, purpose=self._purpose, timeout_ms=broker_waits_ms + _ROOM_MS
            )
        except ClusterError as error:
            for one, records in taken.items():
                self._failed(one, error, records)
            return
        self._throttled[node_id] = time.monotonic() + answer.throttle_ms / 1000
        for result in answer.partitions:
            one = TopicPartition(result.topic, result.partition)
            if result.error:
                words = next((words for _, words in result.record_errors if words), None) or result.message
                self._cluster.forget(one)
                self._failed(one, BrokerError(result.error, f"write to {one}", words), taken[one])
            else:
                self._stored(one, result.base_offset, taken[one])

    def _stored(self, partition: TopicPartition, base_offset: int, records: list[_Pending]) -> None:
        queue = self._queues[partition]
        for index, record in enumerate(records):
            queue.records.popleft()
            self._held -= record.size
            if not record.stored.done():  # the caller may have given up waiting
                record.stored.set_result(base_offset + index)
        queue.backoff.reset()
        self.trouble = None
        self._free(partition)

    def _failed(self, partition: TopicPartition, error: ClusterError, records: list[_Pending]) -> None:
        """Retriable: again after the backoff. Otherwise the end of these records, the head of the queue."""
        self.trouble = error
        queue = self._queues[partition]
        if error.retriable:
            asyncio.get_running_loop().call_later(queue.backoff.next(), self._free, partition)
            return
        for record in records:
            queue.records.popleft()
            self._held -= record.size
            if not record.stored.done():
                record.stored.set_exception(error)
        self._free(partition)
