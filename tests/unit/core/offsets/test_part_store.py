"""Parts of segments: the same answers as from a search of all their ranges."""

from __future__ import annotations

import random
from itertools import pairwise

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, SegmentKey, TopicIds
from mm2.core.offsets.exact_offsets import Bounded, Found, FoundKind, MapLookup, Part, PartStore
from mm2.core.offsets.packed_ranges import PackedRanges
from mm2.core.offsets.segment_index import LoadedSegments, SegmentEntry, SegmentIndex

TP = TopicPartition("orders", 0)


def irregular(count: int, *, upstream: int = 0, downstream: int = 0, seed: int = 1) -> list[CopiedRange]:
    """Ranges with holes, markers, and gaps that are not holes."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        step = rng.randint(0, 4)
        hole = rng.choice([step, step, rng.randint(0, step)])
        found.append(
            CopiedRange(upstream + step, downstream + rng.randint(1 - min(step, 1), 2), rng.randint(1, 5), hole)
        )
        upstream, downstream = found[-1].upstream_end, found[-1].downstream_end
    return found


class Stored:
    """Segments in memory, and stores of their parts."""

    def __init__(self) -> None:
        self.index = SegmentIndex()
        self.loaded = LoadedSegments()

    def segment(self, ranges: list[CopiedRange], packed: int = 0) -> int:
        """Add the next segment and return its sequence."""
        sequence = len(self.index)
        segment = Segment(
            topic_partition=TP,
            sequence=sequence,
            era=0,
            topic_ids=TopicIds(),
            before=CopiedUpTo(),
            through=-1,
            ranges=tuple(ranges[packed:]),
            packed=PackedRanges.of(ranges[:packed]) if packed else None,
        )
        self.index.add(SegmentEntry.of(SegmentKey(TP, 0, sequence), segment.head, place=sequence, size=1))
        self.loaded.pin(sequence, segment)
        return sequence

    def store(self, ranges: list[CopiedRange]) -> PartStore:
        """Add the ranges to segments of different sizes, and return a store of them."""
        store = PartStore(self.index)
        rng = random.Random(3)
        while ranges:
            count = rng.randint(1, 40)
            sequence = self.segment(ranges[:count])
            for copied in ranges[:count]:
                store.append(part(sequence, copied))
            ranges = ranges[count:]
        return store

    def check(self, store: PartStore, ranges: list[CopiedRange]) -> None:
        for upstream in range(ranges[-1].upstream_end + 3):
            found = store.look_up(upstream, self.loaded)
            assert found == expected(ranges, upstream, store.through), upstream
        exact_from = ranges[0].upstream - ranges[0].hole
        for before, after in pairwise(ranges):
            if after.upstream - after.hole > before.upstream_end:
                exact_from = after.upstream - after.hole
        assert store.exact_from == exact_from


def part(sequence: int, copied: CopiedRange) -> Part:
    return Part(sequence, copied.upstream, copied.downstream, copied.upstream_end, copied.downstream_end, copied.hole)


def expected(ranges: list[CopiedRange], upstream: int, through: int) -> MapLookup:
    """The answer by a search of all ranges."""
    earlier = [one for one in ranges if one.upstream <= upstream]
    later = [one for one in ranges if one.upstream > upstream]
    end = earlier[-1] if earlier else None
    if end is not None and upstream < end.upstream_end:
        return Found(end.downstream + upstream - end.upstream)
    if later and upstream >= later[0].upstream - later[0].hole:
        return Found(later[0].downstream, FoundKind.NEXT)
    if end is not None and not later and upstream <= through:
        return Found(end.downstream_end, FoundKind.END)
    most = later[0].downstream if later else None
    return Bounded(None, most) if end is None else Bounded(end.downstream_end, most, upstream - end.upstream_end)


def test_many_ranges() -> None:
    ranges = irregular(1_000, upstream=7)
    stored = Stored()
    stored.check(stored.store(ranges), ranges)


def clean(count: int) -> list[CopiedRange]:
    """Ranges with a hole of one before each, and a marker behind it."""
    return [CopiedRange(10 * number + 1, 10 * number, 9, 1) for number in range(count)]


def test_complete_segments() -> None:
    ranges = clean(90)
    stored = Stored()
    store = PartStore(stored.index)
    for start in (0, 30, 60):
        sequence = stored.segment(ranges[start : start + 30], packed=start // 3)
        store.add_segment(sequence)
        store.add_segment(sequence)
    store.through = ranges[-1].upstream_end + 1
    assert len(store) == 3
    stored.check(store, ranges)


def test_a_complete_segment_can_be_cut_anywhere() -> None:
    ranges = clean(60)
    for upstream in range(1, 600, 7):
        stored = Stored()
        store = PartStore(stored.index)
        for start in (0, 30):
            store.add_segment(stored.segment(ranges[start : start + 30], packed=20))
        store.through = 600
        store.cut(upstream)
        kept = [one for one in ranges if one.upstream < upstream]
        if not kept:
            assert store.look_up(0, stored.loaded) == Bounded()
            assert store.exact_from is None
            continue
        kept[-1] = kept[-1]._replace(records=min(kept[-1].records, upstream - kept[-1].upstream))
        for position in range(upstream):
            found = store.look_up(position, stored.loaded)
            if position < kept[-1].upstream_end:
                assert found == expected(kept, position, store.through)
            else:
                assert found == Found(kept[-1].downstream_end, FoundKind.END)


def test_growing_range() -> None:
    stored = Stored()
    sequence = stored.segment([CopiedRange(0, 5, 7)])
    store = PartStore(stored.index)
    store.append(Part(sequence, 0, 5, 3, 8))
    store.append(Part(sequence, 3, 8, 7, 12))
    assert len(store) == 1
    stored.check(store, [CopiedRange(0, 5, 7)])


def test_cut() -> None:
    ranges = irregular(90)
    end = ranges[-1].upstream_end
    for upstream in (*range(1, end, 5), end - 1, end, end + 1):
        stored = Stored()
        store = stored.store(ranges)
        store.cut(upstream)
        kept = [one for one in ranges if one.upstream < upstream]
        if not kept:
            assert store.look_up(0, stored.loaded) == Bounded()
            continue
        kept[-1] = kept[-1]._replace(records=min(kept[-1].records, upstream - kept[-1].upstream))
        assert store.through == min(upstream, end)
        for position in range(kept[-1].upstream_end + 1):
            assert store.look_up(position, stored.loaded) == expected(kept, position, store.through), position


def test_replaced_by_a_repetition() -> None:
    """The repetition is short or long, and so is what it leaves of the older ranges."""
    older = irregular(200)
    downstream = older[-1].downstream_end
    for kept in (0, 20, 100, 190):
        for count in (5, 200):
            again = irregular(count, upstream=older[kept].upstream, downstream=downstream, seed=2)
            stored = Stored()
            store = stored.store(older)
            store.replace_from(stored.store(again))
            left = [one for one in older if one.upstream < again[0].upstream]
            if left and left[-1].upstream_end > again[0].upstream:
                left[-1] = left[-1]._replace(records=again[0].upstream - left[-1].upstream)
            stored.check(store, left + again)
    stored = Stored()
    store = stored.store(older)
    store.replace_from(PartStore(stored.index))
    stored.check(store, older)


def test_deleted_segments() -> None:
    """Those at the start are many in the end; others leave a gap."""
    stored = Stored()
    store = PartStore(stored.index)
    ranges = clean(400)
    for copied in ranges:
        store.add_segment(stored.segment([copied]))
    for sequence in range(397):
        assert store.exact_from == 10 * sequence
        store.drop(sequence)
        stored.index.remove(sequence)
        assert store.look_up(10 * sequence + 5, stored.loaded) == Bounded(None, 10 * sequence + 10)
        assert store.look_up(3_995, stored.loaded) == Found(3_994)
    assert len(store) == 3
    store.drop(398)
    stored.index.remove(398)
    assert store.look_up(3_985, stored.loaded) == Bounded(3_979, 3_990, 5)
    assert store.exact_from == 3_990
    for gone in (5, 398):
        store.drop(gone)
        assert len(store) == 2
    store.drop(399)
    assert store.exact_from == 3_970


def test_a_deleted_segment_of_several_parts() -> None:
    stored = Stored()
    ranges = [CopiedRange(0, 0, 10), CopiedRange(20, 10, 5), CopiedRange(30, 15, 5, 5)]
    store = stored.store(ranges[:2])
    (sequence,) = {store[0].sequence, store[1].sequence}
    store.append(part(stored.segment(ranges[2:]), ranges[2]))
    assert len(store) == 3
    store.drop(sequence)
    assert len(store) == 1
    assert store.look_up(32, stored.loaded) == Found(17)


def test_a_lost_segment_has_bounds() -> None:
    stored = Stored()
    store = PartStore(stored.index)
    for start in (0, 10):
        store.add_segment(stored.segment(clean(20)[start : start + 10]))
    stored.loaded.pin(0, stored.loaded.get(1))
    stored.loaded.discard(0)
    stored.loaded.put(0, None)
    assert store.look_up(55, stored.loaded) == Bounded(0, 99, 54)
    assert store.look_up(101, stored.loaded) == Found(100)


def test_a_segment_that_was_written_again_without_its_last_ranges() -> None:
    """A part of them is unknown then."""
    stored = Stored()
    store = PartStore(stored.index)
    sequence = stored.segment([])
    store.append(Part(sequence, 5, 5, 20, 20))
    store.append(part(stored.segment([CopiedRange(20, 20, 5)]), CopiedRange(20, 20, 5)))
    assert store.look_up(7, stored.loaded) == Bounded(5, 20, 2)


def test_packed_ranges_with_gaps_that_are_no_holes() -> None:
    stored = Stored()
    store = PartStore(stored.index)
    ranges = irregular(60)
    whole = Part(
        stored.segment(ranges, packed=40),
        *(ranges[0].upstream, ranges[0].downstream, ranges[-1].upstream_end, ranges[-1].downstream_end),
        ranges[0].hole,
    )
    store.append(whole)
    for upstream in range(ranges[-1].upstream_end):
        assert store.look_up(upstream, stored.loaded) == expected(ranges, upstream, store.through), upstream


def test_another_segment_than_that_of_the_part() -> None:
    """It has ranges where the part ends already."""
    stored = Stored()
    store = PartStore(stored.index)
    store.append(Part(stored.segment(clean(30), packed=20), 1, 0, 191, 50))
    assert store.look_up(95, stored.loaded) == Bounded(0, 50, 94)
    assert store.look_up(45, stored.loaded) == Found(44)
