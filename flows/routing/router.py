"""Writes the records of fetched batches one by one, each to the partition of its key."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import aiokafka.errors as aiokafka_errors

from flows.batch.decoded import MAX_UNCOMPRESSED, decoded
from flows.batch.header import LOG_APPEND_TIME, BatchTooLargeError, CorruptBatchError
from flows.batch.record_reader import DecodedRecord
from flows.partition.frames_in_query import FrameInQuery, FrameResult
from flows.partition.rejection import Rejection, Stage
from flows.partition.replicator import PartitionReplicator
from flows.routing.handlers import Handle
from flows.source_task.spawn import Spawn
from mm2.core.mirror1.user_class import SourceRecord, TargetRecord, UserClassError
from mm2.core.wire.murmur2 import partition_of
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import BufferFull, ControlProducer
from mm2.kafka.protocol.error_codes import ErrorCode

UNKNOWN_S = 30.0
"""How long a topic of the target may be unknown, since it was possibly created a moment ago."""

HANDLER_FAILED = "org.apache.kafka.connect.errors.ConnectException"
REJECTED = "org.apache.kafka.common.KafkaException"


class NotMade(Exception):
    """A message handler has failed for a record, or what it made cannot be sent."""

    def __init__(self, record: SourceRecord, error: Exception) -> None:
        super().__init__(str(error))
        self.record = record
        self.error = error


Problem = NotMade | CorruptBatchError | BatchTooLargeError


@dataclass(slots=True)
class _Sent:
    """A frame whose records were sent. ``records``: each with what was made of it. ``problem``: why not all were."""

    frame: FrameInQuery
    records: list[tuple[SourceRecord, list[TargetRecord], list[asyncio.Future[int]]]] = field(default_factory=list)
    problem: Problem | None = None


class RecordRouter:
    """Implements `flows.partition.row_transform.RowTransform` for one source task.

    (A) The records of a source partition are sent in their order, so records with the same key keep it.
    (B) A partition moves over a frame when the target has all that was made of its records, and of those before.
    (C) After a batch that the target rejects, what follows is written again: consumers of the target can see records
        twice, but the last copies are in order.
    (D) A partition leaves when the target has all that was sent for it, or has rejected it, also of frames whose
        results are no longer awaited: the next owner writes the same keys, and nothing older may follow.
    """

    writes_itself = True

    def __init__(self, target: Cluster, producer: ControlProducer, handle: Handle, spawn: Spawn) -> None:
        self._target = target
        self._producer = producer
        self._handle = handle
        self._spawn = spawn
        self._partitions: dict[PartitionReplicator, _PartitionRouter] = {}

    def submit(self, partition: PartitionReplicator, frame: FrameInQuery) -> None:
        """Write the records of the frame."""
        router = self._partitions.get(partition)
        if router is None:
            router = self._partitions[partition] = _PartitionRouter(partition, self)
            self._spawn(router.send())
            self._spawn(router.complete())
        router.add(frame)

    async def remove(self, partition: PartitionReplicator) -> None:
        """Write nothing more for the partition, and wait until nothing of it is queued: (D)."""
        router = self._partitions.pop(partition, None)
        if router is not None:
            await router.end()

    def records(self, partition: PartitionReplicator, frame: FrameInQuery) -> Iterator[SourceRecord]:
        """Yield the wanted records of the frame. Raises CorruptBatchError and BatchTooLargeError."""
        for batch in frame.batches:
            header, decoded_records = decoded(
                batch.header, batch.data, limit=MAX_UNCOMPRESSED, arrived_ms=int(batch.arrived * 1000)
            )
            append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
            try:
                for record in decoded_records:
                    if record.offset >= frame.start:
                        yield SourceRecord(
                            topic=partition.source.topic,
                            partition=partition.source.partition,
                            offset=record.offset,
                            timestamp_ms=record.timestamp if append_time is None else append_time,
                            key=record.key,
                            value=record.value,
                            headers=tuple(record.headers),
                        )
            except (aiokafka_errors.CorruptRecordException, ValueError) as error:
                raise CorruptBatchError(f"batch at offset {header.base_offset}: {error}") from error

    def make_all(
        self, partition: PartitionReplicator, frame: FrameInQuery
    ) -> tuple[list[tuple[SourceRecord, list[TargetRecord]]], Problem | None]:
        """Return the wanted records of the frame with what is made of them, and why these are not all."""
        made: list[tuple[SourceRecord, list[TargetRecord]]] = []
        try:
            for record in self.records(partition, frame):
                made.append((record, self.make(record)))  # noqa: PERF401 those before a problem are sent
        except (NotMade, CorruptBatchError, BatchTooLargeError) as problem:
            return made, problem
        return made, None

    def make(self, record: SourceRecord) -> list[TargetRecord]:
        """Return what is written for a record. Raises NotMade."""
        try:
            return list(self._handle(record))
        except UserClassError as error:
            raise NotMade(record, error) from error

    async def send(self, source: SourceRecord, record: TargetRecord) -> asyncio.Future[int]:
        """Send a record, when there is room for it.

        Raises BrokerError for a topic that does not exist and a record that is too large, and ClusterClosed.
        """
        number = record.partition if record.partition is not None else await self._partition_for(source, record)
        while True:
            try:
                return self._producer.send(
                    record.topic,
                    number,
                    record.key,
                    record.value,
                    headers=record.headers,
                    timestamp_ms=record.timestamp_ms,
                )
            except BufferFull:
                await self._producer.room()

    async def _partition_for(self, source: SourceRecord, record: TargetRecord) -> int:
        """Return the partition of the record's key. Without a key, that of its partition and offset on the source: all
        partitions get their share, and a record that is written again goes where it was."""
        count = await self._count(record.topic)
        if record.key is not None:
            return partition_of(record.key, count)
        return (source.partition + source.offset) % count

    async def _count(self, topic: str) -> int:
        """Return the number of partitions of a topic of the target, after waiting for the target.

        Raises BrokerError if it rejects the topic, or does not have it for `UNKNOWN_S`: brokers learn of a new topic
        one after the other.
        """
        deadline = time.monotonic() + UNKNOWN_S
        while True:
            info = self._target.cached_topic(topic)
            if info is not None and info.partitions:
                return len(info.partitions)
            try:
                await self._target.refresh([topic])
            except ClusterClosed:
                raise
            except ClusterError:
                continue  # refresh has its own backoff
            info = self._target.cached_topic(topic)
            if info is None or not info.error:
                continue
            error = BrokerError(info.error, f"find topic {topic} on the target")
            is_unknown = info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if (is_unknown and time.monotonic() > deadline) or (not is_unknown and not error.retriable):
                raise error


class _PartitionRouter:
    """The frames of one source partition, in order: the next ones are sent while acknowledgements are awaited.

    After a frame with a record that cannot be made, nothing is sent until that is reported: what follows will be
    fetched again.
    """

    def __init__(self, partition: PartitionReplicator, router: RecordRouter) -> None:
        self._partition = partition
        self._router = router
        self._to_send: asyncio.Queue[FrameInQuery | None] = asyncio.Queue()
        self._sent: asyncio.Queue[_Sent | None] = asyncio.Queue()
        self._reported = asyncio.Event()
        self._ended = asyncio.Event()

    def add(self, frame: FrameInQuery) -> None:
        self._to_send.put_nowait(frame)

    async def end(self) -> None:
        """Write nothing more, and wait for what was sent."""
        self._to_send.put_nowait(None)
        await self._ended.wait()

    async def send(self) -> None:
        """Send frames until the end."""
        while (frame := await self._to_send.get()) is not None:
            if not self._partition.awaits(frame.number):
                continue
            sent = await self._send(frame)
            self._reported.clear()
            self._sent.put_nowait(sent)
            if sent.problem is not None:
                await self._reported.wait()
        self._sent.put_nowait(None)

    async def _send(self, frame: FrameInQuery) -> _Sent:
        sent = _Sent(frame)
        # In a thread: the handler is a user's, and the lane reports to its node from this event loop.
        made, sent.problem = await asyncio.to_thread(self._router.make_all, self._partition, frame)
        for record, targets in made:
            futures: list[asyncio.Future[int]] = []
            sent.records.append((record, targets, futures))
            try:
                for one in targets:
                    futures.append(await self._router.send(record, one))  # noqa: PERF401 each is awaited, if one fails
            except BrokerError as error:
                sent.problem = NotMade(record, error)
                break
        return sent

    async def complete(self) -> None:
        """Report frames until the end."""
        while (sent := await self._sent.get()) is not None:
            outcomes = await asyncio.gather(
                *(future for _, _, futures in sent.records for future in futures), return_exceptions=True
            )
            if self._partition.awaits(sent.frame.number):
                result = await self._result(sent, outcomes)
                self._partition.transformed(sent.frame.number, result, time.monotonic())
            self._reported.set()
        self._ended.set()

    async def _result(self, sent: _Sent, outcomes: Sequence[int | BaseException]) -> FrameResult:
        """Return the result for a frame; what the target has rejected is written again, to find the record."""
        again = False
        if any(isinstance(outcome, ClusterError) for outcome in outcomes):
            if (rejected := await self._written_alone(sent)) is not None:
                return FrameResult(failed=rejected)
            again = True
        if isinstance(sent.problem, NotMade):
            return FrameResult(failed=self._rejection(sent.problem.record, sent.problem.error))
        if sent.problem is not None:
            return FrameResult(unreadable=str(sent.problem))
        return FrameResult(routed=len(sent.records), again=again)

    async def _written_alone(self, sent: _Sent) -> Rejection | None:
        """Write the records from the first rejected one on again, one at a time, since the target rejects batches.

        Return what it rejects alone; None: everything is written.
        """
        for record, made, _ in itertools.dropwhile(lambda one: not _rejected(one[2]), sent.records):
            try:
                for one in made:
                    await (await self._router.send(record, one))
            except ClusterClosed:
                raise
            except ClusterError as error:
                return self._rejection(record, error)
        return None

    def _rejection(self, record: SourceRecord, error: Exception) -> Rejection:
        by_target = isinstance(error, ClusterError)
        return Rejection(
            first=record.offset,
            until=record.offset + 1,
            message=f"cannot copy {self._partition.source} offset {record.offset}: {error}",
            exception=REJECTED if by_target else HANDLER_FAILED,
            stage=Stage.PRODUCE if by_target else Stage.TRANSFORM,
            record=DecodedRecord(
                timestamp_ms=record.timestamp_ms,
                key=record.key,
                value=record.value,
                headers=tuple((name.encode(), value) for name, value in record.headers),
            ),
        )


def _rejected(futures: list[asyncio.Future[int]]) -> bool:
    return any(isinstance(future.exception(), ClusterError) for future in futures)
