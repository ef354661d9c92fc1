"""The rows that a query returned, as a batch."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import pyarrow as pa
import pytest

from flows.batch.choice import BatchRules
from flows.batch.header import HEADER_BYTES
from flows.batch.pack import pack
from flows.batch.steps import finish
from flows.batch.target_batch import NOT_IDEMPOTENT, SourceBatch, WrittenBatch
from flows.sql.rows import FAILED
from flows.sql.written import FailedRow, FrameRows, RowColumns, runs_of
from tests.lab.batches import Record, read
from tests.unit.flows.sql.results import arrow, columns, row


def batch_of(rows: list[dict[str, Any]], codec: int = 0) -> tuple[WrittenBatch | None, FailedRow | None]:
    found = FrameRows()
    if rows:
        found.add(columns(rows), 0, len(rows))
    return found.batch(codec, None), found.failed


def records(written: WrittenBatch | None) -> list[Record]:
    """Return the records with their source offsets, as the target gets them."""
    assert written is not None
    source = SourceBatch(written.header, written.data, 0, 0, 0.0, written.runs)
    (packed,) = finish(pack(deque([source]), 0, BatchRules(), None, Counter())).batches
    packed.stamp(NOT_IDEMPOTENT)
    found = read(b"".join(bytes(piece) for piece in packed.wire()))
    assert [one.offset for one in found] == list(range(packed.count))
    return [one._replace(offset=packed.source_offset(index)) for index, one in enumerate(found)]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_every_column_of_a_record(codec: int) -> None:
    headers = [("h", b"1"), ("h", None), ("", b"")]
    rows = [
        row(10, key=None, value=None, timestamp=-1_000),
        row(12, key=b"", value=b"", timestamp=7_999, headers=headers),
        row(13, timestamp=1_000, headers=[]),
    ]
    written, failed = batch_of(rows, codec)
    assert written is not None
    assert failed is None
    assert records(written) == [
        Record(10, -1, None, None),
        Record(12, 7, b"", b"", tuple(headers)),
        Record(13, 1, b"k", b"v"),
    ]
    assert written.runs == ((10, 1), (12, 2))
    header = written.header
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (10, 3, 3)
    assert (header.base_timestamp, header.max_timestamp, header.codec) == (-1, 7, codec)
    assert header.size == len(written.data)


def test_nothing_is_kept() -> None:
    assert batch_of([]) == (None, None)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"timestamp": None}, "timestamp to NULL"),
        ({"timestamp": -1_001}, "before 1970"),
        ({"headers": [None]}, "NULL"),
        ({"headers": [("h", b""), (None, b"")]}, "no name"),
    ],
)
def test_a_record_that_cannot_be_written(bad: dict[str, Any], why: str) -> None:
    written, failed = batch_of([row(3), row(5, **bad), row(6)])
    assert [record.offset for record in records(written)] == [3]
    assert failed is not None
    assert failed.offset == 5
    assert why in str(failed.reason)
    assert batch_of([row(5, **bad)])[0] is None


def test_a_name_that_is_not_utf8() -> None:
    """Spark's CAST of a binary to a string does not check it."""
    batch = arrow([row(3), row(5, headers=[("name", b"")])])
    headers = batch.column("headers")
    names = pa.array([b"\xff\xfe"]).view(pa.string())
    broken = pa.StructArray.from_arrays([names, pa.array([b""])], ["key", "value"])
    broken_headers = pa.ListArray.from_arrays(headers.offsets, broken, mask=headers.is_null())
    rows = FrameRows()
    rows.add(RowColumns(batch.set_column(batch.schema.get_field_index("headers"), "headers", broken_headers)), 0, 2)
    written, failed = rows.batch(0, None), rows.failed
    assert [record.offset for record in records(written)] == [3]
    assert failed == FailedRow(5, "the query sets a header whose name is not valid UTF-8")


def test_the_first_record_for_which_the_query_failed() -> None:
    nothing: dict[str, Any] = {"key": None, "value": None, "timestamp": None, FAILED: True}
    rows = FrameRows()
    first = columns([row(0), row(1), row(2)])
    rows.add(first, 1, 3)
    rows.add(columns([row(3), row(5, **nothing), row(6, **nothing)]), 0, 3)
    rows.add(columns([row(7, **nothing)]), 0, 1)
    written, failed = rows.batch(0, None), rows.failed
    assert failed == FailedRow(5, None)
    assert [record.offset for record in records(written)] == [1, 2, 3]


def test_runs_of_offsets() -> None:
    assert runs_of([4]) == ((4, 1),)
    assert runs_of([4, 5, 7, 9, 10]) == ((4, 2), (7, 1), (9, 2))


def test_the_header_of_the_batch_is_left_out() -> None:
    written, _ = batch_of([row(0)])
    assert written is not None
    assert bytes(written.data[:HEADER_BYTES]) == bytes(HEADER_BYTES)
