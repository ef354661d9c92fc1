"""A partition whose records are routed, with a producer whose outcomes the test decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from flows.batch.decoded import MAX_RECORD
from flows.partition.replicator import PartitionReplicator
from flows.routing.partition_router import Handle
from flows.routing.router import RecordRouter
from flows.source.record_limits import RecordLimits
from mm2.core.lanes.lease import PartitionLease
from mm2.core.mirror1.user_class import SourceRecord, TargetRecord
from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.logs.control_producer import BufferFull, ControlProducer
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.lab.waiting import until
from tests.unit.flows.replicators import RecordingListener, replicator_of

SOON = 5.0


class Outbox:
    """The records that were sent, by source offset, each until its outcome is decided."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, asyncio.Future[int]]] = []
        self.has_room = asyncio.Event()
        self.has_room.set()
        self.waiting = 0  # for room
        self.buffer_bytes = 1_000
        self.last_error: ClusterError | None = None

    def send(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, **options: Any
    ) -> asyncio.Future[int]:
        if value is not None and len(value) > self.buffer_bytes:
            raise BrokerError(ErrorCode.MESSAGE_TOO_LARGE, f"write to {topic}-{partition}")
        if not self.has_room.is_set():
            raise BufferFull("buffer full")
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.sent.append((int(key or b""), future))
        return future

    def error_of(self, partition: TopicPartition) -> ClusterError | None:
        return self.last_error

    async def room(self) -> None:
        self.waiting += 1
        await self.has_room.wait()
        self.waiting -= 1

    @property
    def offsets(self) -> list[int]:
        """All that was sent, in order."""
        return [offset for offset, _ in self.sent]

    @property
    def pending(self) -> list[int]:
        """What is neither stored nor rejected."""
        return [offset for offset, future in self.sent if not future.done()]

    async def sends(self, *offsets: int) -> None:
        """Wait until exactly these were sent, in this order."""
        await until(lambda: self.offsets == list(offsets), SOON, f"{offsets} are sent")

    def store(self, *offsets: int) -> None:
        """Acknowledge these records, or all."""
        for offset, future in self.sent:
            if not future.done() and (not offsets or offset in offsets):
                future.set_result(offset)

    def reject(self, error: ClusterError, *offsets: int) -> None:
        """Reject these records."""
        for offset, future in self.sent:
            if not future.done() and offset in offsets:
                future.set_exception(error)


class Routed:
    """A partition, what it reports, and its router."""

    def __init__(self, router: RecordRouter, outbox: Outbox, dead_letters: str | None) -> None:
        self.router = router
        self.outbox = outbox
        self.listener = RecordingListener()
        self._dead_letters = dead_letters
        self.partition = self.another(3)

    def another(self, number: int) -> PartitionReplicator:
        """Return a partition with the same router."""
        lease = PartitionLease(topic="orders", partition=number, remote_topic="orders", start_offset=0)
        return replicator_of(lease, self.listener, transform=self.router, dead_letters=self._dead_letters)

    async def reaches(self, position: int) -> None:
        """Wait until the partition has moved to this offset."""
        await until(lambda: self.partition.position == position, SOON, f"the position is {position}")

    async def letter(self) -> int:
        """Wait for a dead letter, and return its offset."""
        return (await until(lambda: self.listener.letters, SOON, "there is a dead letter"))[0].first


def by_offset(record: SourceRecord) -> Sequence[TargetRecord]:
    """Write the record with its offset as key."""
    return [TargetRecord(topic="t", key=b"%d" % record.offset, value=record.value, partition=0)]


class Limits(RecordLimits):
    """Limits of topics without a configuration."""

    async def allows_more(self, topic: str, than: int) -> bool:
        return False


@asynccontextmanager
async def routed(
    handle: Handle = by_offset,
    *,
    dead_letters: str | None = "letters",
    max_record: int = MAX_RECORD,
    **options: Any,
) -> AsyncIterator[Routed]:
    """Run a router with the ``options``; its work ends with the block."""
    tasks: list[asyncio.Task[None]] = []
    outbox = Outbox()

    def spawn(work: Coroutine[Any, Any, None]) -> None:
        tasks.append(asyncio.create_task(work))

    limits = Limits(cast(Cluster, None), max_record)
    producer = cast(ControlProducer, outbox)
    router = RecordRouter(cast(Cluster, None), producer, handle, None, spawn, limits=limits, **options)
    try:
        yield Routed(router, outbox, dead_letters)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [one for one in outcomes if isinstance(one, Exception)] == []
