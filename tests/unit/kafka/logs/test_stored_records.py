"""Decoding of fetched bytes into records."""

from __future__ import annotations

import re
import struct
import time
import tracemalloc

import crc32c
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from mm2.core.naming.names import TopicPartition
from mm2.kafka.errors import BrokerError
from mm2.kafka.logs.stored_records import MAX_HEADERS, MAX_RECORDS, MAX_UNCOMPRESSED, StoredRecord, decode
from tests.unit.kafka.batches import batch, control_batch

PARTITION = TopicPartition("log", 3)


def values(message_set: bytes, position: int = 0, **options: object) -> tuple[list[bytes | None], int]:
    records, after = decode(message_set, PARTITION, position, **options)  # type: ignore[arg-type]
    return [record.value for record in records], after


def test_every_field_is_decoded() -> None:
    records, after = decode(batch(7, [b"v"], key=b"k", timestamp=1_700_000_000_000), PARTITION, 0)
    assert records == [StoredRecord(partition=3, offset=7, key=b"k", value=b"v", timestamp=1_700_000_000_000)]
    assert after == 8


def test_null_and_empty_are_distinguished() -> None:
    records, _ = decode(batch(0, [None, b""], key=None), PARTITION, 0)
    assert [(record.key, record.value) for record in records] == [(None, None), (None, b"")]


def test_no_bytes_are_no_records() -> None:
    assert values(b"", 5) == ([], 5)


def test_a_batch_that_starts_earlier_is_cut_at_the_position() -> None:
    assert values(batch(10, [b"a", b"b", b"c"]), 11) == ([b"b", b"c"], 13)


def test_a_batch_cut_off_at_the_end_waits_for_the_next_fetch() -> None:
    whole = batch(0, [b"a"])
    assert values(whole + batch(1, [b"b"])[:-1]) == ([b"a"], 1)
    assert values(whole[:30]) == ([], 0)


def test_a_gap_is_skipped() -> None:
    assert values(batch(0, [b"a"]) + batch(100, [b"b"]), 1) == ([b"b"], 101)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_every_codec(codec: int) -> None:
    assert values(batch(0, [b"x" * 1_000] * 3, codec=codec)) == ([b"x" * 1_000] * 3, 3)


BOMB = bytes(40_000_000)


UNREADABLE = (None, None, -1)


def skipped(message_set: bytes, position: int = 0) -> tuple[list[tuple[bytes | None, bytes | None, int]], int]:
    records, after = decode(message_set, PARTITION, position)
    return [(record.key, record.value, record.timestamp) for record in records], after


def problem(message_set: bytes, position: int) -> str:
    """Return the problem of the first record, which must be the only one with one."""
    first, *others = decode(message_set, PARTITION, position)[0]
    assert first.problem is not None
    assert all(one.problem is None for one in others)
    return f"offset {first.offset}: {first.problem}"


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_bomb_is_skipped_and_reported(codec: int) -> None:
    bomb = batch(1, [BOMB], codec=codec)
    assert values(batch(0, [b"a"]) + bomb) == ([b"a"], 1)  # it has a fetch of its own
    assert skipped(bomb + batch(2, [b"b"]), 1) == ([UNREADABLE, (b"k", b"b", 1_000)], 3)
    sizes = rf"\d+ bytes \(\w+\) decompress to more than the limit of {MAX_UNCOMPRESSED} bytes"
    assert re.fullmatch(rf"offset 1: the batch cannot be read: {sizes}", problem(bomb + batch(2, [b"b"]), 1))


@pytest.mark.parametrize("codec", [1, 2])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("key", [None, b"k"])
def test_a_bomb_in_an_old_message_format(magic: int, codec: int, key: bytes | None) -> None:
    def message_set(value: bytes) -> bytes:
        builder = LegacyRecordBatchBuilder(magic, codec, 1 << 30)
        builder.append(0, timestamp=1_000, key=key, value=value)
        return bytes(builder.build())

    assert values(message_set(b"v" * 1_000)) == ([b"v" * 1_000], 1)
    assert skipped(message_set(BOMB)) == ([UNREADABLE], 1)


