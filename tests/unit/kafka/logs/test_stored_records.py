"""Decoding of fetched bytes into records."""

from __future__ import annotations

import struct

import crc32c
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from mm2.core.naming.names import TopicPartition
from mm2.kafka.errors import BrokerError
from mm2.kafka.logs.stored_records import MAX_UNCOMPRESSED, StoredRecord, decode
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


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_bomb_is_an_error_with_its_offset_and_sizes(codec: int) -> None:
    message_set = batch(0, [b"a"]) + batch(1, [BOMB], codec=codec)
    sizes = rf"\d+ bytes \(\w+\) decompress to more than the limit of {MAX_UNCOMPRESSED} bytes"
    with pytest.raises(BrokerError, match=rf"cannot read log-3 at offset 1: {sizes} \(MESSAGE_TOO_LARGE\)") as caught:
        decode(message_set, PARTITION, 0)
    assert not caught.value.retriable


@pytest.mark.parametrize("codec", [1, 2])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("key", [None, b"k"])
def test_a_bomb_in_an_old_message_format(magic: int, codec: int, key: bytes | None) -> None:
    def message_set(value: bytes) -> bytes:
        builder = LegacyRecordBatchBuilder(magic, codec, 1 << 30)
        builder.append(0, timestamp=1_000, key=key, value=value)
        return bytes(builder.build())

    assert values(message_set(b"v" * 1_000)) == ([b"v" * 1_000], 1)
    with pytest.raises(BrokerError, match="decompress to more than the limit"):
        decode(message_set(BOMB), PARTITION, 0)


def test_much_that_is_compressed_is_read_in_several_fetches() -> None:
    log = [batch(offset, [bytes(6_000_000)], codec=4) for offset in range(5)]
    position, fetches = 0, []
    while position < len(log):
        read, position = values(b"".join(log[position:]), position)
        fetches.append(len(read))
    assert fetches == [2, 2, 1]


def test_damaged_compression_is_an_error_with_the_offset() -> None:
    raw = bytearray(batch(5, [b"x" * 100], codec=4))
    raw[61:65] = b"none"
    struct.pack_into(">I", raw, 17, crc32c.crc32c(bytes(raw[21:])))
    with pytest.raises(BrokerError, match=r"log-3 at offset 5: records cannot be decompressed as zstd: .*CORRUPT"):
        decode(bytes(raw), PARTITION, 5)


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
