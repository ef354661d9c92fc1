"""Translated positions, case by case; docs/adr/0003 describes the same cases."""

from __future__ import annotations

import sys
import time
import tracemalloc
from dataclasses import replace
from itertools import count

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import Segment, SegmentKey, TopicIds
from mm2.core.offsets.exact_offsets import Bounded, ExactOffsets, Found, FoundKind, PartitionOffsets, combine
from mm2.core.offsets.offset_sync_store import OffsetSyncStore
from mm2.core.offsets.offset_translation import NO_SYNC, NOT_READY, TooOld, Translated
from mm2.core.offsets.packed_ranges import PackedRanges
from mm2.core.offsets.segment_index import LoadedSegments, SegmentNotLoaded
from mm2.core.wire.formats import FormatError, OffsetSync

TP = TopicPartition("orders", 0)


def segment(
    *ranges: CopiedRange, sequence: int = 0, era: int = 0, before: CopiedUpTo | None = None, through: int = -1
) -> Segment:
    return Segment(
        topic_partition=TP,
        sequence=sequence,
        era=era,
        topic_ids=TopicIds(),
        before=before or CopiedUpTo(),
        through=through,
        ranges=ranges,
    )


PLACES = count(1)


def known(*segments: Segment) -> PartitionOffsets:
    partition = PartitionOffsets()
    for one in segments:
        apply(partition, one)
    return partition


def apply(partition: PartitionOffsets, one: Segment) -> None:
    partition.apply(one, next(PLACES))


def offsets(partition: PartitionOffsets, *positions: int) -> list[int | None]:
    """Return the found offsets, or None for positions that are not covered."""
    places = [partition.look_up(position) for position in positions]
    return [place.offset if isinstance(place, Found) else None for place in places]


def test_covered_position_is_its_record() -> None:
    partition = known(segment(CopiedRange(100, 7, 50)))
    assert offsets(partition, 100, 101, 149) == [7, 8, 56]


def test_caught_up_position_is_the_end_of_the_copy() -> None:
    partition = known(segment(CopiedRange(100, 7, 50), through=153))
    assert offsets(partition, 150, 153) == [57, 57]


def test_position_ahead_of_the_copy_is_bounded_by_its_end() -> None:
    partition = known(segment(CopiedRange(100, 7, 50)))
    assert partition.look_up(160) == Bounded(least=57, behind=10)


def test_progress_contains_what_carries_no_record_and_what_is_in_doubt() -> None:
    partition = known(segment(CopiedRange(0, 0, 10), through=15))
    assert partition.progress == CopiedUpTo(15, 10)
    apply(partition, segment(CopiedRange(0, 0, 10), CopiedRange(8, 13, 1), through=9))
    assert partition.progress == CopiedUpTo(15, 14, 3)


def test_position_before_the_window_is_bounded_by_the_first_range() -> None:
    partition = known(segment(CopiedRange(100, 7, 50)))
    assert partition.look_up(99) == Bounded(most=7)


def test_position_in_a_hole_is_the_next_copied_record() -> None:
    partition = known(segment(CopiedRange(0, 0, 10), CopiedRange(15, 10, 5, 5)))
    assert offsets(partition, 9, 10, 12, 14, 15) == [9, 10, 10, 10, 10]


def test_records_of_another_program_are_bounded_by_their_neighbours() -> None:
    """Java copied source offsets 10 to 99, of which the map has no entry."""
    partition = known(segment(CopiedRange(0, 0, 10), CopiedRange(100, 95, 5)))
    assert partition.look_up(40) == Bounded(least=10, most=95, behind=30)
    assert offsets(partition, 9, 10, 100) == [9, None, 95]


def test_repeated_range_is_used_once_it_has_caught_up() -> None:
    """Offsets from 90 were copied again after a crash: the repetition is used only after 99 was copied again."""
    partition = known(segment(CopiedRange(0, 0, 100)))
    apply(partition, segment(CopiedRange(0, 0, 100), CopiedRange(90, 100, 9)))
    assert offsets(partition, 95, 99, 100) == [95, 99, 100]
    apply(partition, segment(CopiedRange(0, 0, 100), CopiedRange(90, 100, 10)))
    assert offsets(partition, 89, 90, 99, 100) == [89, 100, 109, 110]


