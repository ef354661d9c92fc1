from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from uuid import UUID

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import (
    MAX_PRODUCERS,
    UNREADABLE,
    ProducerEpoch,
    Segment,
    SegmentKey,
    TopicIds,
    after_gap,
    decode_head,
    decode_key,
    decode_segment,
    segment_from_text,
    segment_text,
)
from mm2.core.offsets.leader_epochs import MAX_EPOCHS, EpochStart
from mm2.core.offsets.packed_ranges import PackedRanges
from mm2.core.wire.formats import Fields, FormatError, encode_unsigned

SEGMENT = Segment(
    topic_partition=TopicPartition("orders", 3),
    sequence=33,
    era=2,
    topic_ids=TopicIds(UUID("00000000-0000-0000-0000-0000000000aa"), None),
    before=CopiedUpTo(1000, 900, 4),
    through=1302,
    ranges=(CopiedRange(1000, 904, 200), CopiedRange(1210, 1104, 90, 10), CopiedRange(1150, 1194, 150)),
)

PACKED = PackedRanges.of([CopiedRange(500, 400, 99)])


HEAD = (
    "0001" + "00"
    + "000000000000000000000000000000aa" + "00" * 16
    + "00000000000003e8" + "0000000000000384" + "0000000000000004"
    + "00000000000003e8" + "0000000000000388" + "0000000000000514" + "0000000000000540" + "00" * 8
    + "0000000000000516" + "ff" * 8
)  # fmt: skip
RANGES = "03" + "d00f" + "8807" + "c701" + "00" + "14" + "00" + "59" + "0a" + "ab02" + "00" + "9501" + "00"
NONE = "00"


def test_encoded_record() -> None:
    """A change of these bytes requires a new version of the format."""
    key = "0001" + "0006" + b"orders".hex() + "00000003" + "00000002" + "0000000000000021"
    assert SEGMENT.key().hex() == key
    assert SEGMENT.value().hex() == HEAD + RANGES + NONE + NONE + NONE
    assert decode_segment(SEGMENT.key(), SEGMENT.value()) == SEGMENT


def test_encoded_flags() -> None:
    clean = replace(SEGMENT, ranges=SEGMENT.ranges[:1], before=CopiedUpTo(1000, 904), after_gap=True)
    assert clean.value()[:3].hex() == "0001" + "03"
    assert decode_segment(clean.key(), clean.value()) == clean


def test_encoded_epochs_producers_and_truncation() -> None:
    epochs = (EpochStart(3, 1_000), EpochStart(7, 1_200))
    producers = (ProducerEpoch(4_000, 5), ProducerEpoch(4_001, 0))
    segment = replace(SEGMENT, truncated=1_000, epochs=epochs, producers=producers)
    head = HEAD[:-16] + "00000000000003e8"
    assert segment.value().hex() == (
        head + RANGES + "02" + "03" + "e807" + "04" + "c801" + "02" + "a01f" + "05" + "a11f" + "00" + NONE
    )
    assert decode_segment(segment.key(), segment.value()) == segment


def test_encoded_packed_ranges() -> None:
    packed = PackedRanges.of([CopiedRange(500, 400, 99), CopiedRange(600, 500, 300, 1)])
    segment = replace(SEGMENT, packed=packed)
    encoded = packed.encode()
    assert encoded.hex().startswith("02" + "ac02" + "f403" + "9003" + "00" + "a006" + "9003")
    assert zlib.decompress(packed.deflated, -15).hex() == "0003" + "ff00" + "0000" + "000000" + "9201"
    checksum = zlib.crc32(encoded).to_bytes(4, "big").hex()
    tail = RANGES + NONE + NONE + bytes([len(encoded)]).hex() + encoded.hex() + checksum
    assert segment.value().hex().endswith(tail)
    assert decode_segment(segment.key(), segment.value()) == segment
    assert decode_segment(segment.key(), segment.value() + b"x") == segment
    with_epochs = replace(segment, epochs=(EpochStart(3, 1_000),), truncated=7)
    assert decode_segment(segment.key(), with_epochs.value()) == with_epochs


def test_the_head_has_the_bounds_of_all_ranges() -> None:
    head = decode_head(SEGMENT.key(), SEGMENT.value())
    assert head == SEGMENT.head
    assert (head.upstream, head.upstream_end, head.downstream, head.downstream_end) == (1_000, 1_300, 904, 1_344)
    assert not head.clean
    packed = replace(SEGMENT, packed=PackedRanges.of([CopiedRange(700, 800, 100, 7)]), ranges=SEGMENT.ranges[:2])
    assert (packed.head.upstream, packed.head.downstream, packed.head.hole) == (700, 800, 7)
    empty = replace(SEGMENT, ranges=(), through=-1).head
    assert (empty.upstream, empty.downstream, empty.upstream_end, empty.downstream_end, empty.hole) == (
        -1,
        -1,
        -1,
        -1,
        0,
    )


