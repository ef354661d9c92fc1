from __future__ import annotations

import random
from dataclasses import replace
from uuid import UUID

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import (
    MAX_PRODUCERS,
    SEGMENT_RANGES,
    ProducerEpoch,
    Segment,
    SegmentKey,
    TopicIds,
    after_gap,
)
from mm2.core.offsets.leader_epochs import EpochStart

TP = TopicPartition("orders", 0)
IDS = TopicIds(UUID(int=1), UUID(int=2))


def journal(last: Segment | None = None, *, ids: TopicIds = IDS, waiting: int = 4) -> ExactOffsetJournal:
    return ExactOffsetJournal(TP, topic_ids=ids, last=last, waiting=waiting)


def list_of(segment: Segment) -> list[CopiedRange]:
    return list(segment.all_ranges())


def flushed(book: ExactOffsetJournal) -> list[Segment]:
    segments = list(book.unwritten())
    for segment in segments:
        book.written(segment)
    assert book.unwritten() == ()
    return segments


def with_holes(book: ExactOffsetJournal, ranges: int, start: int = 0) -> None:
    for number in range(start, start + ranges):
        book.acked([(10 * number, 9)], 9 * number, since=10 * number, until=10 * number + 10)


def test_no_segment_without_copied_records() -> None:
    book = journal()
    book.passed(0, 5)
    assert book.unwritten() == ()


def test_contiguous_runs_are_merged() -> None:
    book = journal()
    book.acked([(0, 10)], 100, since=0, until=10)
    book.acked([(10, 5), (15, 5)], 110, since=10, until=20)
    assert flushed(book)[0].ranges == (CopiedRange(0, 100, 20),)


def test_holes_include_all_scanned_offsets() -> None:
    book = journal()
    book.passed(0, 2)
    book.acked([(3, 5), (10, 5)], 0, since=2, until=17)
    book.passed(17, 19)
    book.acked([(20, 1)], 10, since=19, until=21)
    ranges = (CopiedRange(3, 0, 5, 3), CopiedRange(10, 5, 5, 2), CopiedRange(20, 10, 1, 5))
    assert flushed(book)[0].ranges == ranges


def test_unscanned_offsets_are_not_holes() -> None:
    book = journal()
    book.acked([(0, 10)], 0, since=0, until=10)
    book.acked([(52, 10)], 60, since=50, until=65)
    assert flushed(book)[0].ranges == (CopiedRange(0, 0, 10), CopiedRange(52, 60, 10, 2))


def test_through_covers_empty_offsets_after_the_last_range() -> None:
    book = journal()
    book.acked([(0, 10)], 0, since=0, until=12)
    assert flushed(book)[0].through == 12
    book.passed(50, 60)
    assert [(segment.ranges, segment.through, segment.before) for segment in flushed(book)] == [
        ((), -1, CopiedUpTo(60, 10)),
    ]
    book.acked([(61, 1)], 20, since=60, until=62)
    assert flushed(book)[0].ranges == (CopiedRange(61, 20, 1, 11),)


def test_repeated_offsets_start_a_new_range() -> None:
    book = journal()
    book.acked([(0, 10)], 0, since=0, until=10)
    book.acked([(7, 3)], 10, since=6, until=10)
    assert flushed(book)[0].ranges == (CopiedRange(0, 0, 10), CopiedRange(7, 10, 3, 1))


def test_batch_with_unknown_target_offset_leaves_a_gap() -> None:
    book = journal()
    book.acked([(0, 10)], 0, since=0, until=10)
    book.acked_somewhere(until=15)
    first, second = flushed(book)
    assert (first.sequence, first.ranges) == (0, (CopiedRange(0, 0, 10),))
    assert (second.sequence, second.ranges, second.before) == (1, (), CopiedUpTo(15, 10))
    book.acked([(15, 5)], 15, since=15, until=20)
    assert flushed(book)[0].ranges == (CopiedRange(15, 15, 5),)


def test_nothing_is_written_without_target_offsets() -> None:
    book = journal()
    for number in range(5):
        book.acked_somewhere(until=10 * number + 10)
    assert book.unwritten() == ()