def test_repetition_of_a_repetition() -> None:
    partition = known(segment(CopiedRange(0, 0, 100), CopiedRange(90, 100, 5), CopiedRange(92, 105, 6)))
    assert offsets(partition, 90, 94, 99) == [90, 94, 99]
    apply(partition, segment(CopiedRange(0, 0, 100), CopiedRange(90, 100, 5), CopiedRange(92, 105, 8)))
    assert offsets(partition, 90, 91, 92, 99) == [100, 101, 105, 112]


def test_repetition_that_starts_before_the_previous_one() -> None:
    ranges = [CopiedRange(0, 0, 50), CopiedRange(60, 50, 40, 10), CopiedRange(80, 90, 5), CopiedRange(55, 95, 30, 5)]
    partition = known(segment(*ranges))
    assert offsets(partition, 49, 58, 60, 84, 99) == [49, 50, 50, 74, 89]
    apply(partition, segment(*ranges, CopiedRange(85, 125, 15)))
    assert offsets(partition, 49, 52, 58, 84, 99, 100) == [49, 95, 98, 124, 139, 140]


def test_unrecorded_target_offsets_can_be_repeated_records() -> None:
    """A node ended with up to five target records that it had not recorded."""
    partition = known(segment(CopiedRange(0, 0, 100), CopiedRange(100, 105, 4)))
    assert partition.look_up(100) == Found(100, FoundKind.END)
    assert partition.look_up(102) == Bounded(least=100, behind=2)
    apply(partition, segment(CopiedRange(0, 0, 100), CopiedRange(100, 105, 5)))
    assert offsets(partition, 99, 100, 102, 105) == [99, 105, 107, 110]


def test_transaction_markers_of_the_target_are_not_doubtful() -> None:
    partition = known(segment(CopiedRange(0, 0, 10), CopiedRange(10, 11, 10), CopiedRange(20, 22, 1)))
    assert offsets(partition, 9, 10, 19, 20, 21) == [9, 11, 20, 22, 23]


def test_older_copy_is_used_where_the_repetition_has_no_records() -> None:
    """The source has lost 85 to 89 in the meantime."""
    partition = known(segment(CopiedRange(0, 0, 100), CopiedRange(90, 100, 10, 5)))
    assert offsets(partition, 85, 89, 90) == [85, 89, 100]


def test_new_era_is_empty() -> None:
    partition = known(segment(CopiedRange(0, 0, 100)))
    apply(partition, segment(era=1, sequence=1))
    assert partition.look_up(50) == Bounded()
    apply(partition, segment(CopiedRange(200, 0, 10), era=1, sequence=1))
    apply(partition, segment(CopiedRange(0, 0, 100)))  # not compacted yet
    assert partition.look_up(50) == Bounded(most=0)
    apply(partition, segment(CopiedRange(200, 0, 20), era=1, sequence=1))
    assert offsets(partition, 205, 215) == [5, 15]


def test_latest_offset_that_skips_no_record() -> None:
    """It distinguishes checkpoints of an earlier remote topic from valid ones."""
    known_offsets = ExactOffsets()
    assert known_offsets.latest(TP, 50) is None
    known_offsets.apply(segment(CopiedRange(0, 0, 1000)), 0)
    known_offsets.apply(segment(CopiedRange(1000, 0, 500), era=1, sequence=1), 1)
    assert [known_offsets.latest(TP, position) for position in (900, 1000, 1200, 1600)] == [0, 0, 200, None]


def test_first_segment_has_the_copied_position() -> None:
    late = segment(CopiedRange(90, 100, 5), sequence=40, before=CopiedUpTo(100, 100))
    assert known(late).look_up(92) == Bounded()
    complete = segment(CopiedRange(90, 100, 10), sequence=40, before=CopiedUpTo(100, 100))
    assert offsets(known(complete), 92) == [102]
    doubtful = segment(CopiedRange(100, 105, 4), sequence=40, before=CopiedUpTo(100, 105, 5))
    assert known(doubtful).look_up(100) == Bounded()


def test_missing_segments_leave_a_gap() -> None:
    partition = known(segment(CopiedRange(0, 0, 10)))
    apply(partition, segment(CopiedRange(30, 30, 5), sequence=3, before=CopiedUpTo(30, 30)))
    assert offsets(partition, 9, 31) == [9, 31]
    assert partition.look_up(20) == Bounded(least=10, most=30, behind=10)


