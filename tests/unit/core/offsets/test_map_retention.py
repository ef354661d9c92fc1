"""Which segments of the exact offset map are deleted."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, SegmentKey, TopicIds
from mm2.core.offsets.exact_offsets import ExactOffsets
from mm2.core.offsets.map_retention import DeletedSegments, MapExtent, MapLimits, TranslationWindow, deletable

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
PLENTY = 1 << 30
RETENTION = TranslationWindow.RETENTION


def segment(partition: TopicPartition, sequence: int, *, era: int = 0) -> Segment:
    """A segment of source offsets 100 * sequence to 100 * sequence + 89, with a gap after it."""
    copied = CopiedRange(100 * sequence, 90 * sequence, 90, 10)
    return Segment(
        topic_partition=partition,
        sequence=sequence,
        era=era,
        topic_ids=TopicIds(),
        before=CopiedUpTo(copied.upstream - 10, copied.downstream),
        through=-1,
        ranges=(copied,),
    )


SIZE = len(segment(ORDERS, 5).key()) + len(segment(ORDERS, 5).value())  # at most; of some it is a few bytes less


def known(**sequences: Iterable[int]) -> ExactOffsets:
    offsets, place = ExactOffsets(), 0
    for topic, numbers in sequences.items():
        for sequence in numbers:
            one = segment(TopicPartition(topic, 0), sequence)
            offsets.apply_record(one.key(), one.value(), place)
            place += 1
    return offsets


def deleted(
    offsets: ExactOffsets,
    window: TranslationWindow | int,
    starts: dict[TopicPartition, int] | None = None,
    max_bytes: int = PLENTY,
) -> dict[str, list[int]]:
    limits = MapLimits(window=window, max_bytes=max_bytes)
    found: dict[str, list[int]] = {}
    for key in deletable(offsets.partitions, {}, starts or {}, limits).keys:
        found.setdefault(key.topic_partition.topic, []).append(key.sequence)
    return found


def test_a_number_keeps_the_last_segments_of_each_partition() -> None:
    offsets = known(orders=range(5), bills=[7])
    assert deleted(offsets, 32) == {"orders": [0, 1, 2, 3]}
    assert deleted(offsets, 96) == {"orders": [0, 1]}
    assert deleted(offsets, 160) == {}
    assert deleted(offsets, 32_768) == {}


@pytest.mark.parametrize(
    ("start", "sequences"),
    [(0, []), (89, []), (90, [0]), (189, [0]), (190, [0, 1]), (10_000, [0, 1, 2])],
)
def test_retention_deletes_what_ends_before_the_log_start(start: int, sequences: list[int]) -> None:
    """The newest segment stays: copying continues it."""
    offsets = known(orders=range(4))
    assert deleted(offsets, RETENTION, {ORDERS: start}).get("orders", []) == sequences


def test_nothing_is_outdated_without_a_known_log_start() -> None:
    assert deleted(known(orders=range(4)), RETENTION, {BILLS: 1_000}) == {}


def test_the_oldest_segments_of_the_largest_partitions_make_room() -> None:
    offsets = known(orders=range(6), bills=range(3))
    assert deleted(offsets, RETENTION, max_bytes=9 * SIZE) == {}
    assert deleted(offsets, RETENTION, max_bytes=8 * SIZE) == {"orders": [0]}
    assert deleted(offsets, RETENTION, max_bytes=5 * SIZE) == {"orders": [0, 1, 2, 3]}
    assert deleted(offsets, RETENTION, max_bytes=0) == {"orders": [0, 1, 2, 3, 4], "bills": [0, 1]}


def test_what_is_outdated_makes_room_first() -> None:
    offsets = known(orders=range(6), bills=range(3))
    limits = MapLimits(window=RETENTION, max_bytes=6 * SIZE)
    found = deletable(offsets.partitions, {}, {BILLS: 1_000}, limits)
    assert found == DeletedSegments(
        keys=(SegmentKey(ORDERS, 0, 0), SegmentKey(BILLS, 0, 0), SegmentKey(BILLS, 0, 1)), for_size=1
    )


def test_records_that_are_no_part_of_the_map_go_with_what_is_older() -> None:
    offsets = known(orders=range(4, 8))
    others = {
        ORDERS: {SegmentKey(ORDERS, 0, 3), SegmentKey(ORDERS, 0, 5), SegmentKey(ORDERS, 0, 9)},
        BILLS: {SegmentKey(BILLS, 0, 1)},
    }
    found = deletable(offsets.partitions, others, {}, MapLimits(window=64, max_bytes=PLENTY))
    assert [key.sequence for key in found.keys] == [4, 5, 3, 5]


def test_a_partition_of_which_nothing_can_be_read_keeps_its_records() -> None:
    offsets = ExactOffsets()
    unreadable = SegmentKey(ORDERS, 0, 0)
    with pytest.raises(ValueError, match="version 7"):
        offsets.apply_record(unreadable.encode(), b"\0\7", 0)
    found = deletable(offsets.partitions, {ORDERS: {unreadable}}, {}, MapLimits(window=32, max_bytes=0))
    assert found == DeletedSegments(keys=(), for_size=0)


def test_whether_the_map_begins_at_the_log_start() -> None:
    assert MapExtent(exact_from=5, log_start=5).to_start
    assert MapExtent(exact_from=0, log_start=5).to_start
    assert MapExtent(exact_from=6, log_start=5).to_start is False
    assert MapExtent(exact_from=6, log_start=None).to_start is None


def test_a_changed_window() -> None:
    """A smaller one deletes at once, a larger one fills again, and so it is with a number instead of retention."""
    offsets = known(orders=range(10))
    starts = {ORDERS: 350}
    place = 100

    def apply(window: TranslationWindow | int, copied: int) -> list[int]:
        nonlocal place
        limits = MapLimits(window=window, max_bytes=PLENTY)
        for key in deletable(offsets.partitions, {}, starts, limits).keys:
            offsets.apply_record(key.encode(), None, place)
            place += 1
        last = offsets.entries(ORDERS)[-1].sequence
        for sequence in range(last + 1, last + 1 + copied):
            one = segment(ORDERS, sequence)
            offsets.apply_record(one.key(), one.value(), place)
            place += 1
        return [entry.sequence for entry in offsets.entries(ORDERS)]

    assert apply(RETENTION, 0) == [3, 4, 5, 6, 7, 8, 9]
    assert apply(96, 0) == [7, 8, 9]
    assert apply(160, 3) == [7, 8, 9, 10, 11, 12]
    assert apply(160, 0) == [8, 9, 10, 11, 12]
    starts[ORDERS] = 1_000
    assert apply(RETENTION, 2) == [10, 11, 12, 13, 14]
    assert offsets.partitions[ORDERS].exact_from == 990