FIRST, SECOND = CopiedRange(100, 50, 10, 2), CopiedRange(120, 61, 5, 10)


@pytest.mark.parametrize(
    ("before", "packed", "ranges", "clean"),
    [
        (CopiedUpTo(), (), (), True),
        (CopiedUpTo(), (), (FIRST, SECOND), True),
        (CopiedUpTo(98, 50), (), (FIRST, SECOND), True),
        (CopiedUpTo(98, 50), (FIRST, SECOND), (CopiedRange(125, 66, 1),), True),
        (CopiedUpTo(98, 50, 1), (), (), False),  # in doubt before
        (CopiedUpTo(101, 50), (), (FIRST,), False),  # repeated
        (CopiedUpTo(101, 50), (FIRST,), (), False),
        (CopiedUpTo(98, 30), (), (FIRST,), False),  # doubtful target offsets
        (CopiedUpTo(), (), (FIRST, SECOND._replace(hole=9)), False),  # offset 110 is unknown
        (CopiedUpTo(), (FIRST,), (SECOND._replace(hole=9),), False),
        (CopiedUpTo(), (), (FIRST, SECOND._replace(downstream=90)), False),
    ],
)
def test_clean_segments(
    before: CopiedUpTo, packed: tuple[CopiedRange, ...], ranges: tuple[CopiedRange, ...], clean: bool
) -> None:
    segment = replace(
        SEGMENT, before=before, packed=PackedRanges.of(packed) if packed else None, ranges=ranges, through=-1
    )
    assert segment.clean == clean


def test_keys_of_other_versions_have_the_partition() -> None:
    orders = TopicPartition("orders", 3)
    key = SEGMENT.key()
    assert decode_key(key) == SegmentKey(orders, 2, 33)
    assert decode_key(b"\0\2" + key[2:] + b"more") == SegmentKey(orders, 2, 33)
    assert decode_key(b"\0\0" + key[2:14] + b"\0\0\0\1") == SegmentKey(orders, UNREADABLE, UNREADABLE)


def test_only_the_last_producers_are_read() -> None:
    many = tuple(ProducerEpoch(number, 0) for number in range(20))
    found = decode_segment(SEGMENT.key(), replace(SEGMENT, producers=many[:MAX_PRODUCERS]).value())
    assert found is not None
    assert found.producers == many[:MAX_PRODUCERS]


def test_a_lease_has_the_record_as_text() -> None:
    assert segment_from_text(segment_text(SEGMENT.key(), SEGMENT.value())) == SEGMENT
    for text in ("", "eA==", "? ?", segment_text(SEGMENT.key(), b"\0\7")):
        with pytest.raises(FormatError):
            segment_from_text(text)


def test_what_follows_a_gap() -> None:
    orders = SEGMENT.topic_partition
    known = replace(SEGMENT, ranges=SEGMENT.ranges[:1], before=CopiedUpTo(1000, 904))
    following = after_gap(SegmentKey(orders, 2, 40), known)
    assert (following.era, following.sequence, following.before) == (2, 41, CopiedUpTo(1_200, 1_104))
    assert (following.topic_ids, following.ranges, following.after_gap) == (SEGMENT.topic_ids, (), True)
    for last in (None, known):
        unknown = after_gap(SegmentKey(orders, 5, 40), last)
        assert (unknown.era, unknown.sequence, unknown.before) == (5, 41, CopiedUpTo())
        assert unknown.topic_ids == TopicIds()
    first = after_gap(SegmentKey(orders, UNREADABLE, UNREADABLE), None)
    assert (first.era, first.sequence) == (0, 0)
    assert after_gap(SegmentKey(orders, UNREADABLE, UNREADABLE), known).sequence == 34
    packed = replace(known, packed=PackedRanges.of([CopiedRange(1_200, 1_104, 6)]), ranges=())
    assert after_gap(SegmentKey(orders, 2, 34), packed).before == CopiedUpTo(1_206, 1_110)


def test_a_segment_ends_with_its_last_range_or_the_empty_offsets_after_it() -> None:
    assert SEGMENT.end == 1_302
    assert replace(SEGMENT, through=-1).end == 1_300
    assert replace(SEGMENT, ranges=(), through=-1).end == 1_000


def test_record_of_a_partition_copied_in_order_is_small() -> None:
    copied = replace(SEGMENT, ranges=(CopiedRange(2**40, 2**40, 2**40),))
    assert len(copied.key()) + len(copied.value()) < 180
    full = replace(SEGMENT, ranges=tuple(CopiedRange(1000 * n, 990 * n, 990, 10) for n in range(32)))
    assert len(full.value()) < 350
    epochs = tuple(EpochStart(n, n * 2**40) for n in range(MAX_EPOCHS))
    assert len(replace(full, epochs=epochs).value()) < 550


