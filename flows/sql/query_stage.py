"""The query of one source task: sends frames to the lane's query, and reports to the partitions what it returned."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from aiokafka.record.default_records import DefaultRecord

from flows.batch.choice import BatchRules, new_codec
from flows.batch.decoded import RecordTooLargeError, decoded, with_header
from flows.batch.header import (
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME,
    BatchHeader,
    BatchTooLargeError,
    CorruptBatchError,
)
from flows.batch.record_reader import DecodedRecord
from flows.partition.frames_in_query import FrameInQuery, FrameResult
from flows.partition.rejection import Rejection, of_large_record, of_query
from flows.partition.replicator import PartitionReplicator
from flows.source.record_limits import RecordLimits
from flows.source_task.spawn import Spawn
from flows.sql.exchange import LATE_S, RowExchange, RowsOfFrame
from flows.sql.written import FailedRow, record_builder, records_of
from mm2.core.lanes.engine_orders import MESSAGE_WITHIN_S
from mm2.core.lanes.query_trials import FatalRecord, FrameSpan, QueryTrial
from mm2.core.naming.names import TopicPartition

log = logging.getLogger(__name__)

UNEXPLAINED = f"Spark has not answered within {MESSAGE_WITHIN_S:.0f} s"

ASKED_AGAIN_S = 10.0
"""How often Spark is asked again why the query fails for a record that stops its partition."""

FATAL = (
    " each time that the record was in it, also alone; correct the query, give it more memory, or leave the record out"
    " (mm2 skip)"
)
"""Follows why the process ended in which the query is evaluated."""


class LaneQueryRun(NamedTuple):
    """The running query of a lane; implements `flows.partition.frame_transform.LaneTransforms`.

    ``failure_of`` asks Spark for its message about one record, by topic, partition and a batch with only that record;
    None: it did not answer. ``asked_again_s``: seconds after which it is asked again.
    """

    exchange: RowExchange
    failure_of: Callable[[str, int, bytes], Awaitable[str | None]]
    asked_again_s: float = ASKED_AGAIN_S

    def of_source_task(self, query_name: str, rules: BatchRules, limits: RecordLimits, spawn: Spawn) -> QueryStage:
        """Return the query of a source task."""
        return QueryStage(self, query_name, rules, limits, spawn)

    def follow(self, trial: QueryTrial) -> None:
        """Pass frames through the query in this way from now on."""
        self.exchange.trial = trial


class FrameLimit(NamedTuple):
    """Records of a frame from source offset ``until`` on do not pass with it. ``fatal``: the record there never does;
    otherwise, what is left follows as another frame."""

    until: int
    fatal: FatalRecord | None = None


class _Question(NamedTuple):
    """Why the query fails for the record at ``offset``, which is alone in ``batch``: not answered yet."""

    offset: int
    batch: bytes


class QueryStage:
    """Implements `flows.partition.frame_transform.FrameTransform`.

    (A) Spark is asked about one record of a partition at a time: the first one that is not copied. What follows it is
        fetched again when that is decided, so that its results do not count.
    (B) While a partition is stopped by a record without Spark's message, Spark is asked again. A message that is known
        remains when the partition tries the record again and Spark does not answer.
    """

    writes_itself = False

    def __init__(self, query: LaneQueryRun, name: str, rules: BatchRules, limits: RecordLimits, spawn: Spawn) -> None:
        self._query = query
        self._name = name
        self._rules = rules
        self._limits = limits
        self._spawn = spawn
        self._failing: dict[PartitionReplicator, int] = {}  # the number of the frame about which Spark is asked
        self._asking_again: set[PartitionReplicator] = set()
        self._explained: dict[PartitionReplicator, tuple[int, str]] = {}  # the newest answer, and its source offset

    def submit(self, partition: PartitionReplicator, frame: FrameInQuery) -> None:
        """Transform the records of the frame."""
        max_record = self._limits.of(partition.source.topic)
        identity = identity_of(partition)
        limit = limit_of(self._query.exchange.trial, partition.source, identity, frame)
        self._query.exchange.send(
            partition.source.topic,
            partition.source.partition,
            [batch.data for batch in frame.batches],
            wanted=frame.start,
            until=frame.next_offset if limit is None else limit.until,
            topic_id=identity,
            codec=new_codec((batch.header.codec for batch in frame.batches), self._rules),
            level=self._rules.level,
            max_record=max_record,
            is_wanted=partial(partition.awaits, frame.number),
            takes_more=partial(_takes_more, partition, frame.number),
            done=partial(self._done, partition, frame, max_record, limit),
        )

    async def remove(self, partition: PartitionReplicator) -> None:
        """The partition has left the source task."""
        self._failing.pop(partition, None)
        self._asking_again.discard(partition)
        self._explained.pop(partition, None)

    def _done(
        self,
        partition: PartitionReplicator,
        frame: FrameInQuery,
        max_record: int,
        limit: FrameLimit | None,
        rows: RowsOfFrame,
    ) -> None:
        again_from = None
        if limit is not None and rows.failed is None and rows.undecodable is None and not rows.is_part:
            if limit.fatal is None:
                again_from = limit.until
            else:
                rows = rows._replace(failed=FailedRow(limit.until, f"{limit.fatal.why}{FATAL}"))
        if rows.failed is not None:
            if self._is_first_failure(partition, frame):
                self._failing[partition] = frame.number
                self._spawn(self._failed(partition, frame, max_record, rows, rows.failed))
            return
        try:
            result = FrameResult(
                written=rows.batch, unreadable=rows.undecodable, again_from=again_from, is_part=rows.is_part
            )
            partition.transformed(frame.number, result, time.monotonic())
        except Exception as error:  # noqa: BLE001 in a callback it would only be logged, and the next frame copied
            self._spawn(_raise(error))

    def _is_first_failure(self, partition: PartitionReplicator, frame: FrameInQuery) -> bool:
        """Return whether the partition awaits the frame, and no failure of an earlier one."""
        failing = self._failing.get(partition)
        return partition.awaits(frame.number) and (failing is None or not partition.awaits(failing))

    async def _failed(
        self,
        partition: PartitionReplicator,
        frame: FrameInQuery,
        max_record: int,
        rows: RowsOfFrame,
        failed: FailedRow,
    ) -> None:
        question: _Question | None = None
        try:
            if failed.too_large and await self._limits.allows_more(partition.source.topic, max_record):
                result = FrameResult(written=rows.batch, again_from=failed.offset)
            else:
                rejection, question = await self._rejection(partition, frame, failed)
                result = FrameResult(written=rows.batch, failed=rejection)
        finally:
            if self._failing.get(partition) == frame.number:
                del self._failing[partition]
        partition.transformed(frame.number, result, time.monotonic())
        if question is not None and partition not in self._asking_again and partition.is_stopped_at(question.offset):
            self._asking_again.add(partition)
            self._spawn(self._ask_again(partition, question))

    async def _ask_again(self, partition: PartitionReplicator, question: _Question) -> None:
        """Ask Spark until it answers, while the partition is stopped by the record."""
        try:
            while True:
                await asyncio.sleep(self._query.asked_again_s)
                if partition not in self._asking_again or not partition.is_stopped_at(question.offset):
                    return
                if self._explained.get(partition, (None,))[0] == question.offset:
                    return  # the partition has tried the record again
                if self._query.exchange.is_ordered:
                    continue  # records have ended the JVM, and this could be one of them
                why = await self._query.failure_of(partition.source.topic, partition.source.partition, question.batch)
                if why is not None and partition in self._asking_again:
                    self._explained[partition] = question.offset, why
                    partition.explain(self._of_query(partition, question.offset, why, None))
                    return
        finally:
            self._asking_again.discard(partition)

    def _of_query(
        self, partition: PartitionReplicator, offset: int, why: str, record: DecodedRecord | None
    ) -> Rejection:
        return of_query(partition.source, partition.target, offset, query=self._name, why=why, record=record)

    async def _rejection(
        self, partition: PartitionReplicator, frame: FrameInQuery, failed: FailedRow
    ) -> tuple[Rejection, _Question | None]:
        """Return why the record cannot be copied, and the question that Spark has not answered."""
        source, why, record = partition.source, failed.reason, None
        question: _Question | None = None
        if failed.too_large:
            return of_large_record(source, partition.target, failed.offset, why or ""), None
        try:
            header, record = record_at(frame, failed.offset, self._limits.of(source.topic))
        except (CorruptBatchError, BatchTooLargeError, RecordTooLargeError) as error:
            log.warning("%s: the record at offset %d cannot be read again: %s", source, failed.offset, error)
        else:
            if why is None:
                batch = single_batch(header, record)
                span = FrameSpan(
                    topic=source.topic,
                    partition=source.partition,
                    first=failed.offset,
                    until=failed.offset + 1,
                    topic_id=identity_of(partition),
                    is_asked=True,
                )
                async with self._query.exchange.turn(span):
                    why = await self._query.failure_of(source.topic, source.partition, batch)
                    if why is None and self._query.exchange.is_ordered:
                        await asyncio.sleep(LATE_S)
                explained_at, before = self._explained.get(partition, (None, None))
                if why is not None:
                    self._explained[partition] = failed.offset, why
                elif explained_at == failed.offset:
                    why = before
                else:
                    question = _Question(failed.offset, batch)
        content = _for_dead_letter(record) if record is not None else None
        return self._of_query(partition, failed.offset, why or UNEXPLAINED, content), question


def identity_of(partition: PartitionReplicator) -> str | None:
    """Return the ID of the partition's source topic, if it is known."""
    topic_id = partition.topic_ids.source
    return None if topic_id is None else str(topic_id)


