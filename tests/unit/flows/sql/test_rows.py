"""Fetched batches as rows of a query."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from flows.sql.frames import NO_LIMIT, Frame
from flows.sql.rows import (
    ALIGNMENT,
    BYTES_PER_BATCH,
    BYTES_WRITTEN,
    ERROR,
    FRAME,
    NO_FRAME,
    OFFSET,
    OUTPUT_BUFFER_BYTES,
    PADDED_AFTER_ROWS,
    PADDED_AFTER_S,
    PADDING_ROWS,
    ROWS_WRITTEN,
    SCHEMA,
    RowBuilder,
    offset_of_error,
    rows_of,
    spark_schema,
)
from tests.lab import old_formats
from tests.lab.batches import HEADER, LOG_APPEND_TIME, Batch, Record, sealed

LIMIT = 1_000_000


def found(
    *blobs: bytes, wanted: int = 0, until: int = NO_LIMIT, limit: int = LIMIT, arrived_ms: int = 0
) -> tuple[list[Any], str | None]:
    """Return the rows, and the error of the filler after them. Timestamps are epoch microseconds."""
    frame = Frame(7, wanted, "orders", 3, b"".join(blobs), limit, until)
    batches = list(rows_of(frame, arrived_ms=arrived_ms))
    rows = []
    for batch in batches:
        assert batch.schema == SCHEMA
        assert batch.num_rows <= ROWS_WRITTEN
        at = batch.schema.get_field_index("timestamp")
        rows += batch.set_column(at, "timestamp", batch.column(at).cast(pa.int64())).to_pylist()
    (*rows, filler) = rows
    assert {row[FRAME] for row in (*rows, filler)} == {7}
    assert filler[OFFSET] is None
    assert [row[OFFSET] for row in rows] == [row["offset"] for row in rows]
    return rows, filler[ERROR]


def offsets(*blobs: bytes, **options: int) -> list[int]:
    rows, error = found(*blobs, **options)
    assert error is None
    return [row[OFFSET] for row in rows]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_every_column_of_a_record(codec: int) -> None:
    headers = (("h", b"1"), ("h", None), ("", b""))
    records = [
        Record(10, 1_700_000_000_123, b"key", b"value", headers),
        Record(11, -1, None, None),
        Record(12, 0, b"", b"", (("größe", b"x"),)),
    ]
    rows, error = found(Batch(records=records, codec=codec).encode())
    assert error is None
    assert [(row["key"], row["value"], row["timestamp"]) for row in rows] == [
        (b"key", b"value", 1_700_000_000_123_000),
        (None, None, -1_000),
        (b"", b"", 0),
    ]
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in rows} == {("orders", 3, 0)}
    assert [tuple((one["key"], one["value"]) for one in row["headers"]) for row in rows] == [
        headers,
        (),
        (("größe", b"x"),),
    ]


def test_append_time_is_that_of_the_batch() -> None:
    batch = Batch(records=[Record(0, 5, b"k", b"v")], attributes=LOG_APPEND_TIME, max_timestamp=9)
    ((row,), _) = found(batch.encode())
    assert (row["timestamp"], row["timestampType"]) == (9_000, 1)


def test_records_before_the_wanted_offset_and_holes_have_no_row() -> None:
    compacted = Batch(
        records=[Record(at, 5, b"k", b"v") for at in (10, 12, 13, 17)], base_offset=10, next_offset=20
    ).encode()
    assert offsets(compacted, wanted=13) == [13, 17]
    assert offsets(compacted, wanted=18) == []


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats(magic: int) -> None:
    contents = [(3, b"k", b"v"), (4, None, b"v"), (6, b"k", None)]
    messages = b"".join(old_formats.message(o, k, v, magic=magic, timestamp=1_000 + o) for o, k, v in contents)
    inside = b"".join(
        old_formats.message(at if magic else 7 + at, b"w", b"v", magic=magic, timestamp=5) for at in range(2)
    )
    wrapper = old_formats.wrapper(inside, old_formats.GZIP, magic=magic, offset=8, timestamp=5)
    rows, error = found(messages, wrapper, wanted=4, arrived_ms=99)
    assert error is None
    assert [(row[OFFSET], row["key"], row["headers"]) for row in rows] == [
        (4, None, []),
        (6, b"k", []),
        (7, b"w", []),
        (8, b"w", []),
    ]
    assert [row["timestamp"] for row in rows] == ([1_004_000, 1_006_000, 5_000, 5_000] if magic else [99_000] * 4)


def test_many_records_are_several_batches() -> None:
    count = 2 * ROWS_WRITTEN + 1
    assert offsets(Batch(records=[Record(at, 5, b"k", b"v") for at in range(count)]).encode()) == list(range(count))


def test_a_batch_that_cannot_be_decoded_ends_the_frame() -> None:
    good = Batch(records=[Record(0, 5, b"k", b"v")]).encode()
    raw = bytearray(Batch(records=[Record(at, 5, b"k", b"v") for at in (1, 2)]).encode())
    fields = HEADER.unpack_from(raw)
    for bad in (
        sealed(bytearray(raw), (*fields[:5], 1, *fields[6:])),
        sealed(bytearray(raw), (*fields[:12], 3)),
        sealed(raw[:61] + b"\xff" * (len(raw) - 61), fields),
        Batch(records=[Record(1, 2**63 // 1_000, b"k", b"v")]).encode(),
    ):
        rows, error = found(good, bad, good)
        assert rows[0][OFFSET] == 0
        assert len(rows) <= 3
        assert "offset 1" in str(error)


def test_the_name_of_a_header_that_is_not_utf8() -> None:
    raw = bytearray(Batch(records=[Record(1, 5, b"k", b"v", (("name", b""),))]).encode())
    raw[raw.index(b"name")] = 0xFF
    rows, error = found(sealed(raw, HEADER.unpack_from(raw)))
    assert rows == []
    assert "batch at offset 1" in str(error)


def test_a_record_that_is_too_large_ends_the_frame_with_its_offset() -> None:
    small, large = Record(0, 5, b"k", b"v"), Record(1, 5, b"k", bytes(10_000))
    rows, error = found(Batch(records=[small, large], codec=1).encode(), limit=1_000)
    assert [row[OFFSET] for row in rows] == [0]
    offset, message = offset_of_error(str(error))
    assert (offset, message.partition(":")[0]) == (1, "the record at offset 1 is too large")
    assert offset_of_error("batch at offset 1: bad") == (None, "batch at offset 1: bad")
    records = [large._replace(offset=0)]
    assert offsets(Batch(records=records).encode(), limit=1_000) == [0], "it is stored in as many bytes"


def frame(number: int, count: int) -> Frame:
    records = [Record(at, 5, b"k", b"v") for at in range(count)]
    return Frame(number, 0, "orders", 3, Batch(records=records).encode())


def test_frames_share_a_batch_that_padding_pushes_through() -> None:
    rows = RowBuilder()
    assert [*rows.add(frame(7, 1)), *rows.add(frame(8, 2))] == []
    rows.pad()
    (batch,) = rows.take()
    assert batch.column(FRAME).to_pylist() == [7, 7, 8, 8, 8] + [NO_FRAME] * PADDING_ROWS
    assert batch.column(OFFSET).to_pylist() == [0, None, 0, 1, None] + [None] * PADDING_ROWS
    padding = batch.column(ERROR).to_pylist()
    assert padding[:5] == [None] * 5
    assert len(padding[5]) >= BYTES_PER_BATCH, "Spark passes the batch on when it has read one more row"
    assert len(padding[6]) > OUTPUT_BUFFER_BYTES, "nothing stays in the worker's output if this row is written alone"
    assert batch.schema.names[-1] == ERROR, "the last column is written last"
    assert list(rows.take()) == []


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_nothing_of_an_error_stays_in_the_output_of_the_worker(codec: int) -> None:
    raw = bytearray(Batch(records=[Record(10**at, 5, b"k", b"v") for at in range(codec)]).encode())
    fields = HEADER.unpack_from(raw)
    rows = RowBuilder()
    bad = sealed(raw, (*fields[:5], codec, *fields[6:]))
    list(rows.add(Frame(7, 0, "orders", 3, bad)))
    rows.pad()
    (batch,) = rows.take()
    texts = [text for text in batch.column(ERROR).to_pylist() if text is not None]
    assert len(texts) == 1 + PADDING_ROWS
    assert sum(len(text) for text in texts) % ALIGNMENT == 0, "Arrow would write zeros after the last text"


def test_many_rows_are_written_in_parts() -> None:
    rows = RowBuilder()
    assert list(rows.add(frame(7, ROWS_WRITTEN - 2))) == []
    assert [batch.num_rows for batch in rows.add(frame(8, 2))] == [ROWS_WRITTEN]
    assert [batch.num_rows for batch in rows.take()] == [2]


def test_large_records_are_written_in_parts_of_fewer_rows() -> None:
    records = [Record(at, 5, b"k", bytes(BYTES_WRITTEN // 3)) for at in range(4)]
    rows = RowBuilder(now=lambda: 0.0)
    parts = list(rows.add(Frame(7, 0, "orders", 3, Batch(records=records, codec=1).encode())))
    assert [batch.column(OFFSET).to_pylist() for batch in parts] == [[0], [1, 2]], "though they compress well"
    large = Batch(records=[Record(0, 5, b"k", bytes(2 * BYTES_WRITTEN))]).encode()
    *_, filler, record = rows.add(Frame(8, 0, "orders", 3, large))
    assert filler.column(FRAME).to_pylist() == [7]
    assert record.column(OFFSET).to_pylist() == [0], "a record is never divided"


@pytest.mark.parametrize("part", ["key", "header"])
def test_large_keys_and_headers_count(part: str) -> None:
    large = bytes(BYTES_WRITTEN)
    key, headers = (large, ()) if part == "key" else (b"k", (("h", large),))
    rows = RowBuilder(now=lambda: 0.0)
    encoded = Batch(records=[Record(0, 5, key, b"v", headers)]).encode()
    assert [batch.num_rows for batch in rows.add(Frame(7, 0, "orders", 3, encoded))] == [1]


def padding_at(batches: Iterable[pa.RecordBatch]) -> list[int]:
    """The index of each row that pushes others through."""
    frames = [number for batch in batches for number in batch.column(FRAME).to_pylist()]
    found = [at for at, number in enumerate(frames) if number == NO_FRAME]
    assert found[1::2] == [at + 1 for at in found[::2]]
    return found[::2]


def test_rows_that_the_query_may_drop_are_pushed_through_within_a_frame() -> None:
    rows = RowBuilder(now=lambda: 0.0)
    batches = rows.add(frame(7, 2 * PADDED_AFTER_ROWS + 10))
    assert next(batches).num_rows == ROWS_WRITTEN, "a large batch is not decoded at once"
    assert padding_at(batches) == [
        PADDED_AFTER_ROWS - ROWS_WRITTEN,
        2 * PADDED_AFTER_ROWS - ROWS_WRITTEN + PADDING_ROWS,
    ]


def test_slow_queries_are_pushed_through_after_a_time() -> None:
    clock = itertools.count(step=0.6 * PADDED_AFTER_S)
    rows = RowBuilder(now=lambda: next(clock))
    assert padding_at(rows.add(frame(7, 2 * ROWS_WRITTEN))) == [2 * ROWS_WRITTEN]


def test_a_large_record_that_is_skipped_is_padded_after_a_time() -> None:
    """Nothing returns from the query meanwhile, and the lane would take it for stuck."""
    clock = itertools.count(step=0.6 * PADDED_AFTER_S)
    rows = RowBuilder(now=lambda: next(clock))
    records = [Record(0, 5, b"k", bytes(2_000_000)), Record(1, 5, b"k", b"v")]
    of = Frame(7, 1, "orders", 3, Batch(records=records, codec=4).encode(), 1_000_000)
    assert padding_at(rows.add(of))


def test_only_columns_that_are_used_are_written() -> None:
    rows = RowBuilder({"value", "topic"})
    assert list(rows.add(frame(7, 1))) == []
    (batch,) = rows.take()
    assert batch.schema.names == ["value", "topic", OFFSET, FRAME, ERROR]
    assert batch.to_pylist()[0] == {"value": b"v", "topic": "orders", OFFSET: 0, FRAME: 7, ERROR: None}
    assert spark_schema({"value", "topic"}) == (
        f"value binary, topic string, {OFFSET} bigint, {FRAME} bigint, {ERROR} string"
    )


def test_records_after_the_last_wanted_one() -> None:
    first = Batch(records=[Record(at, 0, b"k", b"v") for at in (3, 4, 5)]).encode()
    second = Batch(records=[Record(at, 0, b"k", b"v") for at in (6, 7)]).encode()
    assert offsets(first, second, wanted=4, until=7) == [4, 5, 6]
    assert offsets(first, wanted=4, until=4) == []


def test_a_record_that_is_too_large_after_the_last_wanted_one() -> None:
    """It comes with the next part of the frame, after those between them."""
    batch = Batch(records=[Record(0, 0, b"k", b"v"), Record(1, 0, b"k", b"v"), Record(2, 0, b"k", bytes(9_000))])
    encoded = Batch(records=batch.records, codec=1).encode()
    assert found(encoded, until=1, limit=1_000)[1] is None
    assert offset_of_error(found(encoded, until=3, limit=1_000)[1] or "")[0] == 2
