"""The records of a frame, and what is made of them for the target."""

from __future__ import annotations

from collections.abc import Iterator

import aiokafka.errors as aiokafka_errors

from flows.batch.decoded import MAX_UNCOMPRESSED, decoded
from flows.batch.header import LOG_APPEND_TIME, BatchTooLargeError, CorruptBatchError
from flows.partition.frames_in_query import FrameInQuery
from flows.routing.handlers import Handle
from mm2.core.mirror1.user_class import SourceRecord, TargetRecord, UserClassError
from mm2.core.naming.names import TopicPartition


class NotMade(Exception):
    """A message handler has failed for a record, or what it made cannot be sent."""

    def __init__(self, record: SourceRecord, error: Exception) -> None:
        super().__init__(str(error))
        self.record = record
        self.error = error


Problem = NotMade | CorruptBatchError | BatchTooLargeError

Made = list[tuple[SourceRecord, list[TargetRecord]]]


def make_all(handle: Handle, source: TopicPartition, frame: FrameInQuery, start: int) -> tuple[Made, Problem | None]:
    """Return the records of the frame from source offset ``start`` on with what is made of them, and why that is not
    everything."""
    made: Made = []
    try:
        for record in records(source, frame, start):
            made.append((record, _make(handle, record)))
    except (NotMade, CorruptBatchError, BatchTooLargeError) as problem:
        return made, problem
    return made, None


def records(source: TopicPartition, frame: FrameInQuery, start: int) -> Iterator[SourceRecord]:
    """Yield the records of the frame from source offset ``start`` on.

    Raises CorruptBatchError and BatchTooLargeError.
    """
    for batch in frame.batches:
        header, decoded_records = decoded(
            batch.header, batch.data, limit=MAX_UNCOMPRESSED, arrived_ms=int(batch.arrived * 1000)
        )
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
