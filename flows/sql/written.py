"""The rows that a query returned for one frame, as a batch that is packed like a fetched one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from flows.batch.choice import MAX_UNCOMPRESSED
from flows.batch.codecs import compress
from flows.batch.decoded import HEADER_COST
from flows.batch.header import HEADER_BYTES, LENGTH_END, MAGIC, NO_PRODUCER, BatchHeader
from flows.batch.target_batch import Runs, WrittenBatch
from flows.sql.rows import ERROR, FAILED, FRAME, NO_FRAME, OFFSET

_NO_LIMIT = 2**31 - 1


def record_builder() -> DefaultRecordBatchBuilder:
    """Return a builder of uncompressed records without a producer, for `records_of`."""
    return DefaultRecordBatchBuilder(
        magic=MAGIC,
        compression_type=0,
        is_transactional=0,
        producer_id=NO_PRODUCER,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=_NO_LIMIT,
    )


def records_of(builder: DefaultRecordBatchBuilder) -> bytes:
    """Return the records that were appended, without the header of the batch."""
    return bytes(builder.build())[HEADER_BYTES:]


_INTEGER = pa.int64()
_NO_TIMESTAMP = -1
"""Of a message in a format from before Kafka 0.10. A broker rejects earlier ones."""


PART_BYTES = MAX_UNCOMPRESSED // 2
"""When the rows of a frame take this much memory, they become a batch, and the next rows another one: a batch of a
megabyte can contain gigabytes of records. A batch within this can be rebuilt."""

_ROW_COST = 300
"""What a row takes besides its bytes, in the lists of `FrameRows`: two bytes objects, two numbers, and their places."""


class FailedRow(NamedTuple):
    """The record at source ``offset`` cannot be copied. ``reason`` None: the query failed for it; Spark knows why.

    ``too_large``: it was not decoded, as it would take too much memory.
    """

    offset: int
    reason: str | None
    too_large: bool = False


Headers = list[tuple[str, bytes | None]]
_NO_HEADERS: Headers = []


class Filler(NamedTuple):
    """A row without a record (`flows.sql.rows`), by its index. ``error`` is that of the frame."""

    at: int
    frame: int
    error: str | None


class RowColumns:
    """The columns of an Arrow batch as lists, with the ``bytes_per_row`` that they take. Timestamps are epoch ms.

    ``failures`` are the reasons of the rows that cannot be copied, by index; None: the query failed. ``fillers`` are in
    the order of the rows.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        self.offsets: list[Any] = columns[OFFSET].to_pylist()
        self.keys: list[bytes | None] = columns["key"].to_pylist()
        self.values: list[bytes | None] = columns["value"].to_pylist()
        self.failures: dict[int, str | None] = {}
        self._frames = columns[FRAME]
        self.fillers = _fillers(columns[OFFSET], columns[FRAME], columns[ERROR])
        self.timestamps = self._read_timestamps(columns["timestamp"].cast(_INTEGER))
        self.headers = self._read_headers(columns["headers"])
        headers = HEADER_COST * sum(map(len, self.headers))
        self.bytes_per_row = _ROW_COST + (batch.nbytes + headers) // max(1, batch.num_rows)
        if columns[FAILED].true_count:
            self.failures |= dict.fromkeys(pc.indices_nonzero(columns[FAILED]).to_pylist())

    def frame_of(self, index: int) -> int:
        """Return the number of the frame of a row."""
        number: int = self._frames[index].as_py()
        return number

    def _read_timestamps(self, microseconds: pa.Array) -> list[int]:
        milliseconds = microseconds.fill_null(-1_000).to_numpy() // 1_000
        if microseconds.null_count > len(self.fillers) or (milliseconds < _NO_TIMESTAMP).any():  # fillers have none
            for index, one in enumerate(microseconds.to_pylist()):
                if self.offsets[index] is not None and (reason := _timestamp_failure(one)) is not None:
                    self.failures[index] = reason
        found: list[int] = milliseconds.tolist()
        return found

    def _read_headers(self, column: pa.Array) -> list[Headers]:
        found = [_NO_HEADERS] * len(column)
        counts = pc.list_value_length(column).fill_null(0).to_numpy()
        at = 0
        headers = _pairs(column.flatten()) if counts.any() else []
        for index in counts.nonzero()[0].tolist():
            given, at = headers[at : at + counts[index]], at + counts[index]
            if (reason := _header_failure(given)) is None:
                found[index] = [(name.decode(), value) for name, value in given if name is not None]
            else:
                self.failures[index] = reason
        return found


