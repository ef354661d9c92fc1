"""Ranges in memory: as many of them as before give the same answers, whether they are packed or not."""

from __future__ import annotations

import random

from mm2.core.offsets.copied_ranges import CopiedRange
from mm2.core.offsets.exact_offsets import Bounded, Found, MapLookup, RangeStore
from mm2.core.offsets.packed_ranges import PackedRanges

PLENTY = 10_000


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


def stored(ranges: list[CopiedRange], window: int = PLENTY) -> RangeStore:
    store = RangeStore(window)
    for one in ranges:
        store.append(one)
    return store


def expected(ranges: list[CopiedRange], upstream: int, through: int) -> MapLookup:
    """The answer by a search of all ranges."""
    earlier = [one for one in ranges if one.upstream <= upstream]
    later = [one for one in ranges if one.upstream > upstream]
    end = earlier[-1] if earlier else None
    if end is not None and upstream < end.upstream_end:
        return Found(end.downstream + upstream - end.upstream)
    if later and upstream >= later[0].upstream - later[0].hole:
        return Found(later[0].downstream)
    if end is not None and not later and upstream <= through:
        return Found(end.downstream_end)
    most = later[0].downstream if later else None
    return Bounded(None, most) if end is None else Bounded(end.downstream_end, most, upstream - end.upstream_end)


def check(store: RangeStore, ranges: list[CopiedRange]) -> None:
    for upstream in range(ranges[-1].upstream_end + 3):
        assert store.look_up(upstream) == expected(ranges, upstream, store.through), upstream


def test_many_ranges() -> None:
    ranges = irregular(1_000, upstream=7)
    check(stored(ranges), ranges)


def test_packs_of_segments() -> None:
    ranges = irregular(300)
    store = stored(ranges[:3])
    store.append_packed(PackedRanges.of(ranges[3:100]))
    store.append_packed(PackedRanges.of(ranges[100:200]))
    for one in ranges[200:]:
        store.append(one)
    store.through += 2
    check(store, ranges)
    only_packs = RangeStore(PLENTY)
    only_packs.append_packed(PackedRanges.of(ranges))
    check(only_packs, ranges)


def test_growing_range() -> None:
    store = stored([CopiedRange(0, 5, 3), CopiedRange(3, 8, 4)])
    check(store, [CopiedRange(0, 5, 7)])


def test_cut() -> None:
    ranges = irregular(90)
    end = ranges[-1].upstream_end
    for upstream in (*range(1, end, 5), end - 1, end, end + 1):
        store = stored(ranges)
        store.cut(upstream)
        kept = [one for one in ranges if one.upstream < upstream]
        if not kept:
            assert store.look_up(0) == Bounded()
            continue
        kept[-1] = kept[-1]._replace(records=min(kept[-1].records, upstream - kept[-1].upstream))
        assert store.through == min(upstream, end)
        check(store, kept)


def test_replaced_by_a_repetition() -> None:
    """The repetition is short or long, and so is what it leaves of the older ranges."""
    older = irregular(200)
    downstream = older[-1].downstream_end
    for kept in (0, 20, 100, 190):
        for count in (5, 200):
            again = irregular(count, upstream=older[kept].upstream, downstream=downstream, seed=2)
            store = stored(older)
            store.replace_from(stored(again))
            left = [one for one in older if one.upstream < again[0].upstream]
            if left and left[-1].upstream_end > again[0].upstream:
                left[-1] = left[-1]._replace(records=again[0].upstream - left[-1].upstream)
            check(store, left + again)
    store = stored(older)
    store.replace_from(RangeStore(PLENTY))
    check(store, older)


def test_memory_is_limited() -> None:
    """The last ranges stay; with many alike, all of them fit."""
    window = 128
    ranges = irregular(6_000)
    store = stored(ranges, window)
    kept = [store.look_up(one.upstream) == Found(one.downstream) for one in ranges]
    assert all(kept[-400:])
    assert not any(kept[:1_000])
    first = store.look_up(0)
    assert isinstance(first, Bounded)
    assert first.least is None
    alike = [CopiedRange(101 * number, 102 * number, 100, 1) for number in range(6_000)]
    assert stored(alike, window).look_up(50) == Found(50)
