from __future__ import annotations

from uuid import UUID

import pytest

from mm2.core.alignment.aligner import Alignment
from mm2.core.alignment.rebuilt_map import StoredMap, outdated_keys, rebuilt_segments
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import Segment, SegmentKey, TopicIds, decode_segment
from mm2.core.offsets.exact_offsets import Bounded, Found
from mm2.core.offsets.leader_epochs import EpochStart
from mm2.core.wire.formats import FormatError
from tests.lab.exact_map import fold

TP = TopicPartition("orders", 3)
IDS = TopicIds(UUID(int=1), UUID(int=2))
OTHER = TopicIds(UUID(int=3), UUID(int=2))


def alignment(*ranges: tuple[int, int, int, int], reaches_end: bool = False) -> Alignment:
    found = tuple(CopiedRange(*one) for one in ranges)
    return Alignment(ranges=found, reaches_end=reaches_end, source=0, target=0, explained=0, repeated=0, others=0)


def segment(sequence: int, era: int, *, topic_ids: TopicIds = IDS, partition: TopicPartition = TP) -> Segment:
    return Segment(
        topic_partition=partition,
        sequence=sequence,
        era=era,
        topic_ids=topic_ids,
        before=CopiedUpTo(),
        through=100,
        ranges=(CopiedRange(0, 0, 100),),
        epochs=(EpochStart(2, 0), EpochStart(3, 50)),
    )


def stored(*segments: Segment) -> StoredMap:
    found = StoredMap(partition=TP)
    for one in segments:
        found.take(one.key(), one.value())
    return found


def test_what_is_stored_of_one_partition() -> None:
    found = stored(segment(4, 1), segment(7, 2, topic_ids=OTHER), segment(99, 9, partition=TopicPartition("orders", 4)))
    assert (found.era, found.sequence, found.version) == (2, 7, 2)
    assert found.newest is not None
    assert found.newest.sequence == 7
    found.take(segment(6, 2).key(), segment(6, 2).value())  # written again, by a reader or after a failure
    assert found.newest.sequence == 7
    found.take(segment(6, 2).key(), None)
    found.take(segment(4, 1).key(), None)
    assert (found.keys, found.version) == ({segment(7, 2).key()}, 5)


def test_records_that_cannot_be_read_are_replaced_too() -> None:
    found = stored(segment(4, 1))
    damaged = SegmentKey(TP, 5, 9).encode()
    with pytest.raises(FormatError):
        found.take(damaged, b"garbage")
    old = b"\x00\x00" + damaged[2:-8]  # a key of version 0 has an index of 32 bits
    with pytest.raises(FormatError):
        found.take(old, b"\x00\x00")
    with pytest.raises(FormatError):
        found.take(b"garbage", b"garbage")
    assert (found.era, found.sequence, found.version) == (5, 9, 3)
    (rebuilt,) = rebuilt_segments(found, alignment((10, 20, 5, 0)), IDS, source_end=15)
    assert (rebuilt.era, rebuilt.sequence) == (6, 10)
    assert outdated_keys(found, [rebuilt]) == sorted([segment(4, 1).key(), damaged, old])
    found.take(rebuilt.key(), rebuilt.value())
    assert outdated_keys(found, [rebuilt]) == sorted([segment(4, 1).key(), damaged, old])


def test_the_map_of_a_deleted_topic_is_not_replaced() -> None:
    """The leader detects by its ID that the topic was recreated."""
    assert stored(segment(4, 1)).may_continue(IDS)
    assert not stored(segment(4, 1)).may_continue(OTHER)
    assert stored(segment(4, 1)).may_continue(TopicIds(IDS.source, UUID(int=9))), "the remote topic was recreated"
    assert stored().may_continue(OTHER)


def test_leader_epochs_are_kept_as_far_as_they_are_of_copied_records() -> None:
    (rebuilt,) = rebuilt_segments(stored(segment(4, 1)), alignment((0, 0, 40, 0)), IDS, source_end=40)
    assert rebuilt.epochs == (EpochStart(2, 0),)
    (other,) = rebuilt_segments(stored(segment(4, 1)), alignment((0, 0, 40, 0)), OTHER, source_end=40)
    assert other.epochs == ()
    assert other.topic_ids == OTHER


def test_nothing_found_is_nothing_to_write() -> None:
    assert rebuilt_segments(stored(segment(4, 1)), alignment(), IDS, source_end=40) == ()


def test_readers_use_only_the_rebuilt_map_and_lanes_continue_it() -> None:
    former = [segment(4, 1), segment(5, 1)]
    found = alignment((10, 30, 5, 0), (17, 35, 3, 2), (25, 43, 5, 0), reaches_end=True)
    rebuilt = rebuilt_segments(stored(*former), found, IDS, source_end=33)
    known = fold([*former, *rebuilt])
    assert known.look_up(5) == Bounded(most=30)
    assert isinstance(known.look_up(22), Bounded)
    for position, target in ((12, 32), (16, 35), (33, 48)):  # a record, a hole, markers at the end
        answer = known.look_up(position)
        assert (isinstance(answer, Found), answer.offset if isinstance(answer, Found) else None) == (True, target)
    journal = ExactOffsetJournal(TP, topic_ids=IDS, last=rebuilt[-1])
    journal.acked(((33, 10),), 48, since=33, until=43)
    (continued,) = journal.unwritten()
    assert (continued.era, continued.sequence) == (rebuilt[-1].era, rebuilt[-1].sequence)
    answer = fold([*former, *rebuilt, continued]).look_up(40)
    assert isinstance(answer, Found)
    assert answer.offset == 55


def test_many_ranges_are_many_segments() -> None:
    """Ranges that cannot be packed: more segments than a journal lets wait."""
    ranges = [(20 * number, 50 * number + number % 7, 3, 0) for number in range(3_000)]
    rebuilt = rebuilt_segments(stored(), alignment(*ranges), IDS, source_end=60_000)
    assert len(rebuilt) > 64
    assert [one.sequence for one in rebuilt] == list(range(len(rebuilt)))
    read = [decode_segment(one.key(), one.value()) for one in rebuilt]
    assert read == list(rebuilt)
    assert [tuple(one) for found in rebuilt for one in found.all_ranges()] == ranges
