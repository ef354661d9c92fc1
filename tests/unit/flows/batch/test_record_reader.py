"""`flows.batch.record_reader`."""

from __future__ import annotations

import time

import pytest

from flows.batch.header import HEADER_BYTES, CorruptBatchError
from flows.batch.record_reader import DecodedRecord, read_record, record_starts
from flows.batch.steps import finish
from tests.lab.batches import Batch, Record

RECORDS = (
    Record(7, 1_000, b"key", b"value", (("a", b"1"), ("a", None), ("größe", b""))),
    Record(8, 1_500, None, None),
    Record(9, 900, b"", b"x" * 300),
)


def uncompressed() -> bytes:
    return Batch(records=list(RECORDS)).encode()[HEADER_BYTES:]


def test_records_are_decoded() -> None:
    records = uncompressed()
    starts = finish(record_starts(records, 3, 7))
    decoded = [read_record(records[start:], 1_000, 7) for start in starts[:-1]]
    assert decoded == [
        DecodedRecord(
            timestamp_ms=one.timestamp,
            key=one.key,
            value=one.value,
            headers=tuple((name.encode(), value) for name, value in one.headers),
        )
        for one in RECORDS
    ]
    assert (starts[0], starts[-1]) == (0, len(records))


@pytest.mark.parametrize("count", [2, 4])
def test_another_number_of_records(count: int) -> None:
    with pytest.raises(CorruptBatchError, match=f"batch at offset 7: its .* do not contain the {count} records"):
        finish(record_starts(uncompressed(), count, 7))


def test_a_negative_length_takes_no_time() -> None:
    """A record of -1 bytes ends where it starts, so that any number of them would fit."""
    begun = time.thread_time()
    with pytest.raises(CorruptBatchError):
        finish(record_starts(b"\x01", 20_000_000, 7))
    assert time.thread_time() - begun < 1


@pytest.mark.parametrize("records", [b"", b"\x10\x00\x00", b"\x14\x00\x00\x00\x40k\x01\x00"])
def test_records_that_end_too_early(records: bytes) -> None:
    with pytest.raises(CorruptBatchError, match="record at offset 7 cannot be read"):
        read_record(records, 0, 7)