def test_a_gap_at_the_end_lasts_until_the_next_segment() -> None:
    partition = known(segment(CopiedRange(0, 0, 10)))
    assert not partition.has_gap
    partition.gap(SegmentKey(TP, 0, 1))
    assert partition.has_gap
    apply(partition, segment(CopiedRange(30, 30, 5), sequence=2, before=CopiedUpTo(30, 30)))
    assert not partition.has_gap


def test_javas_translation_is_kept_within_the_known_bounds() -> None:
    java = Translated(offset=20, behind=3)
    assert combine(Bounded(least=10, most=30, behind=9), java) == java
    assert combine(Bounded(least=22, behind=2), java) == Translated(offset=22, behind=2)
    assert combine(Bounded(most=5), java) == Translated(offset=5, behind=3)
    assert combine(Bounded(), java) == java
    for none in (TooOld(first=9), NO_SYNC):
        assert combine(Bounded(most=30), none) == none
        assert combine(Bounded(least=10, behind=4), none) == Translated(offset=10, behind=4)
    assert combine(Bounded(least=10), NOT_READY) is NOT_READY


def test_translations_and_their_cpu_and_memory_cost() -> None:
    """Translating 100,000 group-partitions takes well under 1 s of CPU; a partition copied in order takes 1 KB."""
    tracemalloc.start()
    flow = ExactOffsets()
    syncs = OffsetSyncStore(must_read_to_end=False)
    partitions = [TopicPartition(f"topic-{number // 10}", number % 10) for number in range(1000)]
    names = tracemalloc.get_traced_memory()[0]
    for partition in partitions:
        journal = ExactOffsetJournal(partition, topic_ids=TopicIds())
        journal.acked([(500, 10_000)], 0, since=500, until=10_500)
        (written,) = journal.unwritten()
        flow.apply_record(written.key(), written.value(), next(PLACES))
    exact_size = (tracemalloc.get_traced_memory()[0] - names) / len(partitions)
    tracemalloc.stop()
    for partition in partitions:
        for upstream in range(500, 10_500, 1001):
            syncs.apply(OffsetSync(topic_partition=partition, upstream_offset=upstream, downstream_offset=upstream))
    syncs.read_to_end()
    began = time.process_time()
    for step in range(100):
        for partition in partitions:
            position = 520 + 99 * step
            answer = flow.translate(partition, position, syncs.translate)
    took = time.process_time() - began
    assert answer == Translated(offset=9_821, behind=0)
    assert took < (1.0 if sys.gettrace() is None else 5.0)  # about 0.3; a tracer such as that of coverage adds to it
    assert exact_size < 1_500, exact_size


TRUNCATED = replace(segment(sequence=1, before=CopiedUpTo(900, 1_000)), truncated=900)


def test_positions_after_a_truncation_are_those_of_the_new_records() -> None:
    """The target has the old records 900 to 999 at these offsets, and the new ones from 1000 on."""
    partition = known(segment(CopiedRange(0, 0, 1_000)), TRUNCATED)
    assert offsets(partition, 899, 900) == [899, 1_000]
    assert partition.look_up(950) == Bounded(least=1_000, behind=50)
    apply(partition, replace(TRUNCATED, ranges=(CopiedRange(900, 1_000, 350),)))
    assert offsets(partition, 899, 900, 950, 1_249) == [899, 1_000, 1_050, 1_349]
    apply(partition, replace(TRUNCATED, ranges=(CopiedRange(900, 1_000, 400),)))  # the segment has grown
    assert offsets(partition, 899, 900, 1_299) == [899, 1_000, 1_399]


def test_a_truncation_without_known_records() -> None:
    partition = known(replace(segment(sequence=1, before=CopiedUpTo(900)), truncated=900))
    assert partition.look_up(900) == Bounded()


def test_a_truncation_ends_a_repeat() -> None:
    """Copying was repeated from 800 on and had reached 950 when the log was truncated."""
    first = segment(CopiedRange(0, 0, 1_000), CopiedRange(800, 1_000, 150))
    cut = replace(segment(sequence=1, before=CopiedUpTo(900, 1_150)), truncated=900)
    partition = known(first, cut)
    assert offsets(partition, 799, 800, 899, 900) == [799, 1_000, 1_099, 1_150]
    cut = replace(segment(sequence=1, before=CopiedUpTo(700, 1_150)), truncated=700)
    partition = known(first, cut)
    assert offsets(partition, 699, 700) == [699, 1_150]


