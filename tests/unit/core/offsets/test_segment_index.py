"""The index of the segments of a partition, and the segments in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, TopicIds
from mm2.core.offsets.segment_index import (
    EncodedSegment,
    LoadedSegments,
    SegmentEntry,
    SegmentIndex,
    SegmentLost,
    SegmentNotLoaded,
)

TP = TopicPartition("orders", 3)
ONE = Segment(
    topic_partition=TP,
    sequence=1,
    era=0,
    topic_ids=TopicIds(),
    before=CopiedUpTo(),
    through=12,
    ranges=(CopiedRange(10, 5, 2),),
)


def entry(sequence: int, *, place: int = 0) -> SegmentEntry:
    first = 100 * sequence
    return SegmentEntry(
        place=place or 10 * sequence + 1,
        sequence=sequence,
        era=2,
        size=500 + sequence,
        before=CopiedUpTo(first, first - 1),
        upstream=first,
        downstream=first,
        upstream_end=first + 90,
        downstream_end=first + 80,
        truncated=-1,
        topic_ids=TopicIds(),
        clean=True,
    )


def test_what_is_not_loaded_is_asked_for() -> None:
    loaded = LoadedSegments()
    with pytest.raises(SegmentNotLoaded) as caught:
        loaded.get(7)
    assert caught.value.place == 7
    loaded.put(7, ONE)
    assert loaded.get(7) is ONE


def test_what_is_gone_is_known_to_be_lost() -> None:
    loaded = LoadedSegments()
    loaded.put(7, None)
    loaded.pin(8, EncodedSegment(ONE.key(), b"damaged"))
    for place in (7, 8, 8):
        with pytest.raises(SegmentLost):
            loaded.get(place)


def test_the_last_used_segments_are_kept() -> None:
    loaded = LoadedSegments(kept=2)
    loaded.put(1, ONE)
    loaded.put(2, ONE)
    loaded.get(1)
    loaded.put(3, ONE)
    assert loaded.get(1) is ONE
    with pytest.raises(SegmentNotLoaded):
        loaded.get(2)


def test_pinned_segments_stay_and_are_decoded_when_needed() -> None:
    loaded = LoadedSegments(kept=1)
    loaded.pin(1, EncodedSegment(ONE.key(), ONE.value()))
    loaded.put(2, ONE)
    loaded.put(3, ONE)
    assert loaded.get(1) == ONE
    assert loaded.get(1) is loaded.get(1)
    loaded.unpin(1)
    assert loaded.get(1) == ONE, "it was used last"
    loaded.discard(1)
    with pytest.raises(SegmentNotLoaded):
        loaded.get(1)


def test_an_encoded_segment_that_nobody_needed_is_not_kept() -> None:
    loaded = LoadedSegments()
    loaded.pin(1, EncodedSegment(ONE.key(), ONE.value()))
    loaded.unpin(1)
    with pytest.raises(SegmentNotLoaded):
        loaded.get(1)


def test_an_empty_index() -> None:
    index = SegmentIndex()
    assert list(index) == []
    assert index.first is index.last is index.by_sequence(0) is None
    assert index.remove(0) is None
    assert index.move(0, place=1, size=2) is None


def test_segments_are_in_order() -> None:
    index = SegmentIndex()
    entries = [entry(sequence) for sequence in (3, 4, 6)]
    for one in entries:
        index.add(one)
    assert list(index) == entries
    assert index[-1] == index.last == entries[2]
    assert index.first == entries[0]
    assert index[1:] == entries[1:]
    assert [index.by_sequence(sequence) for sequence in (2, 3, 4, 5, 6, 7)] == [
        None,
        entries[0],
        entries[1],
        None,
        entries[2],
        None,
    ]
    assert index.size == 503 + 504 + 506
    assert [index.upstream_of(sequence) for sequence in (3, 4, 6)] == [300, 400, 600]
    with pytest.raises(IndexError):
        index[3]


def test_a_later_record_of_the_last_segment_replaces_it() -> None:
    index = SegmentIndex()
    index.add(entry(1))
    index.add(grown := replace(entry(1), place=50, upstream_end=195))
    assert list(index) == [grown]


def test_a_later_record_of_an_earlier_segment_moves_it() -> None:
    index = SegmentIndex()
    index.add(entry(1))
    index.add(entry(2))
    assert index.move(1, place=30, size=7) == 11
    assert index[0] == replace(entry(1), place=30, size=7)
    assert index.move(2, place=31, size=7) is None, "the last one is replaced by `add`"


def test_all_but_the_last_segment_can_be_removed() -> None:
    index = SegmentIndex()
    for sequence in (1, 2, 3):
        index.add(entry(sequence))
    assert index.remove(2) == entry(2)
    assert index.remove(2) is index.remove(3) is None
    assert list(index) == [entry(1), entry(3)]


def test_doubt_truncation_and_repeats_are_kept() -> None:
    index = SegmentIndex()
    doubtful = replace(entry(1), before=CopiedUpTo(100, 99, 5), clean=False)
    truncated = replace(entry(2), truncated=150)
    for one in (doubtful, truncated, entry(3)):
        index.add(one)
    assert list(index) == [doubtful, truncated, entry(3)]
    index.remove(1)
    index.move(2, place=40, size=9)
    assert list(index) == [replace(truncated, place=40, size=9), entry(3)]


def test_irregular_segments_are_found_from_a_sequence_on() -> None:
    index = SegmentIndex()
    assert index.irregular(-1) == []
    for number in range(6):
        index.add(entry(number))
    assert index.irregular(-1) == []
    repeated, cut = replace(entry(6), clean=False), replace(entry(8), truncated=700)
    doubtful = replace(entry(9), before=CopiedUpTo(900, 899, 5))
    for one in (repeated, entry(7), cut, doubtful):
        index.add(one)
    assert index.irregular(-1) == [repeated, cut, doubtful]
    assert index.irregular(7) == [cut, doubtful]
    index.add(entry(10))
    assert index.irregular(9) == [doubtful]
    assert index.irregular(10) == []


def test_thousands_are_removed_from_the_start() -> None:
    index = SegmentIndex()
    for sequence in range(1_000):
        index.add(entry(sequence))
    for sequence in range(998):
        assert index.remove(sequence) == entry(sequence)
        assert index.remove(sequence) is None
        assert index.first == entry(sequence + 1)
    assert list(index) == [entry(998), entry(999)]
    assert index.size == 2 * 500 + 998 + 999