def test_much_that_is_compressed_is_read_in_several_fetches() -> None:
    log = [batch(offset, [bytes(6_000_000)], codec=4) for offset in range(5)]
    position, fetches = 0, []
    while position < len(log):
        read, position = values(b"".join(log[position:]), position)
        fetches.append(len(read))
    assert fetches == [2, 2, 1]


def sealed(raw: bytearray) -> bytes:
    struct.pack_into(">I", raw, 17, crc32c.crc32c(bytes(raw[21:])))
    return bytes(raw)


def with_records(count: int, records: bytes) -> bytes:
    """A batch at offset 5 with these uncompressed records."""
    raw = bytearray(batch(5, [b"x"])[:61]) + records
    struct.pack_into(">i", raw, 8, len(raw) - 12)
    struct.pack_into(">i", raw, 57, count)
    return sealed(raw)


def test_damaged_compression_is_skipped() -> None:
    raw = bytearray(batch(5, [b"x" * 100], codec=4))
    raw[61:65] = b"none"
    assert skipped(sealed(raw) + batch(6, [b"b"]), 5) == ([UNREADABLE, (b"k", b"b", 1_000)], 7)
    assert "offset 5: the batch cannot be read: records cannot be decompressed as zstd" in problem(sealed(raw), 5)


def test_names_of_headers_that_are_not_utf_8_are_replaced() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    builder.append(0, 1_000, b"k", None, [("a", b"1"), ("hh", None)])
    builder.append(1, 1_001, None, b"v", [])
    raw = bytearray(builder.build())
    place = raw.index(b"hh")
    raw[place : place + 2] = b"\xff\xfe"
    first = StoredRecord(
        partition=3, offset=0, key=b"k", value=None, timestamp=1_000, headers=(("a", b"1"), ("\ufffd\ufffd", None))
    )
    second = StoredRecord(partition=3, offset=1, key=None, value=b"v", timestamp=1_001)
    assert decode(sealed(raw), PARTITION, 0) == ([first, second], 2)
    append_time = bytearray(sealed(raw))
    append_time[22] |= 8
    struct.pack_into(">q", append_time, 35, 77)
    assert [record.timestamp for record in decode(sealed(append_time), PARTITION, 0)[0]] == [77, 77]


@pytest.mark.parametrize(
    ("count", "records"),
    [
        (1, b""),
        (1, b"\xff" * 20),
        (1, b"\xff" * 1_000_000),
        (1, b"\x0c\x00\x00\x00\x01\x01\x00\x00"),
        (1, b"\x0e\x00\x00\x00\x01\x01\x00\x00"),
        (1, b"\x0c\x00\x00\x00\x7e\x01\x00"),
        (2, b"\x0c\x00\x00\x00\x01\x01\x00"),
        (-1, b""),
        (2**31 - 1, b"\x01" * 100),
        (MAX_RECORDS + 1, b"\x0c\x00\x00\x00\x01\x01\x00" * (MAX_RECORDS + 1)),
        (1, b"\x96\x80\xfa\x01\x00\x00\x00\x01\x01\x80\x89\x7a" + bytes(2 << 20)),
    ],
    ids=[
        "nothing", "no end", "megabyte", "rest", "short", "key", "one of two", "below 0", "2^31", "many", "headers",
    ],
)  # fmt: skip
def test_whatever_the_records_are_the_batch_is_skipped(count: int, records: bytes) -> None:
    begun = time.thread_time()
    assert skipped(with_records(count, records) + batch(6, [b"b"]), 5) == ([UNREADABLE, (b"k", b"b", 1_000)], 7)
    assert time.thread_time() - begun < 1


@pytest.mark.parametrize("value", [b"x" * 2_000_000, b""])
def test_large_batches_are_read_in_the_same_way(value: bytes) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    for index, one in enumerate([value, None, b"v" * 1_100_000]):
        builder.append(index, 1_000, None, one, [])
    raw = builder.build()
    struct.pack_into(">q", raw, 0, 7)
    read, after = decode(bytes(raw), PARTITION, 8)
    assert [(one.offset, one.key, one.value, one.timestamp) for one in read] == [
        (8, None, None, 1_000),
        (9, None, b"v" * 1_100_000, 1_000),
    ]
    assert after == 10