COMMITS = [CopiedRange(100 * number, 101 * number, 100) for number in range(60)]
"""Transactions with a marker on the target."""


def packed_segment(count: int, packed: int, *, sequence: int = 0, before: CopiedUpTo | None = None) -> Segment:
    """A segment of the first ``count`` of COMMITS, of which ``packed`` are packed."""
    one = segment(*COMMITS[packed:count], sequence=sequence, before=before)
    return replace(one, packed=PackedRanges.of(COMMITS[:packed]))


def test_packed_ranges_are_exact() -> None:
    partition = known(packed_segment(40, 30))
    for number in range(40):
        assert offsets(partition, 100 * number, 100 * number + 99) == [101 * number, 101 * number + 99]
    assert partition.look_up(4_001) == Bounded(least=4_039, behind=1)


def test_a_growing_pack_replaces_the_known_ranges() -> None:
    partition = known(segment(*COMMITS[:20]))
    for ranges, packed in ((36, 30), (50, 30), (60, 50)):
        apply(partition, packed_segment(ranges, packed))
        for number in range(ranges):
            assert offsets(partition, 100 * number + 5) == [101 * number + 5]
        assert offsets(partition, 100 * ranges) == [101 * ranges - 1]


COPIED_TWICE = segment(CopiedRange(0, 0, 6_000), CopiedRange(0, 6_000, 59))
AGAIN = [
    *(copied._replace(downstream=copied.downstream + 6_059) for copied in COMMITS),
    CopiedRange(6_000, 12_119, 1),
]
"""Source offsets 0 to 5,999 are copied again from 0 on, behind target offset 6,059, and then 6,000."""


def test_packed_ranges_that_are_repeated() -> None:
    """After the markers, one record more must be copied."""
    partition = known(COPIED_TWICE, replace(segment(*AGAIN[50:60], sequence=1), packed=PackedRanges.of(AGAIN[:50])))
    assert offsets(partition, 250) == [250]
    apply(partition, replace(segment(*AGAIN[50:], sequence=1), packed=PackedRanges.of(AGAIN[:50])))
    assert offsets(partition, 250, 5_999) == [6_059 + 252, 6_059 + 5_999 + 59]


def test_packed_ranges_known_in_part_during_a_repetition() -> None:
    partition = known(COPIED_TWICE, segment(*AGAIN[:9], AGAIN[9]._replace(records=70), sequence=1))
    apply(partition, replace(segment(*AGAIN[50:], sequence=1), packed=PackedRanges.of(AGAIN[:50])))
    assert offsets(partition, 250, 985, 5_999) == [6_059 + 252, 6_059 + 985 + 9, 6_059 + 5_999 + 59]


def test_packs_of_several_segments() -> None:
    first = replace(segment(*COMMITS[20:30]), packed=PackedRanges.of(COMMITS[:20]))
    before = CopiedUpTo(COMMITS[29].upstream_end, COMMITS[29].downstream_end)
    second = replace(segment(*COMMITS[50:], sequence=1, before=before), packed=PackedRanges.of(COMMITS[30:50]))
    for partition in (known(first, second), known(second), known(first, first, second, first)):
        assert offsets(partition, 3_000, 4_950, 5_999) == [3_030, 4_999, 6_058]
    assert known(second).look_up(2_950) == Bounded(most=3_030)


def test_partitions_without_an_entry_are_translated_by_syncs() -> None:
    flow = ExactOffsets()
    flow.apply(segment(CopiedRange(0, 0, 10)), 0)
    assert flow.translate(TopicPartition("orders", 1), 5, lambda *_: NO_SYNC) is NO_SYNC
    assert flow.translate(TP, 15, lambda *_: NO_SYNC) == Translated(offset=10, behind=5)


def with_pack(
    ranges: list[CopiedRange], packed: int, *, sequence: int = 0, before: CopiedUpTo | None = None
) -> Segment:
    return replace(segment(*ranges[packed:], sequence=sequence, before=before), packed=PackedRanges.of(ranges[:packed]))


REPEATED = [*COMMITS[:40], CopiedRange(3_950, 4_040, 60)]
"""The last fifty of 4,000 records are copied again, and ten more."""


def test_a_segment_that_is_repeated_in_part_after_its_pack_has_grown() -> None:
    for first in (20, 36):
        partition = known(segment(*COMMITS[:first]))
        apply(partition, with_pack(REPEATED, 30))
        assert offsets(partition, 250, 3_949, 3_950, 4_009) == [252, 3_949 + 39, 4_040, 4_099]
        assert partition.entries[-1].clean is False


