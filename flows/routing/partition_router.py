"""Writes the records of one source partition with the message handler of the command line."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import aiokafka.errors as aiokafka_errors

from flows.batch.decoded import HEADER_COST, RecordTooLargeError, decoded
from flows.batch.header import LOG_APPEND_TIME, BatchTooLargeError, CorruptBatchError
from flows.batch.record_reader import DecodedRecord
from flows.partition.frames_in_query import FrameInQuery, FrameResult
from flows.partition.rejection import Rejection, Stage, of_large_record
from flows.partition.replicator import PartitionReplicator
from flows.routing.record_sender import RecordSender, TopicMissing, TopicUnknown
from flows.source.record_limits import RecordLimits
from flows.target.produce_errors import of_record
from mm2.core.mirror1.user_class import SourceRecord, TargetRecord, UserClass, UserClassError, new_instance
from mm2.core.naming.names import TopicPartition
from mm2.core.plugins import described
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import BufferFull

Handle = Callable[[SourceRecord], Sequence[TargetRecord]]


def as_it_is(record: SourceRecord) -> Sequence[TargetRecord]:
    """Return the record for the topic of the same name."""
    return (
        TargetRecord(
            topic=record.topic,
            key=record.key,
            value=record.value,
            timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else None,
            headers=record.headers,
        ),
    )


def load_handler(handler: UserClass | None) -> Handle:
    """Return the function that makes records for the target. Raises UserClassError."""
    if handler is None:
        return as_it_is
    own = new_instance(handler)

    def handle(record: SourceRecord) -> Sequence[TargetRecord]:
        try:
            made = own.handle(record)
        except Exception as error:
            raise UserClassError(f"message handler {handler.name} raised {described(error)}") from error
        if not isinstance(made, Sequence) or not all(map(_is_record, made)):
            raise UserClassError(
                f"message handler {handler.name} returned {made!r:.200}, not a list of TargetRecord with bytes"
            )
        return made

    return handle


def _is_record(made: object) -> bool:
    """Return whether a record can be written; handlers are not type-checked."""
    return (
        isinstance(made, TargetRecord)
        and isinstance(made.topic, str)
        and all(part is None or isinstance(part, bytes) for part in (made.key, made.value))
        and (made.partition is None or (isinstance(made.partition, int) and made.partition >= 0))
        and (made.timestamp_ms is None or isinstance(made.timestamp_ms, int))
        and all(isinstance(name, str) and isinstance(value, bytes | None) for name, value in made.headers)
    )


RECORDS_AT_ONCE = 500
"""So many records are decoded and sent before other work of the lane has its turn: two or three milliseconds."""

RECORDS_UNANSWERED = 64 * 1024
"""So many records of a source task are not acknowledged. With its objects, a small one takes about a kilobyte: together
as much as the producer's buffer (`flows.source_task.source_task.BUFFER_BYTES`), which counts their bytes."""

HANDLERS_AT_ONCE = 16
"""Partitions of a lane whose handler runs at the same time: those of four source tasks
(`flows.routing.router.DECODED_FRAMES`), since a handler may wait for something. In asyncio's own threads, which are few
(cores + 4), handlers that wait would delay that the addresses of hosts are looked up."""

HANDLER_FAILED = "org.apache.kafka.connect.errors.ConnectException"


_HANDLER_THREADS = ThreadPoolExecutor(HANDLERS_AT_ONCE, thread_name_prefix="message-handler")

_Copies = tuple[SourceRecord, list[TargetRecord], list[asyncio.Future[int]]]
"""A record, what was made of it, and the offsets of what was sent of that, once the target has it."""


class NotMade(Exception):
    """A message handler has failed for a record, or what it made cannot be sent."""

    def __init__(self, record: SourceRecord, error: Exception) -> None:
        super().__init__(str(error))
        self.record = record
        self.error = error


Problem = NotMade | RecordTooLargeError | CorruptBatchError | BatchTooLargeError

Made = list[tuple[SourceRecord, list[TargetRecord]]]

BYTES_AT_ONCE = 1024 * 1024
"""Records of so many bytes are made at once, or one larger record."""


class MadePart(NamedTuple):
    """The next records of a frame with what is made of them. ``problem``: why there are no more of it.

    ``is_last``: there are no more.
    """

    made: Made
    is_last: bool
    problem: Problem | None = None


