from __future__ import annotations

import pytest

from flows.batch.blob import batches
from flows.batch.header import HEADER_BYTES, BatchHeader, CorruptBatchError
from flows.batch.records import RecordRewriter, varint
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
    rewriter.add(*parsed(Batch(records=[Record(10, 1_000, b"k", b"v")])), 0)
    rewriter.add(*parsed(Batch(records=[Record(11, 1_070, None, b"", (("h", None),))])), 0)
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
    rewriter.add(header, bytes(data[HEADER_BYTES:]), 0)
    (part,) = rewriter.parts()
    assert part.records == bytes(data[HEADER_BYTES:])


def test_append_time_applies_to_every_record() -> None:
    records = [Record(0, 100, b"a", b""), Record(1, 300, b"b", b"")]
    rewriter = RecordRewriter()
    rewriter.add(*parsed(Batch(records=records, attributes=LOG_APPEND_TIME, max_timestamp=777)), 0)
    (part,) = rewriter.parts()
    assert (part.base_timestamp, part.max_timestamp) == (777, 777)


def test_runs_contain_the_source_offsets() -> None:
    holes = [Record(5, 0, b"", b""), Record(6, 0, b"", b""), Record(9, 0, b"", b"")]
    rewriter = RecordRewriter()
    rewriter.add(*parsed(Batch(records=holes, base_offset=4, next_offset=12)), 6)
    rewriter.add(*parsed(Batch(records=[Record(12, 0, b"", b"")])), 6)
    (part,) = rewriter.parts()
    assert part.runs == ((6, 1), (9, 1), (12, 1))


def test_parts_stay_within_their_size_unless_a_record_is_larger() -> None:
    records = [Record(number, 0, b"", bytes(size)) for number, size in enumerate([10, 10, 500, 10, 10, 10])]
    rewriter = RecordRewriter(100)
    rewriter.add(*parsed(Batch(records=records)), 0)
    parts = rewriter.parts()
    assert [part.count for part in parts] == [2, 1, 3]
    assert [part.runs[0][0] for part in parts] == [0, 2, 3]


def test_no_wanted_records_give_no_part() -> None:
    rewriter = RecordRewriter()
    rewriter.add(*parsed(Batch(records=[Record(3, 0, b"", b"")])), 4)
    assert rewriter.parts() == []


@pytest.mark.parametrize("cut", [1, 3, 8])
def test_records_that_end_too_early(cut: int) -> None:
    header, records = parsed(Batch(records=[Record(3, 0, b"key", b"value"), Record(4, 0, b"key", b"value")]))
    with pytest.raises(CorruptBatchError, match="do not contain the 2 records that its header declares"):
        RecordRewriter().add(header, records[:-cut], 0)


def test_more_or_fewer_records_than_declared() -> None:
    header, records = parsed(Batch(records=[Record(3, 0, b"key", b"value")]))
    with pytest.raises(CorruptBatchError):
        RecordRewriter().add(header._replace(record_count=2), records, 0)
    with pytest.raises(CorruptBatchError):
        RecordRewriter().add(header, records * 2, 0)