def commits(book: ExactOffsetJournal, count: int, *, seed: int = 1) -> list[CopiedRange]:
    """Copy batches that are followed by a transaction marker on the target, and return their ranges."""
    rng = random.Random(seed)
    last = book.newest.ranges[-1] if book.newest.ranges else CopiedRange(0, -1, 0)
    copied = []
    for _ in range(count):
        last = CopiedRange(last.upstream_end, last.downstream_end + 1, rng.randint(80, 120))
        book.acked([(last.upstream, last.records)], last.downstream, since=last.upstream, until=last.upstream_end)
        copied.append(last)
    return copied


def sealed_segments(book: ExactOffsetJournal, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        with_holes(book, 1, number)
        book.acked_somewhere(until=10 * number + 10)


def test_earlier_ranges_are_packed() -> None:
    book = journal()
    copied = commits(book, SEGMENT_RANGES)
    (written,) = flushed(book)
    assert (written.packed, list(written.ranges)) == (None, copied)
    copied += commits(book, 1, seed=2)
    (written,) = flushed(book)
    assert written.packed is not None
    assert len(written.ranges) == 9
    assert list_of(written) == copied
    again = journal(written)
    assert again.unwritten() == ()
    copied += commits(again, 100, seed=3)
    (written,) = flushed(again)
    assert list_of(written) == copied
    assert again.newest.before == CopiedUpTo()


def test_full_segment_starts_the_next() -> None:
    book = journal()
    copied = commits(book, 3_000)
    first, second, *_ = flushed(book)
    assert [segment.sequence for segment in (first, second)] == [0, 1]
    assert len(first.value()) < 1_500
    assert len(list_of(first)) > 1_200
    last = first.ranges[-1]
    assert second.before == CopiedUpTo(last.upstream_end, last.downstream_end)
    assert [*list_of(first), *list_of(second)] == copied[: len(list_of(first)) + len(list_of(second))]


def test_repeated_ranges_are_not_packed() -> None:
    """The next segment is packed again."""
    book = journal()
    commits(book, 40)
    end = book.newest.ranges[-1]
    book.acked([(end.upstream, 10)], end.downstream_end, since=end.upstream, until=end.upstream + 10)
    commits(book, 31)
    first, second = flushed(book)
    assert first.packed is not None
    assert len(first.ranges) == SEGMENT_RANGES
    commits(book, 40)
    (second,) = flushed(book)
    assert second.packed is not None
    assert second.packed.follows(second.before)


def test_ranges_after_doubtful_ones_are_not_packed() -> None:
    book = journal()
    with_holes(book, 1)
    book.acked_somewhere(until=10)
    book.acked([(10, 1)], 500, since=10, until=11)
    commits(book, SEGMENT_RANGES)
    first, second, third = flushed(book)
    assert (first.packed, second.packed, third.packed) == (None, None, None)
    assert len(second.ranges) == SEGMENT_RANGES


def test_unwritten_segments_are_returned_up_to_the_limit() -> None:
    book = journal(waiting=2)
    sealed_segments(book, 4)
    with_holes(book, 1, 4)
    assert [segment.sequence for segment in book.unwritten()] == [2, 3, 4]
    stale = book.unwritten()[0]
    book.written(stale)
    book.written(stale)
    assert [segment.sequence for segment in flushed(book)] == [3, 4]


def test_restart_continues_after_the_last_segment() -> None:
    book = journal()
    book.acked([(0, 10)], 0, since=0, until=12)
    book = journal(flushed(book)[-1])
    assert book.unwritten() == ()
    book.acked([(14, 2)], 10, since=12, until=16)
    (segment,) = flushed(book)
    assert segment.ranges == (CopiedRange(0, 0, 10), CopiedRange(14, 10, 2, 4))
    assert (segment.sequence, segment.before) == (0, CopiedUpTo())


def test_doubtful_offsets_are_kept_until_copying_is_past_them() -> None:
    book = journal()
    book.acked([(0, 10)], 0, since=0, until=10)
    book.acked([(10, 3)], 15, since=10, until=13)  # target offsets 10 to 14 are unknown
    book.acked_somewhere(until=14)
    assert flushed(book)[-1].before == CopiedUpTo(14, 18, 2)


def test_different_topic_ids_start_a_new_era() -> None:
    book = journal()
    book.acked([(0, 10)], 0, since=0, until=10)
    last = flushed(book)[-1]
    assert journal(last, ids=TopicIds(None, IDS.remote)).unwritten() == ()
    assert journal(replace(last, topic_ids=TopicIds())).unwritten() == (last,)
    new_era = journal(last, ids=TopicIds(IDS.source, UUID(int=9)))
    (segment,) = flushed(new_era)
    assert (segment.era, segment.sequence, segment.ranges, segment.before) == (1, 1, (), CopiedUpTo())
    assert segment.topic_ids.remote == UUID(int=9)
    assert journal(segment, ids=segment.topic_ids).unwritten() == ()


def test_lower_target_offset_starts_a_new_era() -> None:
    book = journal()
    book.acked([(0, 10)], 0, since=0, until=10)
    book.acked([(10, 5)], 3, since=10, until=15)
    (segment,) = flushed(book)
    assert (segment.era, segment.ranges) == (1, (CopiedRange(10, 3, 5),))


def test_copies_before_a_lower_target_offset_are_lost() -> None:
    """Eight markers can have taken the place of copies. Every nine copies begin at source offset 10 n."""
    for ranges, downstream, lost in (
        (10, 85, (85, 100)),
        (10, 80, (80, 100)),
        (200, 9 * 20 + 3, (194, 2_000)),
        (10, 0, (0, 100)),
    ):
        book = journal()
        with_holes(book, ranges)
        assert book.lost_copies is None
        book.acked([(10 * ranges, 5)], downstream, since=10 * ranges, until=10 * ranges + 5)
        assert book.lost_copies == lost


def test_the_first_transaction_without_its_marker_is_lost_as_a_whole() -> None:
    book = ExactOffsetJournal(TP, topic_ids=IDS, in_transactions=True)
    for number in range(10):  # ten records and a marker; the source has a hole within each transaction
        book.acked([(20 * number, 5), (20 * number + 10, 5)], 11 * number, since=20 * number, until=20 * number + 20)
    book.acked([(200, 5)], 11 * 6 + 9, since=200, until=205)
    assert book.lost_copies == (120, 200), "from the transaction that contains target offset 67"


def test_lost_copies_before_the_last_segment_are_estimated() -> None:
    first = journal()
    first.acked([(0, 500)], 0, since=0, until=500)
    first.acked_somewhere(until=600)
    first.acked([(600, 100)], 600, since=600, until=700)
    (*_, last) = flushed(first)
    book = journal(last)
    book.acked([(700, 10)], 450, since=700, until=710)
    assert book.lost_copies == (442, 700)
    sealed = journal()
    sealed.acked([(100, 50)], 0, since=100, until=150)
    sealed.acked_somewhere(until=160)
    sealed.acked([(160, 10)], 20, since=160, until=170)
    assert sealed.lost_copies == (122, 160)


def test_only_unexplained_target_offsets_are_doubtful_after_another_writer() -> None:
    book = journal()
    book.acked([(0, 10)], 0, since=0, until=10)
    book.acked([(30, 1)], 30, since=30, until=31)  # 10 to 29 by another program, one record each
    assert book.newest.before.doubt == 0
    book.acked([(40, 1)], 45, since=40, until=41)  # 31 to 39, and five target offsets too many
    book.acked_somewhere(until=42)
    assert book.newest.before == CopiedUpTo(42, 46, 4)


def test_only_the_last_segment_is_retried_after_a_rejection() -> None:
    book = journal()
    sealed_segments(book, 2)
    with_holes(book, 1, 2)
    assert len(book.unwritten()) == 3
    book.refused()
    (last,) = book.unwritten()
    assert last == book.newest
    book.acked_somewhere(until=30)
    with_holes(book, 1, 3)
    assert len(book.unwritten()) == 2, "later segments are written again"


def test_last_range_is_extended() -> None:
    book = journal()
    book.acked([(0, 10)], 0, since=0, until=10)
    for number in range(1, 10):
        book.acked([(10 * number, 10)], 10 * number, since=10 * number, until=10 * number + 10)
    book.passed(100, 103)
    (segment,) = flushed(book)
    assert (segment.ranges, segment.through) == ((CopiedRange(0, 0, 100),), 103)
    assert book.newest == segment


def test_new_topic_ids_are_recorded_and_different_ones_start_a_new_era() -> None:
    book = journal(ids=TopicIds())
    book.acked([(0, 10)], 0, since=0, until=10)
    book.identify(IDS)
    assert flushed(book)[0].topic_ids == IDS
    book.identify(IDS)
    assert book.unwritten() == ()
    book.acked([(10, 5)], 3, since=10, until=15)  # a remote topic whose ID has not been read yet
    book.identify(TopicIds(IDS.source, UUID(int=9)))
    (segment,) = flushed(book)
    assert (segment.era, segment.topic_ids.remote, segment.ranges) == (1, UUID(int=9), (CopiedRange(10, 3, 5),))
    book.identify(TopicIds(UUID(int=8), UUID(int=9)))
    assert [(one.era, one.ranges) for one in flushed(book)] == [(2, ())]


def test_a_truncation_begins_a_segment_whose_ranges_follow_on_the_target() -> None:
    book = journal()
    book.acked([(0, 1_000)], 0, since=0, until=1_000)
    (first,) = flushed(book)
    book.truncated(900)
    (marker,) = flushed(book)
    assert (marker.sequence, marker.truncated, marker.ranges) == (first.sequence + 1, 900, ())
    assert (marker.before, marker.end) == (CopiedUpTo(900, 1_000), 900)
    book.acked([(900, 350)], 1_000, since=900, until=1_250)
    (copied,) = flushed(book)
    assert (copied.sequence, copied.truncated) == (marker.sequence, 900)
    assert copied.ranges == (CopiedRange(900, 1_000, 350),)


def test_a_truncation_is_kept_by_the_next_journal_and_ends_with_its_segment() -> None:
    book = journal()
    book.acked([(0, 10)], 0, since=0, until=10)
    book.truncated(5)
    again = journal(book.newest)
    sealed_segments(again, 1, start=2)
    with_holes(again, 1, start=3)
    *_, second, third = flushed(again)
    assert (second.truncated, third.truncated) == (5, -1)
    book.start_over(IDS)
    assert book.newest.truncated == -1


def test_epochs_of_copied_records_are_written() -> None:
    epochs = (EpochStart(0, 0), EpochStart(3, 10))
    book = journal()
    book.acked([(0, 10)], 0, since=0, until=10)
    book.set_epochs(epochs)
    assert flushed(book)[0].epochs == epochs[:1], "those after it are only fetched"
    book.acked([(10, 1)], 10, since=10, until=11)
    (written,) = flushed(book)
    assert written.epochs == epochs
    assert journal(written).unwritten() == (), "a successor keeps them"


def test_the_producers_of_a_segment_are_written() -> None:
    book = journal()
    first, second = ProducerEpoch(7, 0), ProducerEpoch(7, 1)
    for producer in (first, first, second):
        book.written_by(producer)
    book.acked([(0, 10)], 0, since=0, until=10)
    (written,) = flushed(book)
    assert written.producers == (first, second)
    again = journal(written)
    again.written_by(first)
    again.acked([(10, 10)], 10, since=10, until=20)
    again.acked_somewhere(until=30)
    written, following = flushed(again)
    assert written.producers == (second, first), "the last one at the end"
    assert following.producers == (first,), "the one that writes on"
    for epoch in range(100):
        again.written_by(ProducerEpoch(8, epoch))
    assert again.newest.producers == tuple(ProducerEpoch(8, epoch) for epoch in range(100 - MAX_PRODUCERS, 100))


def test_what_an_unreadable_segment_may_contain_is_in_doubt() -> None:
    """Source offsets up to 100 are known, and 300 records more are on the target, some of them perhaps from 150 on."""
    book = journal()
    book.acked([(0, 100)], 0, since=0, until=100)
    (last,) = flushed(book)
    book = journal(after_gap(SegmentKey(TP, 0, 1), last))
    assert book.newest.sequence == 2
    book.passed(150, 151)
    book.acked([(151, 10)], 400, since=151, until=161)
    (written,) = flushed(book)
    assert (written.before, written.after_gap) == (CopiedUpTo(151, 100), True)
    assert written.progress.doubt == 290
    book.acked_somewhere(until=170)
    assert not book.newest.after_gap
    assert book.newest.before == CopiedUpTo(170, 410, 290)


def test_nothing_is_in_doubt_if_all_segments_are_unreadable() -> None:
    book = journal(after_gap(SegmentKey(TP, 3, 8), None))
    book.acked([(150, 10)], 400, since=150, until=160)
    (written,) = flushed(book)
    assert (written.era, written.sequence, written.before) == (3, 9, CopiedUpTo(150))
    assert written.clean
