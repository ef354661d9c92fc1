from __future__ import annotations

import zlib
from dataclasses import replace
from uuid import UUID

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, TopicIds, decode_segment, segment_key
from mm2.core.offsets.leader_epochs import MAX_EPOCHS, EpochStart
from mm2.core.offsets.packed_ranges import PackedRanges
from mm2.core.wire.formats import Fields, FormatError, encode_unsigned

SEGMENT = Segment(
    topic_partition=TopicPartition("orders", 3),
    index=1,
    sequence=33,
    era=2,
    topic_ids=TopicIds(UUID("00000000-0000-0000-0000-0000000000aa"), None),
    before=CopiedUpTo(1000, 900, 4),
    through=1302,
    ranges=(CopiedRange(1000, 904, 200), CopiedRange(1210, 1104, 90, 10), CopiedRange(1150, 1194, 150)),
)

PACKED = PackedRanges.of([CopiedRange(500, 400, 99)])


def test_encoded_record() -> None:
    """A change of these bytes requires a new version of the format."""
    assert SEGMENT.key().hex() == "0000" + "0006" + b"orders".hex() + "00000003" + "00000001"
    assert SEGMENT.value().hex() == (
        "0000" + "0000000000000021" + "00000002"
        + "000000000000000000000000000000aa" + "00" * 16
        + "00000000000003e8" + "0000000000000384" + "0000000000000004" + "0000000000000516"
        + "03"
        + "d00f" + "8807" + "c701" + "00"
        + "14" + "00" + "59" + "0a"
        + "ab02" + "00" + "9501" + "00"
    )  # fmt: skip
    assert decode_segment(SEGMENT.key(), SEGMENT.value()) == SEGMENT


def test_encoded_epochs_and_truncation() -> None:
    epochs = (EpochStart(3, 1_000), EpochStart(7, 1_200))
    segment = replace(SEGMENT, truncated=1_000, epochs=epochs)
    assert segment.value().hex() == SEGMENT.value().hex() + "e907" + "02" + "03" + "e807" + "04" + "c801"
    assert decode_segment(segment.key(), segment.value()) == segment
    only_epochs, only_truncated = replace(SEGMENT, epochs=epochs), replace(SEGMENT, truncated=0)
    assert decode_segment(SEGMENT.key(), only_epochs.value()) == only_epochs
    assert decode_segment(SEGMENT.key(), only_truncated.value()) == only_truncated


def test_encoded_packed_ranges() -> None:
    packed = PackedRanges.of([CopiedRange(500, 400, 99), CopiedRange(600, 500, 300, 1)])
    segment = replace(SEGMENT, packed=packed)
    encoded = packed.encode()
    assert encoded.hex().startswith("02" + "ac02" + "f403" + "9003" + "00" + "a006" + "9003")
    assert zlib.decompress(packed.deflated, -15).hex() == "0003" + "ff00" + "0000" + "000000" + "9201"
    checksum = zlib.crc32(encoded).to_bytes(4, "big")
    assert segment.value() == SEGMENT.value() + b"\0\0" + bytes([len(encoded)]) + encoded + checksum
    assert decode_segment(segment.key(), segment.value()) == segment
    assert decode_segment(segment.key(), segment.value() + b"x") == segment
    with_epochs = replace(segment, epochs=(EpochStart(3, 1_000),), truncated=7)
    assert decode_segment(segment.key(), with_epochs.value()) == with_epochs


def test_a_segment_ends_with_its_last_range_or_the_empty_offsets_after_it() -> None:
    assert SEGMENT.end == 1_302
    assert replace(SEGMENT, through=-1).end == 1_300
    assert replace(SEGMENT, ranges=(), through=-1).end == 1_000


def test_record_of_a_partition_copied_in_order_is_small() -> None:
    copied = replace(SEGMENT, ranges=(CopiedRange(2**40, 2**40, 2**40),))
    assert len(copied.key()) + len(copied.value()) < 120
    full = replace(SEGMENT, ranges=tuple(CopiedRange(1000 * n, 990 * n, 990, 10) for n in range(32)))
    assert len(full.value()) < 300
    epochs = tuple(EpochStart(n, n * 2**40) for n in range(MAX_EPOCHS))
    assert len(replace(full, epochs=epochs).value()) < 500


def test_null_value_removes_the_segment() -> None:
    assert decode_segment(segment_key(TopicPartition("orders", 3), 1), None) is None


def test_bytes_after_the_last_field_are_ignored() -> None:
    segment = replace(SEGMENT, packed=PACKED)
    assert decode_segment(segment.key() + b"x", segment.value() + b"x") == segment


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (None, SEGMENT.value(), "key: it is null"),
        (b"", SEGMENT.value(), "key: version"),
        (b"\0\1" + SEGMENT.key()[2:], SEGMENT.value(), "version 1 is not supported"),
        (SEGMENT.key()[:-1], SEGMENT.value(), "index"),
        (SEGMENT.key(), b"\0\1" + SEGMENT.value()[2:], "version 1 is not supported"),
        (SEGMENT.key(), SEGMENT.value()[:40], "topic id"),
        (SEGMENT.key(), SEGMENT.value()[:-1], "hole"),
        (SEGMENT.key(), SEGMENT.value() + b"\0", "number of epochs"),
        (SEGMENT.key(), SEGMENT.value() + b"\0\1\1", "offset of the epoch"),
        (SEGMENT.key(), b"\0\0garbage", "sequence"),
        (SEGMENT.key(), SEGMENT.value() + b"\0\0\5", "packed ranges: 5 bytes, but 0 bytes are left"),
        (SEGMENT.key(), replace(SEGMENT, packed=PACKED).value()[:-1], "checksum"),
        (SEGMENT.key(), replace(SEGMENT, packed=PACKED).value()[:-1] + b"x", "do not match their checksum"),
        (SEGMENT.key(), replace(SEGMENT, ranges=(CopiedRange(5, 0, 1, 6),)).value(), "below 0"),
        (SEGMENT.key(), replace(SEGMENT, ranges=(CopiedRange(-5, 0, 1),)).value(), "below 0"),
        (SEGMENT.key(), replace(SEGMENT, ranges=(CopiedRange(2**63 - 2, 0, 2),)).value(), "beyond 64 bits"),
    ],
)
def test_invalid_records_are_rejected_with_the_place(key: bytes | None, value: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode_segment(key, value)


def test_unordered_ranges_are_rejected() -> None:
    with pytest.raises(FormatError, match="negative"):
        replace(SEGMENT, ranges=(CopiedRange(0, 10, 1), CopiedRange(1, 10, 1))).value()


def test_numbers_longer_than_64_bits_are_rejected() -> None:
    assert Fields("number", encode_unsigned(2**63 - 1)).unsigned("n") == 2**63 - 1
    with pytest.raises(FormatError, match="longer than 64 bits"):
        Fields("number", encode_unsigned(2**70)).unsigned("n")