def make_some(handle: Handle, records: Iterator[SourceRecord], at_most: int) -> MadePart:
    """Return what is made of the next ``at_most`` records of a frame, or of `BYTES_AT_ONCE`."""
    made: Made = []
    size = 0
    try:
        while len(made) < at_most and size < BYTES_AT_ONCE:
            record = next(records, None)
            if record is None:
                return MadePart(made, is_last=True)
            made.append((record, _make(handle, record)))
            size += len(record.key or b"") + len(record.value or b"") + HEADER_COST * len(record.headers)
    except (NotMade, RecordTooLargeError, CorruptBatchError, BatchTooLargeError) as problem:
        return MadePart(made, is_last=True, problem=problem)
    return MadePart(made, is_last=False)


def records(source: TopicPartition, frame: FrameInQuery, start: int, max_record: int) -> Iterator[SourceRecord]:
    """Yield the records of the frame from source offset ``start`` on, decoded in steps.

    ``max_record``: bytes of memory that one record may take. Raises CorruptBatchError, RecordTooLargeError and
    BatchTooLargeError.
    """
    for batch in frame.batches:
        arrived_ms = int(batch.arrived * 1000)
        for chunk in decoded(batch.header, batch.data, wanted=start, limit=max_record, arrived_ms=arrived_ms):
            if chunk is None:
                continue
            header, decoded_records = chunk
            append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
            try:
                for record in decoded_records:
                    if record.offset >= start:
                        yield SourceRecord(
                            topic=source.topic,
                            partition=source.partition,
                            offset=record.offset,
                            timestamp_ms=record.timestamp if append_time is None else append_time,
                            key=record.key,
                            value=record.value,
                            headers=tuple(record.headers),
                        )
            except (aiokafka_errors.CorruptRecordException, ValueError) as error:
                raise CorruptBatchError(f"batch at offset {header.base_offset}: {error}") from error


def _make(handle: Handle, record: SourceRecord) -> list[TargetRecord]:
    try:
        return list(handle(record))
    except UserClassError as error:
        raise NotMade(record, error) from error


@dataclass(slots=True)
class _Sent:
    """The records of a frame, or a part of them, that were sent, up to source offset ``until``.

    ``is_last``: nothing more of the frame is sent. ``problem``: why that is not everything. ``taken`` is their share of
    `RoomForRecords`.
    """

    frame: FrameInQuery
    until: int
    is_last: bool = False
    taken: int = 0
    records: list[_Copies] = field(default_factory=list)
    problem: Problem | None = None
    reported: asyncio.Event = field(default_factory=asyncio.Event)


