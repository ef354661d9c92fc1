"""Positions of a remote partition on the source."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, SegmentKey, TopicIds
from mm2.core.offsets.leader_epochs import EpochStart
from mm2.core.offsets.packed_ranges import PackedRanges
from mm2.core.offsets.segment_index import LoadedSegments, SegmentEntry, SegmentIndex, SegmentNotLoaded
from mm2.core.positions.answer import PositionAnswer, Precision
from mm2.core.positions.source_to_target import Extent
from mm2.core.positions.target_to_source import COMPARED_SEGMENTS, IN_DOUBT, NO_COPY, TargetOrder

TP = TopicPartition("orders", 0)
EXACT, NEXT, END, AHEAD, CONSERVATIVE = Precision


def segment(
    *ranges: CopiedRange,
    sequence: int = 0,
    era: int = 0,
    before: CopiedUpTo | None = None,
    through: int = -1,
    truncated: int = -1,
    epochs: tuple[EpochStart, ...] = (),
    packed: PackedRanges | None = None,
) -> Segment:
    return Segment(
        topic_partition=TP,
        sequence=sequence,
        era=era,
        topic_ids=TopicIds(UUID(int=1), UUID(int=2)),
        before=before or CopiedUpTo(),
        through=through,
        ranges=ranges,
        truncated=truncated,
        epochs=epochs,
        packed=packed,
    )


class Map:
    """The segments of a partition, all of which are loaded."""

    def __init__(self, *segments: Segment, lost: tuple[int, ...] = ()) -> None:
        self.entries = SegmentIndex()
        self.loaded = LoadedSegments()
        self.order = TargetOrder(self.loaded)
        for one in segments:
            self.add(one, lost=one.sequence in lost)

    def add(self, one: Segment, *, place: int | None = None, lost: bool = False) -> None:
        place = one.sequence if place is None else place
        key = SegmentKey(TP, one.era, one.sequence)
        self.entries.add(SegmentEntry.of(key, one.head, place=place, size=1))
        self.loaded.put(place, None if lost else one)

    def at(self, offset: int, **known: object) -> PositionAnswer:
        return self.order.source_position(self.entries, offset, **known)  # type: ignore[arg-type]

    def offsets(self, *offsets: int, **known: object) -> list[tuple[int | None, Precision]]:
        answers = [self.at(offset, **known) for offset in offsets]
        return [(answer.offset, answer.precision) for answer in answers]


def chain(*parts: tuple[CopiedRange, ...]) -> list[Segment]:
    """Return one segment for each of the parts, each of which continues the progress of those before."""
    reach, segments = CopiedUpTo(), []
    for sequence, ranges in enumerate(parts):
        segments.append(segment(*ranges, sequence=sequence, before=reach))
        for one in ranges:
            reach = reach.after(one)
    return segments


def test_a_copy_is_its_record() -> None:
    copies = Map(segment(CopiedRange(100, 7, 50)))
    assert copies.offsets(7, 8, 56) == [(100, EXACT), (101, EXACT), (149, EXACT)]


def test_the_end_of_the_copies_is_what_is_copied_next() -> None:
    copies = Map(segment(CopiedRange(100, 7, 50), through=153))
    assert copies.at(57) == PositionAnswer(offset=153, precision=END, reason="caught up")
    after = copies.at(59)
    assert after == PositionAnswer(
        offset=153, precision=CONSERVATIVE, reason="after the last copy that the map has", read_again=2
    )
    assert copies.offsets(59, foreign=[(58, 60), (56, 58)]) == [(153, END)]
    unreadable = copies.at(57, complete=False)
    assert (unreadable.offset, unreadable.precision) == (153, CONSERVATIVE)
    assert unreadable.reason == "the newest part of the map cannot be read"


def test_a_marker_is_the_next_record() -> None:
    copies = Map(segment(CopiedRange(0, 0, 10), CopiedRange(12, 11, 10, 2)))
    assert copies.at(10) == PositionAnswer(offset=12, precision=NEXT, reason=NO_COPY)
    assert copies.offsets(9, 11) == [(9, EXACT), (12, EXACT)]


def test_unexplained_target_offsets_can_be_copies() -> None:
    """Up to three records were copied from 10 on, then the copier ended. They were copied again."""
    copies = Map(segment(CopiedRange(0, 0, 10), CopiedRange(10, 13, 10)))
    assert copies.offsets(9, 10, 13) == [(9, EXACT), (10, NEXT), (10, EXACT)]
    assert copies.at(12) == PositionAnswer(offset=10, precision=CONSERVATIVE, reason=IN_DOUBT, read_again=2)
    assert copies.offsets(12, foreign=[(10, 13)]) == [(10, NEXT)]
    assert copies.offsets(12, foreign=[(11, 13)]) == [(10, CONSERVATIVE)]


def test_records_that_others_copied_are_somewhere_in_between() -> None:
    copies = Map(segment(CopiedRange(0, 0, 10), CopiedRange(100, 95, 5, 2)))
    assert copies.offsets(9, 10, 95) == [(9, EXACT), (10, CONSERVATIVE), (100, EXACT)]
    assert [copies.at(offset).read_again for offset in (10, 30, 94)] == [0, 20, 84]


def test_each_copy_of_a_record_is_that_record() -> None:
    copies = Map(segment(CopiedRange(0, 0, 100), CopiedRange(90, 100, 5)))
    assert copies.offsets(89, 95, 99) == [(89, EXACT), (95, EXACT), (99, EXACT)]
    assert copies.offsets(100, 102, 104, 105) == [(90, EXACT), (92, EXACT), (94, EXACT), (95, END)]


def test_packed_ranges() -> None:
    ranges = [CopiedRange(12 * step, 11 * step, 10, 2 if step else 0) for step in range(40)]
    packed = PackedRanges.of(ranges)
    copies = Map(segment(CopiedRange(480, 440, 10, 2), packed=packed))
    for offset in range(450):
        assert copies.at(offset).offset == 12 * (offset // 11) + (offset % 11 if offset % 11 < 10 else 12)
    assert copies.offsets(8, 10, 439, 440) == [(8, EXACT), (12, NEXT), (480, NEXT), (480, EXACT)]
    late = Map(segment(packed=PackedRanges.of([CopiedRange(12, 5, 10, 2)])))
    assert late.offsets(3, 5) == [(None, CONSERVATIVE), (12, EXACT)]


def test_damaged_packed_ranges_are_lost() -> None:
    packed = PackedRanges.of([CopiedRange(12 * step, 11 * step, 10, 2 if step else 0) for step in range(40)])
    copies = Map(segment(packed=replace(packed, deflated=b"damaged")))
    assert copies.at(17) == PositionAnswer(
        offset=0, precision=CONSERVATIVE, reason="the map is damaged there", read_again=478
    )


def test_segments_are_found_by_their_start() -> None:
    copies = Map(*chain(*[(CopiedRange(10 * n, 11 * n, 10),) for n in range(100)]))
    assert [copies.at(11 * n + 3).offset for n in range(100)] == [10 * n + 3 for n in range(100)]
    assert [copies.at(11 * n + 10).offset for n in range(99)] == [10 * n + 10 for n in range(99)]


def test_segments_that_are_not_loaded_are_asked_for() -> None:
    copies = Map(*chain((CopiedRange(0, 0, 10),), (CopiedRange(10, 11, 10),)))
    copies.loaded.discard(0)
    with pytest.raises(SegmentNotLoaded) as needed:
        copies.at(3)
    assert needed.value.place == 0
    assert copies.offsets(15) == [(14, EXACT)]


def test_without_segments_nothing_is_known() -> None:
    copies = Map()
    assert copies.at(5) == PositionAnswer(
        offset=None, precision=CONSERVATIVE, reason="the map does not have the partition", read_again=None
    )
    assert copies.offsets(5, source=Extent(start=3)) == [(3, CONSERVATIVE)]


def test_after_the_end_of_the_remote_topic_is_ahead() -> None:
    copies = Map(segment(CopiedRange(0, 0, 10)))
    assert copies.at(15, target=Extent(end=11)) == PositionAnswer(
        offset=10,
        precision=AHEAD,
        reason="after the end of the remote topic, 11",
        read_again=1,
        missing=4,
    )
    assert copies.offsets(10, target=Extent(end=10)) == [(10, END)]


def test_before_the_segments_is_the_start_of_the_source() -> None:
    copies = Map(segment(CopiedRange(100, 110, 10), sequence=7, before=CopiedUpTo(100, 105)))
    for offset, read_again in ((104, 60), (105, 60), (109, 64)):
        assert copies.at(offset, source=Extent(start=40)) == PositionAnswer(
            offset=40, precision=CONSERVATIVE, reason="before the first offset that the map has", read_again=read_again
        )
        assert copies.at(offset).offset is None
    empty = Map(segment(sequence=7, before=CopiedUpTo(100, 105)))
    assert empty.offsets(106, source=Extent(start=40)) == [(40, CONSERVATIVE)]


def test_before_the_first_copy_of_all() -> None:
    copies = Map(segment(CopiedRange(3, 2, 10, 3)))
    assert copies.at(1) == PositionAnswer(offset=3, precision=NEXT, reason=NO_COPY)
    java = Map(segment(CopiedRange(30, 20, 10, 3)))
    assert java.offsets(1) == [(None, CONSERVATIVE)]
    assert java.offsets(1, source=Extent(start=27)) == [(30, NEXT)]
    assert java.at(1, source=Extent(start=5)).read_again == 25


def test_a_former_era_is_the_start_of_the_current_one() -> None:
    copies = Map(segment(CopiedRange(0, 50, 10), era=1, sequence=4))
    reason = "before the first copy since a topic was recreated or truncated"
    assert copies.at(20) == PositionAnswer(offset=0, precision=CONSERVATIVE, reason=reason)
    nothing = Map(segment(era=1, sequence=4))
    assert nothing.at(20, source=Extent(start=0)) == PositionAnswer(
        offset=0, precision=CONSERVATIVE, reason="before the first copy that the map has", read_again=None
    )


def test_another_era_replaces_what_was_seen() -> None:
    copies = Map(*chain((CopiedRange(0, 0, 10),), (CopiedRange(5, 10, 5),)))
    assert copies.offsets(10) == [(5, EXACT)]
    copies.entries = SegmentIndex()
    copies.add(segment(CopiedRange(0, 20, 10), sequence=3, era=1), place=9)
    assert copies.offsets(22) == [(2, EXACT)]


def truncated(*later: Segment) -> list[Segment]:
    """The source lost its records from 60 on, after 100 were copied to 0 to 99. It has written others since."""
    return [
        segment(CopiedRange(0, 0, 100)),
        segment(CopiedRange(60, 101, 20), sequence=1, before=CopiedUpTo(60, 100), truncated=60),
        *later,
    ]


def test_copies_of_lost_records_are_where_the_source_was_truncated() -> None:
    copies = Map(*truncated())
    assert copies.offsets(0, 59, 101, 120) == [(0, EXACT), (59, EXACT), (60, EXACT), (79, EXACT)]
    assert copies.offsets(60, 61, 99, 100) == [(60, NEXT), (60, NEXT), (60, NEXT), (60, NEXT)]
    assert copies.at(80).reason == "the source has lost its records from 60 on, and the copies stayed on the target"


def test_the_lowest_truncation_counts() -> None:
    copies = Map(
        *truncated(
            segment(CopiedRange(70, 121, 5), sequence=2, before=CopiedUpTo(70, 121), truncated=70),
            segment(CopiedRange(30, 126, 5), sequence=3, before=CopiedUpTo(30, 126), truncated=30),
        )
    )
    assert copies.offsets(29, 31, 80, 115, 122) == [(29, EXACT), (30, NEXT), (30, NEXT), (30, NEXT), (30, NEXT)]
    higher = Map(*truncated(segment(CopiedRange(70, 121, 5), sequence=2, before=CopiedUpTo(70, 121), truncated=70)))
    assert higher.offsets(65, 105, 115) == [(60, NEXT), (64, EXACT), (70, NEXT)]


def test_conservative_answers_are_lowered_by_a_truncation() -> None:
    first = segment(CopiedRange(0, 0, 50), CopiedRange(90, 85, 10))
    cut = segment(sequence=1, before=CopiedUpTo(40, 95), truncated=40)
    copies = Map(first, cut)
    assert copies.offsets(39, 45, 60, 90) == [(39, EXACT), (40, NEXT), (40, CONSERVATIVE), (40, NEXT)]


def test_truncated_and_nothing_copied_since() -> None:
    copies = Map(segment(CopiedRange(0, 0, 100)), segment(sequence=1, before=CopiedUpTo(60, 100), truncated=60))
    assert copies.offsets(100, 101) == [(60, END), (60, CONSERVATIVE)]
    assert copies.offsets(101, foreign=[(100, 101)]) == [(60, END)]


def test_truncated_after_copies_at_unknown_offsets() -> None:
    """Records 100 to 109 were copied, but the target did not say where, and from 105 on the source has lost them."""
    unknown = segment(sequence=1, before=CopiedUpTo(110, 100))
    cut = segment(CopiedRange(105, 110, 5), sequence=2, before=CopiedUpTo(105, 100), truncated=105)
    copies = Map(segment(CopiedRange(0, 0, 100)), unknown)
    assert copies.at(103) == PositionAnswer(
        offset=100,
        precision=CONSERVATIVE,
        reason="the next copies are at target offsets that were not reported",
        read_again=3,
    )
    copies.add(cut)
    assert copies.offsets(103, 110) == [(100, CONSERVATIVE), (105, EXACT)]
    empty = Map(segment(CopiedRange(0, 0, 100)), unknown, replace(cut, ranges=()))
    assert empty.offsets(103) == [(100, CONSERVATIVE)]


def test_epochs_show_a_truncation_whose_segment_is_missing() -> None:
    epochs = (EpochStart(0, 0), EpochStart(1, 60))
    copies = Map(
        segment(CopiedRange(0, 0, 100), epochs=epochs[:1]),
        segment(CopiedRange(70, 140, 5), sequence=2, before=CopiedUpTo(70, 140), epochs=epochs),
    )
    assert copies.offsets(50, 80, 142) == [(50, EXACT), (60, NEXT), (72, EXACT)]
    assert copies.offsets(120) == [(60, CONSERVATIVE)]
    lost = Map(
        segment(CopiedRange(0, 0, 100), epochs=epochs[:1]),
        segment(CopiedRange(100, 100, 5), sequence=1, before=CopiedUpTo(100, 100), epochs=epochs),
        lost=(1,),
    )
    assert lost.offsets(80) == [(80, EXACT)]


def test_missing_segments_can_have_copies() -> None:
    copies = Map(
        segment(CopiedRange(0, 0, 10)),
        segment(CopiedRange(40, 45, 5), sequence=3, before=CopiedUpTo(40, 42)),
    )
    reason = "segments of the map are missing there"
    assert copies.at(10) == PositionAnswer(offset=10, precision=CONSERVATIVE, reason=reason)
    assert copies.at(30) == PositionAnswer(offset=10, precision=CONSERVATIVE, reason=reason, read_again=20)
    assert copies.at(44) == PositionAnswer(offset=10, precision=CONSERVATIVE, reason=reason, read_again=34)
    assert copies.offsets(46) == [(41, EXACT)]
    back = Map(
        segment(CopiedRange(0, 0, 10)),
        segment(CopiedRange(5, 45, 5), sequence=3, before=CopiedUpTo(40, 42)),
    )
    assert back.at(30) == PositionAnswer(offset=5, precision=CONSERVATIVE, reason=reason, read_again=25)


def test_missing_segments_after_one_without_ranges() -> None:
    start = segment(CopiedRange(0, 0, 10))
    empty = segment(sequence=1, before=CopiedUpTo(15, 10))
    later = segment(CopiedRange(40, 45, 5), sequence=3, before=CopiedUpTo(40, 45))
    assert Map(start, empty, later).offsets(10, 30) == [(10, CONSERVATIVE), (10, CONSERVATIVE)]
    assert Map(empty, later).offsets(30, source=Extent(start=4)) == [(4, CONSERVATIVE)]
    within = Map(empty, replace(later, before=CopiedUpTo(40, 20)))
    assert within.offsets(30, source=Extent(start=4)) == [(4, CONSERVATIVE)]
    assert Map(empty, replace(later, sequence=2)).offsets(30) == [(None, CONSERVATIVE)]
    assert Map(start, empty, replace(later, sequence=2, ranges=())).offsets(46) == [(10, CONSERVATIVE)]


def test_a_lost_segment_is_read_from_its_lowest_offset() -> None:
    segments = chain((CopiedRange(0, 0, 10), CopiedRange(5, 10, 9)), (CopiedRange(14, 21, 10),))
    assert Map(*segments).offsets(12, 19, 22) == [(7, EXACT), (14, NEXT), (15, EXACT)]
    copies = Map(*segments, lost=(0,))
    assert copies.offsets(12, 19, 22) == [(0, CONSERVATIVE), (0, CONSERVATIVE), (15, EXACT)]


def test_repeats_have_no_record_that_was_not_copied_before() -> None:
    copies = Map(
        *chain(
            (CopiedRange(0, 0, 50), CopiedRange(52, 50, 50, 2)),
            (CopiedRange(40, 101, 10), CopiedRange(52, 111, 60, 2)),
        )
    )
    assert copies.offsets(30, 45, 60, 99) == [(30, EXACT), (45, EXACT), (62, EXACT), (101, EXACT)]


def later_copies(*parts: tuple[CopiedRange, ...]) -> Map:
    """Records 50 and 51 were left out at first, and are copied later."""
    return Map(*chain((CopiedRange(0, 0, 50), CopiedRange(52, 50, 50, 2)), *parts))


def test_records_that_are_copied_later_for_the_first_time_are_not_skipped() -> None:
    reason = "records from 50 on were copied again after the position, and not all of them are before it"
    copies = later_copies((CopiedRange(40, 101, 70),))
    assert copies.offsets(30, 45, 49, 50) == [(30, EXACT), (45, EXACT), (49, EXACT), (50, CONSERVATIVE)]
    assert copies.at(80) == PositionAnswer(offset=50, precision=CONSERVATIVE, reason=reason, read_again=32)
    assert copies.at(80) == copies.at(80, source=Extent(start=0))
    assert copies.offsets(102, 112) == [(41, EXACT), (51, EXACT)]


def test_later_copies_in_the_same_segment() -> None:
    copies = Map(segment(CopiedRange(0, 0, 50), CopiedRange(52, 50, 50, 2), CopiedRange(40, 101, 70)))
    assert copies.offsets(45, 80, 105, 112) == [(45, EXACT), (50, CONSERVATIVE), (44, EXACT), (51, EXACT)]


def test_a_growing_repeat_is_examined_again() -> None:
    copies = later_copies((CopiedRange(40, 101, 5),))
    assert copies.offsets(80) == [(82, EXACT)]
    grown = chain((CopiedRange(0, 0, 50), CopiedRange(52, 50, 50, 2)), (CopiedRange(40, 101, 70),))[1]
    copies.add(grown, place=7)
    assert copies.offsets(80) == [(50, CONSERVATIVE)]


def test_lost_records_are_not_copied_before() -> None:
    """The source lost its records from 60 on. After a crash, others of these offsets were copied again from 55 on."""
    again = segment(CopiedRange(55, 125, 40), sequence=2, before=CopiedUpTo(80, 121))
    copies = Map(*truncated(again))
    assert copies.offsets(58, 80, 105, 126) == [(58, EXACT), (60, NEXT), (64, EXACT), (56, EXACT)]
    more = segment(CopiedRange(55, 101, 3), CopiedRange(75, 104, 5), CopiedRange(58, 110, 20), sequence=1)
    copies = Map(segment(CopiedRange(0, 0, 100)), replace(more, before=CopiedUpTo(60, 100), truncated=60))
    assert copies.offsets(105) == [(60, CONSERVATIVE)]


def test_repeats_of_packed_segments_are_compared() -> None:
    ranges = [CopiedRange(12 * step, 11 * step, 10, 2 if step else 0) for step in range(40)]
    first = segment(CopiedRange(480, 440, 10, 2), packed=PackedRanges.of(ranges))
    again = [one._replace(downstream=one.downstream + 300) for one in ranges[20:]]
    copies = Map(first, segment(*again, sequence=1, before=CopiedUpTo(490, 450)))
    assert [copies.at(offset).precision for offset in (100, 300, 445)] == [EXACT, EXACT, EXACT]
    part = segment(CopiedRange(1, 30, 2), sequence=1, before=CopiedUpTo(15, 13))
    unlike = PackedRanges.of([CopiedRange(0, 0, 4), CopiedRange(5, 5, 3, 1), CopiedRange(10, 9, 4, 2)])
    assert Map(segment(CopiedRange(14, 13, 1), packed=unlike), part).offsets(9, 31) == [(10, EXACT), (2, EXACT)]
    whole = segment(CopiedRange(240, 520, 250), sequence=1, before=CopiedUpTo(490, 450))
    assert Map(first, whole).offsets(100, 300) == [(109, EXACT), (250, CONSERVATIVE)]
    inside = segment(CopiedRange(480, 440, 10, 2), CopiedRange(240, 520, 250), packed=PackedRanges.of(ranges))
    assert Map(inside).offsets(100, 300) == [(109, EXACT), (250, CONSERVATIVE)]


def test_a_long_repeat_counts_as_copied_for_the_first_time() -> None:
    size = COMPARED_SEGMENTS + 5
    first = [(CopiedRange(10 * n, 11 * n, 10),) for n in range(size)]
    again = [(CopiedRange(10 * n, 11 * (size + n), 10),) for n in range(size)]
    copies = Map(*chain(*first, *again))
    assert copies.offsets(3, 11 * size - 5) == [(3, EXACT), (0, CONSERVATIVE)]
    assert copies.offsets(11 * size + 14) == [(13, EXACT)]
    whole = Map(*chain(*first, (CopiedRange(0, 11 * size, 10 * size),)))
    assert whole.at(11 * size - 5).precision is CONSERVATIVE


def test_comparisons_with_lost_segments_find_nothing() -> None:
    segments = chain(
        (CopiedRange(0, 0, 10),), (CopiedRange(10, 10, 10),), (CopiedRange(5, 20, 15),), (CopiedRange(8, 36, 15),)
    )
    assert Map(*segments).offsets(15, 22) == [(15, EXACT), (7, EXACT)]
    assert Map(*segments, lost=(0,)).offsets(15) == [(5, CONSERVATIVE)]
    assert Map(*segments, lost=(2,)).offsets(15, 38) == [(5, CONSERVATIVE), (10, EXACT)]


def test_only_some_comparisons_are_remembered() -> None:
    copies = Map(
        *chain(*[(CopiedRange(10 * n, 20 * n, 10), CopiedRange(10 * n, 20 * n + 10, 10)) for n in range(1_100)])
    )
    assert [copies.at(20 * n + 15).offset for n in range(1_100)] == [10 * n + 5 for n in range(1_100)]


def test_answers_are_within_the_source() -> None:
    copies = Map(segment(CopiedRange(0, 0, 100)))
    assert copies.at(30, source=Extent(start=40)) == PositionAnswer(
        offset=40, precision=NEXT, reason="the source now starts at 40"
    )
    assert copies.offsets(100, source=Extent(start=150)) == [(150, END)]
    reason = "the source ends at 80, before the records in the map: truncated or recreated"
    assert copies.at(90, source=Extent(start=5, end=80)) == PositionAnswer(
        offset=5, precision=CONSERVATIVE, reason=reason, read_again=None
    )
    assert copies.offsets(80, source=Extent(start=5, end=80)) == [(80, EXACT)]
