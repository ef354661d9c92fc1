"""The world that translation is measured in: what its store and its map know, and what its groups do."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from mm2.core.names import TopicPartition
from mm2.core.offset_translation import NO_SYNC, TooOld, Translated
from tests.bench.screen import Screen
from tests.bench.translation import WORLD_END, World, measure, one_range, some_with_holes

PLAIN, HOLED = TopicPartition("topic-0", 1), TopicPartition("topic-0", 10)


def test_a_sync_store_holds_what_a_long_copy_leaves_in_it() -> None:
    store = World(1).syncs()
    assert len(store.syncs(PLAIN)) == 15
    assert store.translate(PLAIN, WORLD_END - 1) == Translated(offset=WORLD_END - 8, behind=0)
    assert store.translate(PLAIN, WORLD_END - 2**19 + 5) == Translated(offset=WORLD_END - 2**19 - 6, behind=4)
    assert isinstance(store.translate(PLAIN, 5), TooOld)


def test_the_exact_map_covers_the_second_half_with_and_without_holes() -> None:
    exact = World(1).exact(some_with_holes)
    assert exact.translate(PLAIN, 700_000, lambda *_: NO_SYNC) == Translated(offset=699_993, behind=0)
    # 200 ranges of 2,500 offsets, each but the first with a hole: 80 whole ones lie before offset 700,000
    assert exact.translate(HOLED, 700_001, lambda *_: NO_SYNC) == Translated(offset=699_993 - 79, behind=0)
    assert exact.translate(PLAIN, 400_000, lambda *_: NO_SYNC) is NO_SYNC
    assert World(1).exact(one_range).translate(HOLED, 700_001, lambda *_: NO_SYNC) == Translated(
        offset=699_994, behind=0
    )


def test_all_figures_are_measured() -> None:
    cost = measure(0.002, Screen(Console(file=StringIO())))
    assert cost.group_partitions == 200
    for seconds in (cost.moved_cpu, cost.unmoved_cpu, cost.compatible_cpu, cost.decoding_cpu, cost.encoding_cpu):
        assert seconds > 0
    for size in (cost.store_bytes, cost.map_bytes, cost.checkpoint_bytes):
        assert size > 100
    assert cost.full_map_bytes > 1_024 * 32