def test_a_new_segment_that_has_a_pack_and_a_repeat() -> None:
    before = CopiedUpTo(0, 0)
    partition = known(with_pack(REPEATED, 30, before=before))
    assert offsets(partition, 250, 3_949, 3_950, 4_009) == [252, 3_949 + 39, 4_040, 4_099]
    after = CopiedUpTo(4_010, 4_100)
    apply(partition, segment(CopiedRange(4_010, 4_100, 10), sequence=1, before=after))
    assert offsets(partition, 250, 4_015) == [252, 4_105]
    assert partition.exact_from == 0
    assert partition.size == 0, "the size is that of records"


def records(*written: Segment) -> ExactOffsets:
    flow = ExactOffsets(LoadedSegments(kept=0))
    for place, one in enumerate(written):
        flow.apply_record(one.key(), one.value(), place)
    return flow


THREE = [
    segment(
        CopiedRange(100 * sequence, 90 * sequence, 90, 10 if sequence else 0),
        sequence=sequence,
        before=CopiedUpTo(100 * sequence - 10, 90 * sequence) if sequence else None,
    )
    for sequence in range(3)
]


def test_ranges_of_old_segments_are_asked_for() -> None:
    flow = records(*THREE)
    assert [entry.place for entry in flow.entries(TP)] == [0, 1, 2]
    assert not flow.entries(TopicPartition("orders", 1))
    assert flow.look_up(TP, 250) == Found(230)
    with pytest.raises(SegmentNotLoaded) as missing:
        flow.look_up(TP, 150)
    assert missing.value.place == 1
    assert flow.look_up(TP, 195) == Found(180, FoundKind.NEXT), "by the bounds of segments"


def test_a_fetched_segment_counts_only_if_it_is_that_of_the_index() -> None:
    flow = ExactOffsets(LoadedSegments(kept=5))
    for place, one in enumerate(THREE):
        flow.apply_record(one.key(), one.value(), place)
    others = (None, THREE[0], replace(THREE[1], era=4), replace(THREE[1], topic_partition=TopicPartition("bills", 0)))
    for other in others:
        flow.put(TP, 1, other)
        assert flow.look_up(TP, 150) == Bounded(90, 180, 50)
    flow.put(TP, 1, THREE[1])
    assert flow.look_up(TP, 150) == Found(140)


def test_a_segment_that_is_written_again_is_found_at_its_new_place() -> None:
    flow = records(*THREE)
    flow.apply_record(THREE[1].key(), THREE[1].value(), 7)
    flow.apply_record(THREE[1].key(), THREE[1].value(), 7)
    assert [entry.place for entry in flow.entries(TP)] == [0, 7, 2]
    flow.apply_record(THREE[0].key(), THREE[0].value(), 8)
    assert [entry.place for entry in flow.entries(TP)] == [8, 7, 2]
    late = records(THREE[0], THREE[2])
    late.apply_record(THREE[1].key(), THREE[1].value(), 5)
    assert [entry.sequence for entry in late.entries(TP)] == [0, 2], "too late: the next one was taken without it"


def test_deleted_segments() -> None:
    flow = records(*THREE)
    for gone in (TopicPartition("bills", 0), TP):
        flow.apply_record(SegmentKey(gone, 0, 0).encode(), None, 9)
    for other in (SegmentKey(TP, 0, 0), SegmentKey(TP, 3, 1), SegmentKey(TP, 0, 2)):
        flow.apply_record(other.encode(), None, 9)
    assert [entry.sequence for entry in flow.entries(TP)] == [1, 2], "the newest stays"
    assert flow.look_up(TP, 50) == Bounded(most=90)
    assert flow.partitions[TP].exact_from == 90
    assert flow.partitions[TP].size == sum(len(one.key()) + len(one.value()) for one in THREE[1:])


def test_a_segment_of_a_repeat_is_deleted() -> None:
    repeat = segment(CopiedRange(80, 100, 5), sequence=1, before=CopiedUpTo(100, 100))
    more = segment(CopiedRange(85, 105, 5), sequence=2, before=CopiedUpTo(100, 105))
    flow = records(segment(CopiedRange(0, 0, 100)), repeat, more)
    flow.apply_record(repeat.key(), None, 9)
    assert [entry.sequence for entry in flow.entries(TP)] == [0, 2]