def limit_of(trial: QueryTrial, source: TopicPartition, topic_id: str | None, frame: FrameInQuery) -> FrameLimit | None:
    """Return where a frame has to end before its own end; None: nowhere. ``topic_id``: that of its source topic."""

    def concerns(span: FrameSpan) -> bool:
        is_same = topic_id is None or span.topic_id is None or span.topic_id == topic_id
        return is_same and (span.topic, span.partition) == (source.topic, source.partition)

    limits = [
        FrameLimit(end)
        for one in trial.suspects
        if concerns(one.span) and (end := one.end_of_part(frame.start)) is not None and end < frame.next_offset
    ]
    limits += [
        FrameLimit(one.span.first, one)
        for one in trial.fatal
        if concerns(one.span) and frame.start <= one.span.first < frame.next_offset
    ]
    return min(limits, key=lambda limit: limit.until, default=None)


def _takes_more(partition: PartitionReplicator, number: int) -> bool:
    return not partition.awaits(number) or partition.takes_more()


async def _raise(error: Exception) -> None:
    """End the source task with this error."""
    raise error


def record_at(frame: FrameInQuery, offset: int, max_record: int) -> tuple[BatchHeader, DefaultRecord]:
    """Return the record at this source offset of a frame that was decoded before, and the header of its batch.

    Raises CorruptBatchError, BatchTooLargeError and RecordTooLargeError.
    """
    for batch in frame.batches:
        if batch.header.base_offset <= offset < batch.header.next_offset:
            arrived_ms = int(batch.arrived * 1000)
            for chunk in decoded(batch.header, batch.data, wanted=offset, limit=max_record, arrived_ms=arrived_ms):
                header, records = chunk if chunk is not None else (batch.header, iter(()))
                for record in records:
                    if record.offset == offset:
                        return header, record
    raise CorruptBatchError(f"there is no record at offset {offset}")


def single_batch(header: BatchHeader, record: DefaultRecord) -> bytes:
    """Return a batch with only this record, at its source offset. ``header`` is that of its batch. The CRC is 0."""
    builder = record_builder()
    builder.append(0, record.timestamp, record.key, record.value, record.headers)
    records = records_of(builder)
    single = header._replace(
        base_offset=record.offset,
        length=HEADER_BYTES - LENGTH_END + len(records),
        crc=0,
        attributes=header.attributes & LOG_APPEND_TIME,
        last_offset_delta=0,
        base_timestamp=record.timestamp,
        max_timestamp=record.timestamp,
        record_count=1,
    )
    return with_header(single, records)


def _for_dead_letter(record: DefaultRecord) -> DecodedRecord:
    return DecodedRecord(
        timestamp_ms=record.timestamp,
        key=record.key,
        value=record.value,
        headers=tuple((name.encode(), value) for name, value in record.headers),
    )
