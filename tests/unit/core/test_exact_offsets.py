"""Where positions translate to, case by case; docs/adr/0003 has the same cases in words."""

from __future__ import annotations

import sys
import time
import tracemalloc

from mm2.core.exact_offset_journal import ExactOffsetJournal
from mm2.core.exact_offset_records import CopiedRange, Reach, Segment, TopicIds
from mm2.core.exact_offsets import WINDOW, Bounded, ExactOffsets, Found, PartitionOffsets, combine
from mm2.core.formats import OffsetSync
from mm2.core.names import TopicPartition
from mm2.core.offset_sync_store import OffsetSyncStore
from mm2.core.offset_translation import NO_SYNC, NOT_READY, TooOld, Translated

TP = TopicPartition("orders", 0)


def segment(
    *ranges: CopiedRange, sequence: int = 0, era: int = 0, before: Reach | None = None, through: int = -1
) -> Segment:
    return Segment(
        topic_partition=TP,
        slot=sequence,
        sequence=sequence,
        era=era,
        topic_ids=TopicIds(),
        before=before or Reach(),
        through=through,
        ranges=ranges,
    )


def known(*segments: Segment, window: int = WINDOW) -> PartitionOffsets:
    partition = PartitionOffsets(window=window)
    for one in segments:
        partition.apply(one)
    return partition


def offsets(partition: PartitionOffsets, *positions: int) -> list[int | None]:
    """Found offsets; None for what is not covered."""
    places = [partition.look_up(position) for position in positions]
    return [place.offset if isinstance(place, Found) else None for place in places]


def test_a_covered_position_is_its_record() -> None:
    partition = known(segment(CopiedRange(100, 7, 50)))
    assert offsets(partition, 100, 101, 149) == [7, 8, 56]


def test_caught_up_is_the_end_of_what_is_copied() -> None:
    partition = known(segment(CopiedRange(100, 7, 50), through=153))
    assert offsets(partition, 150, 153) == [57, 57]


def test_ahead_of_the_copy_is_never_beyond_what_is_copied() -> None:
    partition = known(segment(CopiedRange(100, 7, 50)))
    assert partition.look_up(160) == Bounded(least=57, behind=10)


def test_before_the_window_it_cannot_be_later_than_the_first_range() -> None:
    partition = known(segment(CopiedRange(100, 7, 50)))
    assert partition.look_up(99) == Bounded(most=7)


def test_in_a_hole_it_is_the_next_copied_record() -> None:
    partition = known(segment(CopiedRange(0, 0, 10), CopiedRange(15, 10, 5, 5)))
    assert offsets(partition, 9, 10, 12, 14, 15) == [9, 10, 10, 10, 10]


def test_what_others_copied_lies_between_its_neighbours() -> None:
    """Java copied source offsets 10 to 99, and was told nothing of by us."""
    partition = known(segment(CopiedRange(0, 0, 10), CopiedRange(100, 95, 5)))
    assert partition.look_up(40) == Bounded(least=10, most=95, behind=30)
    assert offsets(partition, 9, 10, 100) == [9, None, 95]


def test_a_repeat_counts_when_it_has_caught_up() -> None:
    """90 and on were copied again after a crash: only when 99 is there again may anybody be sent behind it."""
    partition = known(segment(CopiedRange(0, 0, 100)))
    partition.apply(segment(CopiedRange(0, 0, 100), CopiedRange(90, 100, 9)))
    assert offsets(partition, 95, 99, 100) == [95, 99, 100]
    partition.apply(segment(CopiedRange(0, 0, 100), CopiedRange(90, 100, 10)))
    assert offsets(partition, 89, 90, 99, 100) == [89, 100, 109, 110]


def test_a_repeat_of_a_repeat() -> None:
    partition = known(segment(CopiedRange(0, 0, 100), CopiedRange(90, 100, 5), CopiedRange(92, 105, 6)))
    assert offsets(partition, 90, 94, 99) == [90, 94, 99]
    partition.apply(segment(CopiedRange(0, 0, 100), CopiedRange(90, 100, 5), CopiedRange(92, 105, 8)))
    assert offsets(partition, 90, 91, 92, 99) == [100, 101, 105, 112]


def test_a_repeat_that_begins_earlier_than_the_one_before() -> None:
    ranges = [CopiedRange(0, 0, 50), CopiedRange(60, 50, 40, 10), CopiedRange(80, 90, 5), CopiedRange(55, 95, 30, 5)]
    partition = known(segment(*ranges))
    assert offsets(partition, 49, 58, 60, 84, 99) == [49, 50, 50, 74, 89]
    partition.apply(segment(*ranges, CopiedRange(85, 125, 15)))
    assert offsets(partition, 49, 52, 58, 84, 99, 100) == [49, 95, 98, 124, 139, 140]


