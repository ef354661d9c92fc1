"""Letters are the invariants of `spread`."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from mm2.core.assignment import MOVES_SHARE, WEIGHT, spread
from mm2.core.names import TopicPartition

Slots = tuple[tuple[TopicPartition, ...], ...]


def partitions(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in range(count)]


def previous(slots: Slots) -> dict[TopicPartition, int]:
    return {partition: number for number, slot in enumerate(slots) for partition in slot}


def moved(before: Slots, after: Slots) -> set[TopicPartition]:
    then, now = previous(before), previous(after)
    return {partition for partition in then.keys() & now.keys() if then[partition] != now[partition]}


def test_from_nothing_as_java_deals_out() -> None:
    slots = spread([*partitions("t0", 8), *partitions("t1", 2), *partitions("t2", 2)], tasks_max=3)
    assert [",".join(map(str, slot)) for slot in slots] == [
        "t0-0,t0-3,t0-6,t1-1",
        "t0-1,t0-4,t0-7,t2-0",
        "t0-2,t0-5,t1-0,t2-1",
    ]


def test_never_more_slots_than_partitions() -> None:
    assert spread(partitions("t", 2), tasks_max=10) == ((TopicPartition("t", 0),), (TopicPartition("t", 1),))
    assert spread([], tasks_max=10) == ()


def test_without_a_task_there_is_nothing_to_spread_over() -> None:
    with pytest.raises(ValueError, match=r"tasks\.max is 0"):
        spread(partitions("t", 2), tasks_max=0)


def test_a_new_topic_moves_none_of_the_old_partitions() -> None:
    before = spread(partitions("t", 10), tasks_max=4)
    after = spread([*partitions("t", 10), *partitions("u", 5)], tasks_max=4, previous=previous(before))
    assert moved(before, after) == set()
    assert sorted(map(len, after)) == [3, 4, 4, 4]


def test_new_slots_are_filled_with_what_the_others_carry_beyond_the_mean() -> None:
    before = spread(partitions("t", 12), tasks_max=2)
    after = spread(partitions("t", 12), tasks_max=4, previous=previous(before))
    assert list(map(len, after)) == [3, 3, 3, 3]
    assert len(moved(before, after)) == 6


def test_a_new_slot_gets_a_partition_even_where_none_is_beyond_the_mean() -> None:
    p0, p1, p2, p3 = partitions("t", 4)
    slots = spread([p0, p1, p2, p3], tasks_max=3, previous={p0: 0, p1: 0, p2: 1, p3: 1})
    assert sorted(map(len, slots)) == [1, 1, 2]  # A


def test_fewer_slots_hand_over_what_the_gone_ones_had() -> None:
    before = spread(partitions("t", 12), tasks_max=4)
    after = spread(partitions("t", 12), tasks_max=3, previous=previous(before))
    assert moved(before, after) == set(before[3])
    assert list(map(len, after)) == [4, 4, 4]


def test_a_crowd_moves_apart_bit_by_bit() -> None:
    everything = partitions("t", 100)
    crowd = tuple(everything[:60] if number == 0 else everything[50 + 10 * number :][:10] for number in range(5))
    first = tuple(map(tuple, crowd))
    second = spread(everything, tasks_max=5, previous=previous(first))
    assert len(moved(first, second)) == 10  # B: a tenth at a time
    third = spread(everything, tasks_max=5, previous=previous(second))
    assert len(moved(second, third)) == 10


def test_a_small_gap_is_not_worth_a_move() -> None:
    everything = partitions("t", 100)
    uneven = (tuple(everything[:54]), tuple(everything[54:]))
    assert spread(everything, tasks_max=2, previous=previous(uneven)) == uneven  # C: 8 is within a fifth of 50


def test_a_heavy_partition_is_left_alone_and_the_rest_moves_away_from_it() -> None:
    giant, *rest = everything = partitions("t", 21)
    weights = {giant: 20 * WEIGHT}
    slots = spread(everything, tasks_max=3, weights=weights)
    assert list(map(len, slots)) == [1, 10, 10]
    crowded: Slots = ((giant,), tuple(rest[:14]), tuple(rest[14:]))
    after = spread(everything, tasks_max=3, weights=weights, previous=previous(crowded))
    assert after[0] == (giant,)
    assert len(moved(crowded, after)) == 2


def test_weights_below_one_count_as_one() -> None:
    everything = partitions("t", 4)
    assert list(map(len, spread(everything, tasks_max=2, weights=dict.fromkeys(everything, 0)))) == [2, 2]


def calls_of(count: int, *, crowded: bool) -> int:
    """How many Python functions are called to spread ``count`` partitions anew over 8 slots: work, without a clock."""
    everything = partitions("t", count)
    before = {partition: 0 if crowded else number % 8 for number, partition in enumerate(everything)}
    weights = {partition: 50 + 97 * number % 1_000 for number, partition in enumerate(everything)}
    calls = 0

    def count_calls(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count_calls)
    try:
        spread(everything, tasks_max=8, previous=before, weights=weights)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("crowded", [True, False])
def test_work_grows_with_the_partitions_and_no_faster(*, crowded: bool) -> None:
    assert calls_of(10_000, crowded=crowded) < 15 * calls_of(1_000, crowded=crowded)
    assert calls_of(10_000, crowded=crowded) < 20 * 10_000


def test_of_many_partitions_only_those_move_that_must() -> None:
    everything = partitions("t", 10_000)
    before = spread(everything, tasks_max=8)
    heavier = dict.fromkeys(before[0], 3 * WEIGHT)
    after = spread(everything, tasks_max=8, previous=previous(before), weights=heavier)
    assert moved(before, after) <= set(before[0])
    assert len(moved(before, after)) <= MOVES_SHARE * 10_000
    assert moved(before, spread([*everything, *partitions("u", 100)], tasks_max=8, previous=previous(before))) == set()


def test_a_partition_heavier_than_half_the_gap_moves_where_that_narrows_it() -> None:
    p0, p1, p2 = everything = partitions("t", 3)
    slots = spread(everything, tasks_max=2, previous={p0: 0, p1: 0, p2: 1}, weights={p0: 300, p1: 310, p2: 250})
    assert slots == ((p1,), (p0, p2))