@pytest.mark.parametrize("headers", [MAX_HEADERS, MAX_HEADERS + 1])
def test_a_record_of_a_large_batch_has_a_number_of_headers_at_most(headers: int) -> None:
    """A header takes two bytes in the batch, and a hundred as an object."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    builder.append(0, 1_000, b"k", bytes(1_100_000), [("", None)] * headers)
    ((_, value, timestamp),), after = skipped(bytes(builder.build()))
    assert (value, timestamp, after) == ((bytes(1_100_000), 1_000, 1) if headers == MAX_HEADERS else (None, -1, 1))


def test_headers_take_no_more_memory_than_honest_ones() -> None:
    raw = bytearray(with_records(1, b"\x00" * (8 << 20)))
    tracemalloc.start()
    try:
        assert skipped(bytes(raw), 5) == ([UNREADABLE], 6)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


def test_bytes_that_are_no_batches_are_a_declared_error() -> None:
    whole = bytearray(batch(5, [b"a"]))
    for at, number in ((8, -5), (8, 0), (8, 4), (16, 7)):
        raw = bytearray(whole)
        raw[at : at + 1 if at == 16 else at + 4] = bytes((number,)) if at == 16 else struct.pack(">i", number)
        with pytest.raises(BrokerError, match=r"cannot read log-3 at offset 5: .*CORRUPT_MESSAGE"):
            decode(bytes(raw), PARTITION, 5)
        assert values(bytes(whole + raw[:8] + raw[8:]), 5) == ([b"a"], 6)


def test_a_marker_without_a_key_ends_nothing() -> None:
    log = batch(0, [b"a"], producer=1) + batch(1, [b""], key=b"\x00", producer=1, attributes=0x20)
    assert skipped(log) == ([(b"k", b"a", 1_000), UNREADABLE], 2)


def test_a_wrong_checksum_is_an_error_with_the_offset() -> None:
    damaged = bytearray(batch(5, [b"a"]))
    damaged[-1] ^= 1
    with pytest.raises(BrokerError, match="cannot read log-3 at offset 5: wrong checksum"):
        decode(bytes(damaged), PARTITION, 5)


def test_markers_are_not_records() -> None:
    log = batch(0, [b"a"], producer=1) + control_batch(1, producer=1, commit=True)
    assert values(log) == ([b"a"], 2)


def test_aborted_records_are_omitted_under_read_committed() -> None:
    log = (
        batch(0, [b"plain"])
        + batch(1, [b"aborted"], producer=1)
        + batch(2, [b"of another"], producer=2)
        + control_batch(3, producer=1, commit=False)
        + batch(4, [b"afterwards"], producer=1)
        + control_batch(5, producer=1, commit=True)
        + control_batch(6, producer=2, commit=True)
    )
    aborted = [(1, 1)]
    assert values(log, aborted=aborted, committed_only=True) == ([b"plain", b"of another", b"afterwards"], 7)
    assert values(log, aborted=aborted)[0] == [b"plain", b"aborted", b"of another", b"afterwards"]


def test_an_abort_that_began_before_the_position_still_counts() -> None:
    log = batch(10, [b"aborted"], producer=1) + control_batch(11, producer=1, commit=False)
    assert values(log, 10, aborted=[(1, 2)], committed_only=True) == ([], 12)


def test_a_plain_batch_of_an_aborting_producer_id_is_kept() -> None:
    log = batch(0, [b"not transactional"], producer=1, transactional=False)
    assert values(log, aborted=[(1, 0)], committed_only=True)[0] == [b"not transactional"]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_read_too(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for offset in range(3):
        builder.append(offset, timestamp=1_000, key=b"k", value=b"%d" % offset)
    assert values(bytes(builder.build()), 1) == ([b"1", b"2"], 3)


def test_the_helpers_of_this_test_produce_what_brokers_produce() -> None:
    assert struct.unpack_from(">h", control_batch(0, producer=1, commit=True), 21)[0] == 0b11_0000
    assert DefaultRecordBatchBuilder(2, 0, 1, 1, 0, 0, 100).build()[16] == 2