class RoomForRecords:
    """Limits the decoded records of a source task that are not acknowledged."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._released = asyncio.Event()

    async def take(self, count: int) -> None:
        """Wait for room, of which there is enough for any ``count`` if nothing else is taken."""
        while self._taken and self._taken + count > self._limit:
            self._released.clear()
            await self._released.wait()
        self._taken += count

    def release(self, count: int) -> None:
        self._taken -= count
        self._released.set()


class PartitionRouter:
    """The frames of one source partition, in order: the next ones are sent while acknowledgements are awaited.

    A frame is decoded and sent in parts of ``records_at_once``. After a record that cannot be made, nothing is sent
    until that is reported: what follows will be fetched again.
    """

    def __init__(
        self,
        partition: PartitionReplicator,
        handle: Handle,
        sender: RecordSender,
        decoding: asyncio.Semaphore,
        room: RoomForRecords,
        *,
        limits: RecordLimits,
        report_after_s: float,
        records_at_once: int,
    ) -> None:
        """``decoding`` limits the partitions that hold decoded records which are not sent. ``limits``: which records
        are too large. ``report_after_s``: see `Timeouts.unanswered_report_s`."""
        self._report_after_s = report_after_s
        self._records_at_once = records_at_once
        self._partition = partition
        self._handle = handle
        self._sender = sender
        self._decoding = decoding
        self._room = room
        self._limits = limits
        self._to_send: asyncio.Queue[FrameInQuery | None] = asyncio.Queue()
        self._sent: asyncio.Queue[_Sent | None] = asyncio.Queue()
        self._written = 0  # records of the frame whose answers are awaited
        self._written_to: int | None = None  # the source offset after them
        self._ended = asyncio.Event()
        self._is_making = False  # a handler can take long
        self._topic: str | None = None  # is waited for
        self._unanswered: Sequence[_Copies] = ()

    def add(self, frame: FrameInQuery) -> None:
        self._to_send.put_nowait(frame)

    async def end(self) -> None:
        """Write nothing more, and wait for what was sent."""
        self._to_send.put_nowait(None)
        await self._ended.wait()

    async def send(self) -> None:
        """Send frames until the end."""
        while (frame := await self._to_send.get()) is not None:
            if not self._partition.writing(frame, time.monotonic()):
                continue
            sent = await self._send(frame)
            if sent.problem is not None:
                await sent.reported.wait()
        self._sent.put_nowait(None)

    async def _send(self, frame: FrameInQuery) -> _Sent:
        """Send the records of a frame, or those before one that cannot be sent. Return the last part."""
        start = frame.start
        while True:
            async with self._decoding:
                sent, missing = await self._send_from(frame, start)
            start = sent.until
            if missing is not None:  # waits without the records of the frame
                record, self._topic = missing
                try:
                    await self._sender.wait_for(self._topic, record.topic)
                except BrokerError as error:
                    sent = _Sent(frame, start, is_last=True, problem=NotMade(record, error))
                    self._sent.put_nowait(sent)
                self._topic = None
            if sent.is_last:
                return sent

    async def _send_from(self, frame: FrameInQuery, start: int) -> tuple[_Sent, tuple[SourceRecord, str] | None]:
        """Send the records of the frame from source offset ``start`` on, in parts. Return the last of these.

        It is not the last one of the frame if a record can be decoded now that was too large, or if the target lacks a
        topic: then return the first record for it, of which nothing is sent, with the topic, too.
        """
        source = self._partition.source
        max_record = self._limits.of(source.topic)
        decoding = records(source, frame, start, max_record)
        while True:
            # In a thread: the handler is a user's, and the lane reports to its node from this event loop.
            self._is_making = True
            part = await asyncio.get_running_loop().run_in_executor(
                _HANDLER_THREADS, make_some, self._handle, decoding, self._records_at_once
            )
            self._is_making = False
            await self._room.take(len(part.made))
            sent = _Sent(frame, frame.next_offset, part.is_last, len(part.made), problem=part.problem)
            missing = await self._send_made(sent, part.made)
            too_large = sent.problem
            if isinstance(too_large, RecordTooLargeError) and await self._limits.allows_more(source.topic, max_record):
                sent.until, sent.problem, sent.is_last = too_large.offset, None, False
            elif missing is None and not sent.is_last:
                sent.until = part.made[-1][0].offset + 1
                self._sent.put_nowait(sent)
                continue
            self._sent.put_nowait(sent)
            return sent, missing

    async def _send_made(self, sent: _Sent, made: Made) -> tuple[SourceRecord, str] | None:
        """Send what was made of some records.

        Return the first record for which the target lacks a topic, with the topic; nothing of it is sent then.
        """
        await asyncio.sleep(0)
        if not self._partition.awaits(sent.frame.number):
            sent.is_last, sent.problem = True, None
            return None
        for record, targets in made:
            sent.records.append((record, targets, []))
            try:
                await self._send_one(sent.records[-1])
            except TopicMissing as missing:
                del sent.records[-1]  # made again, and what follows
                sent.until, sent.problem, sent.is_last = record.offset, None, False
                return record, missing.topic
            except BrokerError as error:
                sent.problem, sent.is_last = NotMade(record, error), True
                return None
        return None

    async def _send_one(self, unsent: _Copies) -> None:
        """Send what was made of a record, when there is room.

        Raises TopicMissing before anything is sent, and BrokerError.
        """
        record, targets, copies = unsent
        while True:
            try:
                destinations = self._sender.target_partitions(record, targets)
                break
            except TopicUnknown as unknown:
                await self._sender.look_up(unknown.topic)
        for one, destination in zip(targets, destinations, strict=True):
            while True:
                try:
                    copies.append(self._sender.send(one, destination))
                    break
                except BufferFull:
                    await self._sender.room()

    async def complete(self) -> None:
        """Report frames until the end."""
        while (sent := await self._sent.get()) is not None:
            outcomes = await self._answers(sent.records)
            if self._partition.awaits(sent.frame.number):
                result = await self._result(sent, outcomes)
                if result.is_part:
                    self._written, self._written_to = self._written + len(sent.records), sent.until
                else:
                    self._written, self._written_to = 0, None
                self._partition.transformed(sent.frame.number, result, time.monotonic())
            else:
                self._written, self._written_to = 0, None
            self._room.release(sent.taken)
            sent.reported.set()
        self._ended.set()

    async def _answers(self, sent: Sequence[_Copies]) -> Sequence[int | BaseException]:
        self._unanswered = sent
        outcomes = await asyncio.gather(*(one for _, _, copies in sent for one in copies), return_exceptions=True)
        self._unanswered = ()
        return outcomes

    def report_unanswered(self, now: float) -> None:
        """Report to the partition, if the target has acknowledged nothing for a while."""
        if self._is_making or self._partition.unanswered_for(now) < self._report_after_s:
            return
        pending = (
            (record, one)
            for record, targets, copies in self._unanswered
            for one, stored in zip(targets, copies, strict=False)  # fewer copies: one of them failed
            if not stored.done()
        )
        awaited = next(pending, None)
        error = self._sender.why_unsent(self._topic) if awaited is None else self._sender.why_unanswered(*awaited)
        why = error or f"the target has not acknowledged its records within {self._report_after_s:.0f} s"
        self._partition.target_unavailable(f"cannot copy {self._partition.source}: {why}", prolonged=True)

    async def _result(self, sent: _Sent, outcomes: Sequence[int | BaseException]) -> FrameResult:
        """Return the result for a frame, or a part; what the target has rejected is written again, to find the record.

        A part whose records were written again is the last one: what follows was sent before.
        """
        again = False
        if any(isinstance(outcome, ClusterError) for outcome in outcomes):
            if (rejected := await self._written_alone(sent)) is not None:
                return self._failed(sent, rejected)
            again = True
        written, source = self._written + len(sent.records), self._partition.source
        match sent.problem:
            case NotMade(record=record, error=error):
                return self._failed(sent, self._rejection(record, error))
            case RecordTooLargeError(offset=offset) as problem:
                return self._failed(sent, of_large_record(source, self._partition.target, offset, str(problem)))
            case CorruptBatchError() | BatchTooLargeError() as problem:
                until = sent.records[-1][0].offset + 1 if sent.records else self._written_to
                return FrameResult(unreadable=str(problem), routed=written, again_from=until)
        if again:
            return FrameResult(routed=written, again_from=sent.until)
        return FrameResult(routed=written) if sent.is_last else FrameResult(is_part=True)

    async def _written_alone(self, sent: _Sent) -> Rejection | None:
        """Write the records from the first rejected one on again, one at a time, since the target rejects batches.

        Return what it rejects alone; None: everything is written.
        """
        for record, made, _ in itertools.dropwhile(lambda one: not _rejected(one[2]), sent.records):
            alone: _Copies = (record, made, [])
            error: ClusterError | None = None
            try:
                await self._send_one(alone)
            except BrokerError as failure:
                error = failure
            for outcome in (*await self._answers([alone]), error):
                if isinstance(outcome, ClusterClosed):
                    raise outcome
                if isinstance(outcome, ClusterError):
                    return self._rejection(record, outcome)
        return None

    def _failed(self, sent: _Sent, rejection: Rejection) -> FrameResult:
        """Return the result of a frame of which everything before the rejected record is written."""
        before = sum(record.offset < rejection.first for record, _, _ in sent.records)
        return FrameResult(failed=rejection, routed=self._written + before)

    def _rejection(self, record: SourceRecord, error: Exception) -> Rejection:
        """Return that the record cannot be copied. An error that does not concern it stops the partition, which is
        tried again, as with batches that pass through."""
        refused = of_record(error) if isinstance(error, ClusterError) else None
        return Rejection(
            first=record.offset,
            until=record.offset + 1,
            message=f"cannot copy {self._partition.source} offset {record.offset}: {error}",
            exception=refused.java_exception if refused is not None else HANDLER_FAILED,
            stage=Stage.PRODUCE if refused is not None else Stage.TRANSFORM,
            is_certain=refused is None or refused.concerns_records,
            record=DecodedRecord(
                timestamp_ms=record.timestamp_ms,
                key=record.key,
                value=record.value,
                headers=tuple((name.encode(), value) for name, value in record.headers),
            ),
        )


def _rejected(copies: list[asyncio.Future[int]]) -> bool:
    return any(isinstance(one.exception(), ClusterError) for one in copies)
