"""The setup of the translation benchmark: its offset sync store, exact map and groups."""

from __future__ import annotations

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.offset_translation import NO_SYNC, Translated
from tests.bench.translation import World, one_range, some_with_holes

PLAIN, HOLED = TopicPartition("topic-0", 1), TopicPartition("topic-0", 10)


def test_the_exact_map_covers_the_second_half_with_and_without_holes() -> None:
    exact = World(1).exact(some_with_holes)
    assert exact.translate(PLAIN, 700_000, lambda *_: NO_SYNC) == Translated(offset=699_993, behind=0)
    # 200 ranges of 2,500 offsets, each but the first with a hole: 80 complete ones precede offset 700,000
    assert exact.translate(HOLED, 700_001, lambda *_: NO_SYNC) == Translated(offset=699_993 - 79, behind=0)
    assert exact.translate(PLAIN, 400_000, lambda *_: NO_SYNC) is NO_SYNC
    assert World(1).exact(one_range).translate(HOLED, 700_001, lambda *_: NO_SYNC) == Translated(
        offset=699_994, behind=0
    )