@dataclass(slots=True)
class FrameRows:
    """The columns of one frame, in the order of the source.

    ``failed`` is the first row that cannot be copied; later ones are not read. ``taken`` is the memory in bytes,
    estimated. ``is_wanted`` False: its rows are dropped.
    """

    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    failed: FailedRow | None = None
    taken: int = 0
    is_wanted: bool = True

    def add(self, columns: RowColumns, first: int, until: int) -> None:
        """Add the rows from ``first`` up to, not including, ``until``."""
        if self.failed is not None or not self.is_wanted:
            return
        failed = min((index for index in columns.failures if first <= index < until), default=None)
        if failed is not None:
            self.failed = FailedRow(columns.offsets[failed], columns.failures[failed])
            until = failed
        self.offsets += columns.offsets[first:until]
        self.keys += columns.keys[first:until]
        self.values += columns.values[first:until]
        self.timestamps += columns.timestamps[first:until]
        self.headers += columns.headers[first:until]
        self.taken += columns.bytes_per_row * (until - first)

    def clear(self) -> None:
        """Drop the rows, which are written."""
        for column in (self.offsets, self.keys, self.values, self.timestamps, self.headers):
            column.clear()
        self.taken = 0

    def batch(self, codec: int, level: int | None) -> WrittenBatch | None:
        """Return the records in a batch compressed by ``codec``; None if there are none."""
        if not self.offsets:
            return None
        builder = record_builder()
        append = builder.append
        first = self.timestamps[0]
        for index, (timestamp, key, value, headers) in enumerate(
            zip(self.timestamps, self.keys, self.values, self.headers, strict=True)
        ):
            # deltas are counted from the first timestamp, for which the builder does not take -1
            append(index, timestamp - first, key, value, headers)
        records = compress(codec, level, records_of(builder))
        header = BatchHeader(
            base_offset=self.offsets[0],
            length=HEADER_BYTES - LENGTH_END + len(records),
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=codec,
            last_offset_delta=self.offsets[-1] - self.offsets[0],
            base_timestamp=self.timestamps[0],
            max_timestamp=max(self.timestamps),
            producer_id=NO_PRODUCER,
            producer_epoch=-1,
            base_sequence=-1,
            record_count=len(self.offsets),
        )
        return WrittenBatch(header, memoryview(bytes(HEADER_BYTES) + records), runs_of(self.offsets))


def runs_of(offsets: Sequence[int]) -> Runs:
    """Return increasing source offsets, of at least one record, as runs."""
    runs: list[tuple[int, int]] = []
    first = before = offsets[0]
    for offset in offsets[1:]:
        if offset != before + 1:
            runs.append((first, before - first + 1))
            first = offset
        before = offset
    runs.append((first, before - first + 1))
    return tuple(runs)


def _fillers(offsets: pa.Array, frames: pa.Array, errors: pa.Array) -> list[Filler]:
    found = []
    for index in pc.indices_nonzero(offsets.is_null()).to_pylist():
        frame = frames[index].as_py()
        found.append(Filler(index, frame, None if frame == NO_FRAME else errors[index].as_py()))
    return found


def _timestamp_failure(microseconds: int | None) -> str | None:
    if microseconds is None:
        return "the query sets timestamp to NULL"
    return "the query sets timestamp to a time before 1970" if microseconds // 1_000 < _NO_TIMESTAMP else None


def _pairs(headers: pa.StructArray) -> list[tuple[bytes | None, bytes | None]]:
    """Return names and values of headers. The name of one that is NULL is None.

    Spark's strings can be invalid UTF-8 (CAST of a binary), which pyarrow does not decode.
    """
    names = pc.if_else(headers.is_valid(), headers.field("key").cast(pa.binary()), None)
    return list(zip(names.to_pylist(), headers.field("value").to_pylist(), strict=True))


def _header_failure(headers: Sequence[tuple[bytes | None, bytes | None]]) -> str | None:
    if any(name is None for name, _ in headers):
        return "the query sets a header that is NULL or has no name"
    if not all(_is_utf8(name) for name, _ in headers if name is not None):
        return "the query sets a header whose name is not valid UTF-8"
    return None


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
