from __future__ import annotations

import time

import pytest

from flows.batch.blob import batches
from flows.batch.header import HEADER_BYTES, BatchHeader, CorruptBatchError
from flows.batch.record_reader import read_record, record_starts
from flows.batch.records import RecordRewriter, varint
from flows.batch.steps import finish
from tests.lab.batches import LOG_APPEND_TIME, Batch, Record


def parsed(batch: Batch) -> tuple[BatchHeader, bytes]:
    ((header, data),) = batches(batch.encode(), check_crcs=True)
    return header, bytes(data[HEADER_BYTES:])


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (8_191, "fe7f"),
        (8_192, "808001"),
        (-8_193, "818001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_varints(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


def test_golden_bytes_of_a_merge() -> None:
    rewriter = RecordRewriter()
    finish(rewriter.add(*parsed(Batch(records=[Record(10, 1_000, b"k", b"v")])), 0))
    finish(rewriter.add(*parsed(Batch(records=[Record(11, 1_070, None, b"", (("h", None),))])), 0))
    (part,) = rewriter.parts()
    assert part.records.hex() == (
        "10 00 00 00 026b 0276 00"  # offset delta 0, timestamp delta 0
        " 14 00 8c01 02 01 00 02 0268 01"  # offset delta 1, timestamp delta 70: two bytes; null key, empty value
    ).replace(" ", "")
    assert (part.count, part.base_timestamp, part.max_timestamp) == (2, 1_000, 1_070)
    assert part.runs == ((10, 2),)


def test_header_names_need_not_be_valid_utf_8() -> None:
    raw = bytearray(Batch(records=[Record(0, 5, None, b"v", (("hh", b"x"),))]).encode())
    place = raw.index(b"hh")
    raw[place : place + 2] = b"\xff\xfe"
    ((header, data),) = batches(bytes(raw), check_crcs=False)
    rewriter = RecordRewriter()
    finish(rewriter.add(header, bytes(data[HEADER_BYTES:]), 0))
    (part,) = rewriter.parts()
    assert part.records == bytes(data[HEADER_BYTES:])


def test_append_time_applies_to_every_record() -> None:
    records = [Record(0, 100, b"a", b""), Record(1, 300, b"b", b"")]
    rewriter = RecordRewriter()
    finish(rewriter.add(*parsed(Batch(records=records, attributes=LOG_APPEND_TIME, max_timestamp=777)), 0))
    (part,) = rewriter.parts()
    assert (part.base_timestamp, part.max_timestamp) == (777, 777)


def test_runs_contain_the_source_offsets() -> None:
    holes = [Record(5, 0, b"", b""), Record(6, 0, b"", b""), Record(9, 0, b"", b"")]
    rewriter = RecordRewriter()
    finish(rewriter.add(*parsed(Batch(records=holes, base_offset=4, next_offset=12)), 6))
    finish(rewriter.add(*parsed(Batch(records=[Record(12, 0, b"", b"")])), 6))
    (part,) = rewriter.parts()
    assert part.runs == ((6, 1), (9, 1), (12, 1))


def test_parts_stay_within_their_size_unless_a_record_is_larger() -> None:
    records = [Record(number, 0, b"", bytes(size)) for number, size in enumerate([10, 10, 500, 10, 10, 10])]
    rewriter = RecordRewriter(100)
    finish(rewriter.add(*parsed(Batch(records=records)), 0))
    parts = rewriter.parts()
    assert [part.count for part in parts] == [2, 1, 3]
    assert [part.runs[0][0] for part in parts] == [0, 2, 3]


def test_no_wanted_records_give_no_part() -> None:
    rewriter = RecordRewriter()
    finish(rewriter.add(*parsed(Batch(records=[Record(3, 0, b"", b"")])), 4))
    assert rewriter.parts() == []


@pytest.mark.parametrize("cut", [1, 3, 8])
def test_records_that_end_too_early(cut: int) -> None:
    header, records = parsed(Batch(records=[Record(3, 0, b"key", b"value"), Record(4, 0, b"key", b"value")]))
    with pytest.raises(CorruptBatchError, match="do not contain the 2 records that its header declares"):
        finish(RecordRewriter().add(header, records[:-cut], 0))


def test_more_or_fewer_records_than_declared() -> None:
    header, records = parsed(Batch(records=[Record(3, 0, b"key", b"value")]))
    with pytest.raises(CorruptBatchError):
        finish(RecordRewriter().add(header._replace(record_count=2), records, 0))
    with pytest.raises(CorruptBatchError):
        finish(RecordRewriter().add(header, records * 2, 0))


@pytest.mark.parametrize(
    ("base", "delta", "seen"),
    [
        (2**63 - 1, 2**63 - 1, -2),
        (2**63 - 1, 1, -(2**63)),
        (-(2**63), -1, 2**63 - 1),
        (-(2**63), -(2**63), 0),
        (2**63 - 1, -(2**63), -1),
        (0, -(2**63), -(2**63)),
    ],
)
def test_timestamps_wrap_in_64_bits_as_in_java(base: int, delta: int, seen: int) -> None:
    field = varint(delta)
    body = b"\x00" + field + b"\x00\x01\x01\x00"
    header = parsed(Batch(records=[Record(0, 0, b"", b"")]))[0]._replace(base_offset=1, base_timestamp=base)
    rewriter = RecordRewriter()
    finish(rewriter.add(parsed(Batch(records=[Record(0, 50, b"", b"")]))[0]._replace(base_timestamp=50), UNIT, 0))
    finish(rewriter.add(header, varint(len(body)) + body, 0))
    (part,) = rewriter.parts()
    assert part.max_timestamp == max(50, seen)
    second = part.records[len(UNIT) :]
    assert read_record(second, part.base_timestamp, 1).timestamp_ms == seen


UNIT = bytes((12, 0, 0, 0, 1, 1, 0))  # an empty record with the timestamp and the offset of its batch


@pytest.mark.parametrize(
    "records",
    [
        b"\xff" * 1_000_000,
        b"\x0e\x00" + b"\xff" * 1_000_000,
        b"\x0e\x00\x00" + b"\xff" * 1_000_000,
        b"\x01" * 1_000_000,  # lengths of -1
        b"\x0d\x00\x00\x00\x01\x01\x00",  # -7
        b"\x0c\x00\x00\x01\x01\x01\x00",  # an offset before the first
        b"\x80\x80\x80\x80\x80\x00" + bytes(20),
    ],
    ids=["length", "timestamp", "offset", "lengths below 0", "length below 0", "offset below 0", "6 bytes"],
)
def test_bytes_that_no_broker_accepts_take_no_time(records: bytes) -> None:
    header = parsed(Batch(records=[Record(3, 0, b"", b"")]))[0]
    for declared in (1, 2**31 - 1):
        begun = time.thread_time()
        with pytest.raises(CorruptBatchError):
            finish(RecordRewriter().add(header._replace(record_count=declared), records, 0))
        if records[0] != 12:
            with pytest.raises(CorruptBatchError):
                finish(record_starts(records, declared, 3))
        assert time.thread_time() - begun < 0.5


@pytest.mark.parametrize("varints_before", range(6))
def test_a_record_whose_number_never_ends(varints_before: int) -> None:
    fields = b"".join((b"\x0e\x00", b"\x00", b"\x00", b"\x01", b"\x01", b"\x02")[:varints_before])
    begun = time.thread_time()
    with pytest.raises(CorruptBatchError, match="of more than"):
        read_record(fields + b"\xff" * 1_000_000, 0, 3)
    assert time.thread_time() - begun < 0.5


def test_offsets_of_records_increase() -> None:
    header = parsed(Batch(records=[Record(3, 0, b"", b""), Record(4, 0, b"", b"")]))[0]
    with pytest.raises(CorruptBatchError):
        finish(RecordRewriter().add(header, UNIT + UNIT, 0))


def test_a_million_records_are_rewritten_in_short_steps() -> None:
    count = 300_000
    header = parsed(Batch(records=[Record(0, 0, b"", b"")]))[0]
    records = b"".join(
        varint(len(field) + 5) + b"\x00\x00" + field + b"\x01\x01\x00" for field in map(varint, range(count))
    )
    rewriter = RecordRewriter()
    steps = rewriter.add(header._replace(record_count=count), records, 0)
    taken: list[float] = []
    begun = time.thread_time()
    for _ in steps:
        taken.append(time.thread_time() - begun)
        begun = time.thread_time()
    (part,) = rewriter.parts()
    assert (part.count, part.records) == (count, records)
    assert len(taken) > count // 5_000
    assert max(taken) < 0.1