OTHER_VERSION = b"\0\7"


def unreadable(flow: ExactOffsets, key: SegmentKey, value: bytes = OTHER_VERSION) -> None:
    with pytest.raises(FormatError):
        flow.apply_record(key.encode(), value, 99)


def test_a_newest_segment_that_cannot_be_read() -> None:
    """What follows the readable ones is unknown, until the segment is written again."""
    flow = records(*THREE)
    assert flow.look_up(TP, 290) == Found(270, FoundKind.END)
    unreadable(flow, SegmentKey(TP, 0, 3))
    assert flow.look_up(TP, 290) == Bounded(least=270)
    assert flow.look_up(TP, 250) == Found(230)
    following = segment(CopiedRange(300, 270, 90, 10), sequence=3, before=CopiedUpTo(290, 270))
    flow.apply_record(following.key(), following.value(), 100)
    assert flow.look_up(TP, 295) == Found(270, FoundKind.NEXT)
    unreadable(flow, SegmentKey(TP, 0, 3))
    assert flow.look_up(TP, 390) == Bounded(least=360)
    flow.apply_record(following.key(), following.value(), 101)
    assert flow.look_up(TP, 390) == Found(360, FoundKind.END)
    unreadable(flow, SegmentKey(TP, 0, 1))
    assert flow.look_up(TP, 390) == Found(360, FoundKind.END), "an old one"
    unreadable(flow, SegmentKey(TP, 0, 6))
    empty = segment(sequence=5, before=CopiedUpTo(390, 360, 3))
    flow.apply_record(empty.key(), empty.value(), 102)
    assert flow.look_up(TP, 390) == Bounded(least=360)


def test_a_segment_in_between_that_cannot_be_read() -> None:
    flow = records(THREE[0])
    unreadable(flow, SegmentKey(TP, 0, 1))
    flow.apply_record(THREE[2].key(), THREE[2].value(), 2)
    assert flow.look_up(TP, 150) == Bounded(90, 180, 60)
    assert flow.look_up(TP, 250) == Found(230)
    assert flow.partitions[TP].exact_from == 190


def test_what_follows_a_gap_is_in_doubt_if_its_writer_does_not_know_better() -> None:
    """The writer could not read any segment; the reader knows the progress before the gap."""
    flow = records(segment(CopiedRange(0, 0, 100)))
    unreadable(flow, SegmentKey(TP, 0, 1))
    after = replace(segment(CopiedRange(150, 200, 30), sequence=2, before=CopiedUpTo(150)), after_gap=True)
    flow.apply_record(after.key(), after.value(), 2)
    assert flow.look_up(TP, 160) == Bounded(least=100, behind=60), "100 target offsets before it are unknown"
    grown = replace(after, ranges=(CopiedRange(150, 200, 100),))
    flow.apply_record(grown.key(), grown.value(), 3)
    assert flow.look_up(TP, 160) == Found(210)


def test_a_gap_of_another_era() -> None:
    flow = records(*THREE)
    unreadable(flow, SegmentKey(TP, 1, 3))
    assert flow.look_up(TP, 250) == Bounded()
    unreadable(flow, SegmentKey(TP, 0, 2))
    in_era = segment(CopiedRange(5, 0, 10), sequence=4, era=1)
    flow.apply_record(in_era.key(), in_era.value(), 7)
    assert flow.look_up(TP, 7) == Found(2)


def test_a_damaged_segment_whose_ranges_are_needed() -> None:
    """Its head says that it repeats records, so that the reader decodes it."""
    repeating = segment(CopiedRange(0, 0, 100), CopiedRange(90, 100, 5))
    flow = ExactOffsets()
    unreadable(flow, SegmentKey(TP, 0, 0), repeating.value()[:-6])
    assert flow.look_up(TP, 50) == Bounded()
    again = segment(CopiedRange(90, 105, 20), sequence=1, before=CopiedUpTo(100, 105))
    flow.apply_record(again.key(), again.value(), 1)
    assert flow.look_up(TP, 105) == Found(120)


def test_progress_through_segments_without_ranges() -> None:
    empty = segment(sequence=1, before=CopiedUpTo(120, 100))
    partition = known(segment(CopiedRange(0, 0, 100), before=CopiedUpTo(0, 0)), empty)
    assert partition.progress == CopiedUpTo(120, 100)
    assert PartitionOffsets().exact_from is None
