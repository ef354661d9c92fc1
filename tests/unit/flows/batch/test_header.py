from __future__ import annotations

import pytest

from flows.batch.blob import batches
from flows.batch.header import CorruptBatchError
from tests.lab.batches import Batch, Record

# Written by hand from the grammar: one record, key "k", value "v", no headers, offset 5, timestamp 1000.
GOLDEN = bytes.fromhex(
    "0000000000000005"  # base offset
    "0000003a"  # length: 58
    "00000007"  # partition leader epoch
    "02"  # magic
    "d6e54f7f"  # crc, computed by aiokafka
    "0010"  # attributes: transactional
    "00000000"  # last offset delta
    "00000000000003e8"  # base timestamp
    "00000000000003e8"  # max timestamp
    "0000000000001267"  # producer id
    "0003"  # producer epoch
    "00000009"  # base sequence
    "00000001"  # records
    "10"  # record: length 8
    "00"  # attributes
    "00"  # timestamp delta
    "00"  # offset delta
    "026b"  # key
    "0276"  # value
    "00"  # headers
)


def blob(*offsets: int) -> bytes:
    return b"".join(Batch(records=[Record(offset, 1000, b"k", b"v")]).encode() for offset in offsets)


def test_fields() -> None:
    ((header, data),) = batches(GOLDEN, check_crcs=True)
    assert data == GOLDEN
    assert (header.base_offset, header.length, header.leader_epoch, header.magic) == (5, 58, 7, 2)
    assert (header.attributes, header.last_offset_delta, header.record_count) == (0x10, 0, 1)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4711, 3, 9)
    assert (header.size, header.codec, header.next_offset, header.has_holes) == (len(GOLDEN), 0, 6, False)


def test_a_batch_cut_off_at_the_end_is_left_out() -> None:
    whole = blob(1, 2, 3)
    for cut in range(1, len(blob(3)) + 1):
        assert [header.base_offset for header, _ in batches(whole[:-cut], check_crcs=True)] == [1, 2]
    assert list(batches(b"", check_crcs=True)) == []


def test_a_changed_byte_is_detected_after_the_batches_before_it() -> None:
    damaged = bytearray(blob(1, 2))
    damaged[-3] ^= 0x01
    found = batches(bytes(damaged), check_crcs=True)
    assert next(found)[0].base_offset == 1
    with pytest.raises(CorruptBatchError, match=r"batch at offset 2: CRC mismatch \(58 bytes\)"):
        next(found)
    assert len(list(batches(bytes(damaged), check_crcs=False))) == 2


def test_an_invalid_length() -> None:
    damaged = bytearray(blob(7))
    damaged[8:12] = (3).to_bytes(4, "big")
    with pytest.raises(CorruptBatchError, match="batch at offset 7: invalid length 3"):
        list(batches(bytes(damaged), check_crcs=True))


def test_formats_of_the_future() -> None:
    new = bytearray(blob(7))
    new[16] = 3
    with pytest.raises(CorruptBatchError, match="batch at offset 7: unknown magic 3"):
        list(batches(bytes(new), check_crcs=True))