def test_null_value_removes_the_segment() -> None:
    assert decode_segment(SEGMENT.key(), None) is None


def test_bytes_after_the_last_field_are_ignored() -> None:
    segment = replace(SEGMENT, packed=PACKED)
    assert decode_segment(segment.key() + b"x", segment.value() + b"x") == segment


def bounds(upstream: int, downstream: int, upstream_end: int, downstream_end: int, hole: int = 0) -> bytes:
    value = SEGMENT.value()
    return value[:59] + struct.pack(">5q", upstream, downstream, upstream_end, downstream_end, hole) + value[99:]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (None, SEGMENT.value(), "key: it is null"),
        (b"", SEGMENT.value(), "key: version"),
        (b"\0\2" + SEGMENT.key()[2:], SEGMENT.value(), "version 2 is not supported"),
        (b"\0\0" + SEGMENT.key()[2:], SEGMENT.value(), "version 0 is not supported"),
        (SEGMENT.key()[:-1], SEGMENT.value(), "sequence"),
        (SegmentKey(SEGMENT.topic_partition, -1, 0).encode(), SEGMENT.value(), "era -1 or sequence 0 is below 0"),
        (SEGMENT.key(), b"\0\2" + SEGMENT.value()[2:], "version 2 is not supported"),
        (SEGMENT.key(), SEGMENT.value()[:40], "data ends after 40 bytes"),
        (SEGMENT.key(), SEGMENT.value()[:-4], "hole"),
        (SEGMENT.key(), SEGMENT.value()[:-3], "number of epochs"),
        (SEGMENT.key(), SEGMENT.value()[:-3] + b"\1\1", "offset of the epoch"),
        (SEGMENT.key(), SEGMENT.value()[:-3] + b"\0\1\1", "producer epoch"),
        (SEGMENT.key(), SEGMENT.value()[:-1], "size of the packed ranges"),
        (SEGMENT.key(), SEGMENT.value()[:-1] + b"\5", "packed ranges: 5 bytes, but 0 bytes are left"),
        (SEGMENT.key(), replace(SEGMENT, packed=PACKED).value()[:-1], "checksum"),
        (SEGMENT.key(), replace(SEGMENT, packed=PACKED).value()[:-1] + b"x", "do not match their checksum"),
        (SEGMENT.key(), bounds(1_000, 904, 1_300, 1_345), "not those of its head"),
        (SEGMENT.key(), bounds(1_300, 904, 1_300, 1_344), "do not end after their start"),
        (SEGMENT.key(), bounds(1_000, 904, 1_300, 904), "do not end after their start"),
        (SEGMENT.key(), bounds(1_000, 904, 1_300, 1_344, -1), "do not end after their start"),
        (SEGMENT.key(), replace(SEGMENT, ranges=(CopiedRange(5, 0, 1, 4), CopiedRange(2, 2, 1, 3))).value(), "below 0"),
        (SEGMENT.key(), replace(SEGMENT, ranges=(CopiedRange(5, 0, 1), CopiedRange(-5, 2, 1))).value(), "after their"),
    ],
)
def test_invalid_records_are_rejected_with_the_place(key: bytes | None, value: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode_segment(key, value)


def test_numbers_beyond_64_bits_are_rejected() -> None:
    with pytest.raises(FormatError, match="does not fit"):
        replace(SEGMENT, ranges=(CopiedRange(2**63 - 2, 0, 2),)).value()
    inner = replace(SEGMENT, ranges=(CopiedRange(2**63 - 9, 0, 2), CopiedRange(5, 2, 1)))
    value = inner.value().replace(encode_unsigned(2 * (2**63 - 9)), encode_unsigned(2 * (2**63 - 2)))
    with pytest.raises(FormatError, match="beyond 64 bits"):
        decode_segment(inner.key(), value)


def test_unordered_ranges_are_rejected() -> None:
    with pytest.raises(FormatError, match="negative"):
        replace(SEGMENT, ranges=(CopiedRange(0, 10, 1), CopiedRange(1, 10, 1))).value()


def test_numbers_longer_than_64_bits_are_rejected() -> None:
    assert Fields("number", encode_unsigned(2**63 - 1)).unsigned("n") == 2**63 - 1
    with pytest.raises(FormatError, match="longer than 64 bits"):
        Fields("number", encode_unsigned(2**70)).unsigned("n")


def test_all_ranges() -> None:
    assert list(SEGMENT.all_ranges()) == list(SEGMENT.ranges)
    assert list(replace(SEGMENT, packed=PACKED).all_ranges()) == [CopiedRange(500, 400, 99), *SEGMENT.ranges]
