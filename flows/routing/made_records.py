"""The records of a frame, and what is made of them for the target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import aiokafka.errors as aiokafka_errors

from flows.batch.decoded import HEADER_COST, RecordTooLargeError, decoded
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
