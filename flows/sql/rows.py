"""Rows of the table ``records``, which a query reads, and their hidden columns.

The columns of the user are those of Spark's Kafka source; the feeder fills only those that are used. The hidden ones
say where a row comes from:

* ``_mm2_frame``: the number of the `flows.sql.frames.Frame` whose records are transformed; -1 in a filler of no frame.
* ``_mm2_offset``: the source offset of the record; NULL in a filler, a row without a record.
* ``_mm2_error``: in the filler after a frame, why its records could not be decoded, after the offset and a colon if the
  reason is one record that is too large; padding in a filler of no frame; otherwise NULL.
* ``_mm2_failed``, only in the result of a query: whether it failed for the record. What it sets is NULL then.

A filler follows the rows of every frame. Spark passes rows on in batches of `BYTES_PER_BATCH`, so that a burst would
wait for the next one; a filler of that size pushes it through. Spark looks one row ahead before it passes on a batch,
so that another filler follows. The worker's output has a buffer, too, of `OUTPUT_BUFFER_BYTES`: what is written last of
a batch, the values of the last column, must not fit into it; and their bytes must be a multiple of `ALIGNMENT`, since
Arrow writes what is missing after them.

Rows that a query drops push nothing through, however many follow. So padding is also written in a backlog
(`PADDED_AFTER_ROWS`, `PADDED_AFTER_S`), even within a frame.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecord

from flows.batch.blob import batches
from flows.batch.decoded import HEADER_COST, Chunk, RecordTooLargeError, decoded
from flows.batch.header import LOG_APPEND_TIME, BatchHeader, BatchTooLargeError, CorruptBatchError
from flows.sql.frames import Frame
from mm2.core.settings.row_query import COLUMNS

BYTES_PER_BATCH = 128 * 1024
"""spark.sql.execution.arrow.maxBytesPerBatch of SQL lanes. An Arrow batch costs as much as some hundred rows, and
padding costs as much as it is long."""

ROWS_PER_BATCH = 4_096
"""spark.sql.execution.arrow.maxRecordsPerBatch of SQL lanes."""

OUTPUT_BUFFER_BYTES = 4_096
"""spark.sql.execution.pandas.udf.buffer.size of SQL lanes, which is also that of the Python workers' output."""

ALIGNMENT = 64
"""Bytes. Texts of the last column are filled with spaces: up to seven zeros after them would stay in the worker's
output, and the query would return nothing."""

ROWS_WRITTEN = 512
"""Rows that the feeder writes at once: Spark evaluates them while the next ones are decoded and written."""

BYTES_WRITTEN = 1024 * 1024
"""Bytes from which on fewer rows are written at once."""

PADDED_AFTER_ROWS = 4 * ROWS_WRITTEN
"""Rows after which padding follows although more are waiting. A query that needs up to 7 ms for each row and drops all
of them then returns something within `flows.sql.exchange.QueryTimes.stuck_after_s`. Padding costs half a millisecond,
and so many rows of 1 kB cost 27 ms (docs/adr/0015-sql-flows.md)."""

PADDED_AFTER_S = 0.5
"""Time after which padding follows although rows are waiting, so that a slow query reports its progress."""

NO_FRAME = -1

FRAME, OFFSET, ERROR, FAILED = "_mm2_frame", "_mm2_offset", "_mm2_error", "_mm2_failed"

RESULT = ("key", "value", "timestamp", "headers", FAILED, OFFSET, FRAME, ERROR)
"""The columns of the result of a query."""

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_TIMESTAMP = pa.timestamp("us", tz="UTC")

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIMESTAMP),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(_HEADER)),
        (OFFSET, pa.int64()),
        (FRAME, pa.int64()),
        (ERROR, pa.string()),  # last: see above
    ]
)

_KEY, _VALUE, _HEADERS, _OFFSET = map(SCHEMA.get_field_index, ("key", "value", "headers", OFFSET))

_PADDING = (" " * BYTES_PER_BATCH, " " * (2 * OUTPUT_BUFFER_BYTES))
PADDING_ROWS = len(_PADDING)

_HIDDEN = {OFFSET: "bigint", FRAME: "bigint", ERROR: "string"}

_TIMESTAMP_LIMIT_MS = 2**63 // 1_000
"""Spark's timestamps are microseconds in 64 bits."""

CREATE_TIME, APPEND_TIME = 0, 1
"""timestampType, as in org.apache.kafka.common.record.TimestampType."""


def spark_schema(columns: Collection[str]) -> str:
    """Return `SCHEMA` in Spark's words, without the columns of the user that are not among ``columns``."""
    kept = {name: spark_type for name, spark_type in COLUMNS.items() if name in columns}
    return ", ".join(f"{name} {spark_type}" for name, spark_type in (kept | _HIDDEN).items())