def test_target_offsets_that_nobody_wrote_down_may_be_records_that_come_again() -> None:
    """A copier ended with up to five records on the target that it had not written down."""
    partition = known(segment(CopiedRange(0, 0, 100), CopiedRange(100, 105, 4)))
    assert partition.look_up(100) == Found(100)
    assert partition.look_up(102) == Bounded(least=100, behind=2)
    partition.apply(segment(CopiedRange(0, 0, 100), CopiedRange(100, 105, 5)))
    assert offsets(partition, 99, 100, 102, 105) == [99, 105, 107, 110]


def test_transaction_markers_of_the_target_make_no_doubt() -> None:
    partition = known(segment(CopiedRange(0, 0, 10), CopiedRange(10, 11, 10), CopiedRange(20, 22, 1)))
    assert offsets(partition, 9, 10, 19, 20, 21) == [9, 11, 20, 22, 23]


def test_the_older_copy_stays_where_the_repeat_has_nothing() -> None:
    """The source has lost 85 to 89 since."""
    partition = known(segment(CopiedRange(0, 0, 100), CopiedRange(90, 100, 10, 5)))
    assert offsets(partition, 85, 89, 90) == [85, 89, 100]


def test_a_new_era_begins_with_nothing() -> None:
    partition = known(segment(CopiedRange(0, 0, 100)))
    partition.apply(segment(era=1, sequence=1))
    assert partition.look_up(50) == Bounded()
    partition.apply(segment(CopiedRange(200, 0, 10), era=1, sequence=1))
    partition.apply(segment(CopiedRange(0, 0, 100)))  # compaction has not come to it yet
    assert partition.look_up(50) == Bounded(most=0)
    partition.apply(segment(CopiedRange(200, 0, 20), era=1, sequence=1))
    assert offsets(partition, 205, 215) == [5, 15]


def test_the_latest_offset_that_misses_nothing() -> None:
    """It tells checkpoints of an earlier remote topic from good ones."""
    known_offsets = ExactOffsets()
    assert known_offsets.latest(TP, 50) is None
    known_offsets.apply(segment(CopiedRange(0, 0, 1000)))
    known_offsets.apply(segment(CopiedRange(1000, 0, 500), era=1, sequence=1))
    assert [known_offsets.latest(TP, position) for position in (900, 1000, 1200, 1600)] == [0, 0, 200, None]


def test_the_oldest_ranges_are_dropped() -> None:
    ranges = [CopiedRange(10 * number, 10 * number, 9, 1 if number else 0) for number in range(5)]
    partition = known(segment(*ranges), window=2)
    assert partition.look_up(28) == Bounded(most=30)
    assert offsets(partition, 29, 30, 45) == [30, 30, 45]


def test_a_start_in_the_middle_knows_how_far_copying_had_come() -> None:
    late = segment(CopiedRange(90, 100, 5), sequence=40, before=Reach(100, 100))
    assert known(late).look_up(92) == Bounded()
    complete = segment(CopiedRange(90, 100, 10), sequence=40, before=Reach(100, 100))
    assert offsets(known(complete), 92) == [102]
    doubtful = segment(CopiedRange(100, 105, 4), sequence=40, before=Reach(100, 105, 5))
    assert known(doubtful).look_up(100) == Bounded()


def test_segments_that_are_gone_leave_a_gap() -> None:
    partition = known(segment(CopiedRange(0, 0, 10)))
    partition.apply(segment(CopiedRange(30, 30, 5), sequence=3, before=Reach(30, 30)))
    assert offsets(partition, 9, 31) == [9, 31]
    assert partition.look_up(20) == Bounded(least=10, most=30, behind=10)


def test_java_answers_within_what_is_known() -> None:
    java = Translated(offset=20, behind=3)
    assert combine(Bounded(least=10, most=30, behind=9), java) == java
    assert combine(Bounded(least=22, behind=2), java) == Translated(offset=22, behind=2)
    assert combine(Bounded(most=5), java) == Translated(offset=5, behind=3)
    assert combine(Bounded(), java) == java
    for none in (TooOld(first=9), NO_SYNC):
        assert combine(Bounded(most=30), none) == none
        assert combine(Bounded(least=10, behind=4), none) == Translated(offset=10, behind=4)
    assert combine(Bounded(least=10), NOT_READY) is NOT_READY


def test_translations_and_their_cost() -> None:
    """100,000 group-partitions a cycle take well under a second of CPU; a partition copied in order takes 1 KB."""
    tracemalloc.start()
    flow = ExactOffsets()
    syncs = OffsetSyncStore(must_read_to_end=False)
    partitions = [TopicPartition(f"topic-{number // 10}", number % 10) for number in range(1000)]
    names = tracemalloc.get_traced_memory()[0]
    for partition in partitions:
        journal = ExactOffsetJournal(partition, topic_ids=TopicIds())
        journal.acked([(500, 10_000)], 0, since=500, until=10_500)
        (written,) = journal.unwritten()
        flow.apply(written)
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
    assert took < (1.0 if sys.gettrace() is None else 5.0)  # about 0.3; a tracer, as coverage's, takes its time too
    assert exact_size < 1_500
