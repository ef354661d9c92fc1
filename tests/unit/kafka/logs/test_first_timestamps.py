from __future__ import annotations

import struct

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from mm2.kafka.logs.first_timestamps import timestamp_at
from tests.unit.kafka.batches import batch, control_batch

FIRST = batch(100, [b"a", b"b", b"c"], timestamp=1_000)
SECOND = batch(103, [b"d"], timestamp=2_000)


def old(offset: int, *, magic: int, timestamp: int) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    builder.append(0, timestamp, b"k", b"v")
    raw = bytearray(builder.build())
    struct.pack_into(">q", raw, 0, offset)
    return bytes(raw)


@pytest.mark.parametrize(("offset", "expected"), [(90, 1_000), (100, 1_000), (102, 1_000), (103, 2_000), (104, None)])
def test_batch_at_an_offset(offset: int, expected: int | None) -> None:
    assert timestamp_at(FIRST + SECOND, offset) == expected


def test_batch_that_is_cut_off() -> None:
    assert timestamp_at(FIRST + SECOND[:40], 103) is None
    assert timestamp_at(FIRST + SECOND[:61], 103) == 2_000, "its header is complete"
    assert timestamp_at(FIRST[:20], 100) is None
    assert timestamp_at(b"", 0) is None


def test_control_batches_have_a_time_too() -> None:
    assert timestamp_at(control_batch(7, producer=1, commit=True), 7) == 1_000


def test_batch_without_a_timestamp() -> None:
    assert timestamp_at(batch(0, [b"a"], timestamp=-1), 0) is None


def test_old_formats() -> None:
    found = old(5, magic=1, timestamp=1_500) + old(6, magic=1, timestamp=1_600) + old(7, magic=0, timestamp=0)
    assert [timestamp_at(found, offset) for offset in (5, 6, 7)] == [1_500, 1_600, None]


def test_what_is_no_batch() -> None:
    assert timestamp_at(b"\x00" * 80, 0) is None, "its length is 0"
    assert timestamp_at(b"\x00" * 11 + b"\x50\x00\x00\x00\x00\x09" + b"\x00" * 80, 0) is None, "of a later format"