def rows_of(frame: Frame, *, arrived_ms: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one frame, as `RowBuilder` collects them."""
    rows = RowBuilder()
    yield from rows.add(frame, arrived_ms=arrived_ms)
    yield from rows.take()


class RowBuilder:
    """Collects the rows of frames. Each Arrow batch costs as much as some hundred rows, so small frames share one.

    The rows have the hidden columns and those of the user that are among ``columns``. ``now`` is a clock in seconds.
    """

    def __init__(self, columns: Collection[str] = COLUMNS, now: Callable[[], float] = time.monotonic) -> None:
        self._schema = pa.schema([field for field in SCHEMA if field.name in columns or field.name in _HIDDEN])
        self._columns: list[list[Any]] = [[] for _ in SCHEMA]
        self._bytes = 0
        self._now = now
        self._rows_unpadded = 0
        self._padded_at = now()

    def add(self, frame: Frame, *, arrived_ms: int = 0) -> Iterator[pa.RecordBatch]:
        """Add the rows of a frame's records, and the filler after them. Yield all rows whenever they are many.

        If a batch or a record cannot be decoded, the rows before it are followed by a filler with the error.
        ``arrived_ms`` is the timestamp of messages that have none, epoch ms.
        """
        error: str | None = None
        try:
            for chunk in _decoded(frame, arrived_ms):
                if chunk is None:
                    yield from self._pad_if_late()
                    continue
                more = True
                while more:
                    more = self._append_some(frame, *chunk)
                    yield from self._take_if_full()
        except RecordTooLargeError as problem:
            if problem.offset < frame.until:
                error = f"{problem.offset}:{problem}"
        except (CorruptBatchError, BatchTooLargeError) as problem:
            error = str(problem)
        self._add_filler(frame.number, None if error is None else _aligned(error))
        yield from self._take_if_full()

    def _append_some(self, frame: Frame, header: BatchHeader, records: Iterator[DefaultRecord]) -> bool:
        """Append the next records of a batch. Return whether there can be more. Raises CorruptBatchError."""
        before = len(self._columns[_OFFSET])
        count = max(1, ROWS_WRITTEN - before)
        try:
            return _append(self._columns, frame, header, islice(records, count)) == count
        finally:
            keys, values, headers = (self._columns[at][before:] for at in (_KEY, _VALUE, _HEADERS))
            self._bytes += sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))
            for one in filter(None, headers):
                self._bytes += HEADER_COST * len(one) + sum(len(name) + len(value or b"") for name, value in one)

    def _take_if_full(self) -> Iterator[pa.RecordBatch]:
        rows = len(self._columns[_OFFSET])
        if rows >= ROWS_WRITTEN or self._bytes >= BYTES_WRITTEN:
            late = self._now() - self._padded_at >= PADDED_AFTER_S
            if late or self._rows_unpadded + rows >= PADDED_AFTER_ROWS:
                self.pad()
            yield from self.take()

    def _pad_if_late(self) -> Iterator[pa.RecordBatch]:
        if self._now() - self._padded_at >= PADDED_AFTER_S:
            self.pad()
            yield from self.take()

    def pad(self) -> None:
        """Add the fillers of no frame that push everything before them through Spark's batches."""
        for padding in _PADDING:
            self._add_filler(NO_FRAME, padding)
        self._padded_at = self._now()
        self._rows_unpadded = -len(self._columns[_OFFSET])

    def _add_filler(self, number: int, error: str | None) -> None:
        for column, field in zip(self._columns, SCHEMA, strict=True):
            column.append(number if field.name == FRAME else error if field.name == ERROR else None)

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in Arrow batches of `ROWS_WRITTEN` or `BYTES_WRITTEN`, and begin again."""
        self._rows_unpadded += len(self._columns[_OFFSET])
        columns = dict(zip(SCHEMA.names, self._columns, strict=True))
        self._columns = [[] for _ in SCHEMA]
        self._bytes = 0
        arrays = [pa.array(columns[field.name], field.type) for field in self._schema]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        for start in range(0, rows.num_rows, ROWS_WRITTEN):
            yield from _parts(rows.slice(start, ROWS_WRITTEN))


def _parts(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Return the rows in parts of at most `BYTES_WRITTEN`, or of one row."""
    half = rows.num_rows // 2
    if not half or rows.nbytes <= BYTES_WRITTEN:
        yield rows
    else:
        yield from _parts(rows.slice(0, half))
        yield from _parts(rows.slice(half))


def _decoded(frame: Frame, arrived_ms: int) -> Iterator[Chunk | None]:
    """Yield what `flows.batch.decoded.decoded` does for each batch. Raises what it raises."""
    for header, data in batches(frame.blob, check_crcs=False, start=frame.wanted):
        yield from decoded(header, data, wanted=frame.wanted, limit=frame.max_record, arrived_ms=arrived_ms)


def offset_of_error(error: str) -> tuple[int | None, str]:
    """Return the offset of the record that is too large, which the error in a filler is about, and the message."""
    error = error.rstrip()
    offset, colon, message = error.partition(":")
    return (int(offset), message) if colon and offset.isdecimal() else (None, error)


def _aligned(error: str) -> str:
    return error + " " * (-len(error.encode()) % ALIGNMENT)


def _append(columns: list[list[Any]], frame: Frame, header: BatchHeader, records: Iterator[DefaultRecord]) -> int:
    """Append the wanted records to the columns. Return how many records there were. Raises CorruptBatchError."""
    keys, values, topics, partitions, offsets, times, types, all_headers, sources, frames, errors = columns
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    count = 0
    try:
        for record in records:
            count += 1
            offset = record.offset
            if not frame.wanted <= offset < frame.until:
                continue
            headers = record.headers
            key, value = record.key, record.value
            timestamp = record.timestamp if append_time is None else append_time
            if abs(timestamp) >= _TIMESTAMP_LIMIT_MS:
                raise CorruptBatchError(f"record at offset {offset}: Spark has no timestamp {timestamp}")
            keys.append(key)
            values.append(value)
            offsets.append(offset)
            times.append(timestamp * 1_000)
            all_headers.append(headers)
    except (CorruptRecordException, ValueError) as error:  # UnicodeDecodeError: the name of a header
        raise CorruptBatchError(f"batch at offset {header.base_offset}: {error}") from error
    finally:
        complete = min(map(len, (keys, values, offsets, times, all_headers)))
        added = complete - len(topics)
        topics += [frame.topic] * added
        partitions += [frame.partition] * added
        types += [CREATE_TIME if append_time is None else APPEND_TIME] * added
        frames += [frame.number] * added
        sources += offsets[complete - added : complete]
        errors += [None] * added
    return count
