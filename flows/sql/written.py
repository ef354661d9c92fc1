"""The rows that a query returned for one frame, as a batch that is packed like a fetched one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from flows.batch.codecs import compress
from flows.batch.header import HEADER_BYTES, LENGTH_END, MAGIC, NO_PRODUCER, BatchHeader
from flows.batch.target_batch import Runs, WrittenBatch
from flows.sql.record_builder import record_builder, records_of
from flows.sql.rows import ERROR, FAILED, FRAME, OFFSET

_INTEGER = pa.int64()
_RAW_HEADERS = pa.list_(pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())]))
"""Spark's strings can be invalid UTF-8 (CAST of a binary), which pyarrow does not decode."""

_NO_TIMESTAMP = -1
"""Of a message in a format from before Kafka 0.10. A broker rejects earlier ones."""


class FailedRow(NamedTuple):
    """The record at source ``offset`` cannot be copied. ``reason`` None: the query failed for it; Spark knows why."""

    offset: int
    reason: str | None


Headers = list[tuple[str, bytes | None]]
_NO_HEADERS: Headers = []


class RowColumns:
    """The columns of an Arrow batch as lists. Timestamps are epoch milliseconds.

    ``failures`` are the reasons of the rows that cannot be copied, by index; None: the query failed.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        headers = columns["headers"].cast(_RAW_HEADERS)
        timestamps = columns["timestamp"].cast(_INTEGER).to_pylist()
        self.frames: list[int] = columns[FRAME].to_pylist()
        self.errors: list[str | None] = columns[ERROR].to_pylist()
        self.offsets: list[Any] = columns[OFFSET].to_pylist()
        self.keys: list[bytes | None] = columns["key"].to_pylist()
        self.values: list[bytes | None] = columns["value"].to_pylist()
        self.failures: dict[int, str | None] = {}
        self.timestamps = [-1 if one is None else one // 1_000 for one in timestamps]
        if headers.null_count == len(headers):
            self.headers = [_NO_HEADERS] * len(headers)
        else:
            found = headers.to_pylist()
            self._add_failures(found, _header_failure)
            self.headers = [_NO_HEADERS if at in self.failures else _headers(one) for at, one in enumerate(found)]
        if columns["timestamp"].null_count or min(self.timestamps, default=0) < _NO_TIMESTAMP:
            self._add_failures(timestamps, _timestamp_failure)
        if columns[FAILED].true_count:
            self.failures |= {index: None for index, one in enumerate(columns[FAILED].to_pylist()) if one}

    def _add_failures(self, column: list[Any], failure: Callable[[Any], str | None]) -> None:
        for index, one in enumerate(column):
            if self.offsets[index] is not None and (reason := failure(one)) is not None:
                self.failures[index] = reason


@dataclass(slots=True)
class FrameRows:
    """The columns of one frame, in the order of the source.

    ``failed`` is the first row that cannot be copied; later ones are not read.
    """

    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    failed: FailedRow | None = None

    def add(self, columns: RowColumns, first: int, until: int) -> None:
        """Add the rows from ``first`` up to, not including, ``until``."""
        if self.failed is not None:
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

    def batch(self, codec: int, level: int | None) -> WrittenBatch | None:
        """Return the records in a batch compressed by ``codec``; None if there are none."""
        if not self.offsets:
            return None
        builder = record_builder()
        append = builder.append
        for index, (timestamp, key, value, headers) in enumerate(
            zip(self.timestamps, self.keys, self.values, self.headers, strict=True)
        ):
            # deltas are counted from the first timestamp, for which the builder does not take -1
            append(index, timestamp - self.timestamps[0], key, value, headers)
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


def _timestamp_failure(microseconds: int | None) -> str | None:
    if microseconds is None:
        return "the query sets timestamp to NULL"
    return "the query sets timestamp to a time before 1970" if microseconds // 1_000 < _NO_TIMESTAMP else None


def _header_failure(headers: Sequence[dict[str, Any]] | None) -> str | None:
    if headers is None:
        return None
    if any(one is None or one["key"] is None for one in headers):
        return "the query sets a header that is NULL or has no name"
    if not all(_is_utf8(one["key"]) for one in headers):
        return "the query sets a header whose name is not valid UTF-8"
    return None


def _headers(headers: Sequence[dict[str, Any]] | None) -> Headers:
    """Return the headers of a record; NULL is no headers."""
    return [(one["key"].decode(), one["value"]) for one in headers] if headers else _NO_HEADERS


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
