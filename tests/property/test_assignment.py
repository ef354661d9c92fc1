"""Invariants of `spread` by letter, for any partitions, weights and earlier assignments."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from mm2.core.assignment import GAP_TOLERATED, MOVES_SHARE, WEIGHT, spread
from mm2.core.names import TopicPartition

Slots = tuple[tuple[TopicPartition, ...], ...]

PARTITIONS = st.sets(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 30)), min_size=1, max_size=60)
TASKS_MAX = st.integers(1, 12)


def slot_of(slots: Slots) -> dict[TopicPartition, int]:
    return {partition: number for number, slot in enumerate(slots) for partition in slot}


def weights_for(data: st.DataObject, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
    weight = st.one_of(st.integers(1, 200), st.integers(1, 20_000))
    return data.draw(st.dictionaries(st.sampled_from(sorted(partitions)), weight))


def previous_for(data: st.DataObject, partitions: set[TopicPartition], slots: int) -> dict[TopicPartition, int]:
    return data.draw(st.dictionaries(st.sampled_from(sorted(partitions)), st.integers(0, slots)))


def keeps_promise_c(slots: Slots, weights: dict[TopicPartition, int], tolerated_share: float) -> bool:
    totals = [sum(weights.get(partition, WEIGHT) for partition in slot) for slot in slots]
    tolerated = tolerated_share * sum(totals) / len(totals)
    return all(
        total - min(totals) <= max(tolerated, min(weights.get(partition, WEIGHT) for partition in slot))
        for slot, total in zip(slots, totals, strict=True)
    )


@given(data=st.data(), partitions=PARTITIONS, tasks_max=TASKS_MAX)
def test_a_every_partition_once_and_no_slot_empty(
    data: st.DataObject, partitions: set[TopicPartition], tasks_max: int
) -> None:
    previous = previous_for(data, partitions, tasks_max + 2)
    slots = spread(partitions, tasks_max=tasks_max, previous=previous, weights=weights_for(data, partitions))
    assert len(slots) == min(tasks_max, len(partitions))
    assert all(slots)
    assert sorted(partition for slot in slots for partition in slot) == sorted(partitions)


@given(data=st.data(), partitions=PARTITIONS, tasks_max=TASKS_MAX)
def test_b_no_more_moves_than_promised(data: st.DataObject, partitions: set[TopicPartition], tasks_max: int) -> None:
    previous = previous_for(data, partitions, tasks_max)
    slots = spread(partitions, tasks_max=tasks_max, previous=previous, weights=weights_for(data, partitions))
    now = slot_of(slots)
    went_on = {number for number in previous.values() if number < len(slots)}
    moved = {partition for partition in partitions if previous.get(partition, -1) in went_on - {now[partition]}}
    fillers = {partition for partition in moved if now[partition] not in went_on}
    if went_on == set(range(len(slots))):
        assert not fillers
    assert len(moved - fillers) <= max(1, int(MOVES_SHARE * len(partitions)))


@given(data=st.data(), partitions=PARTITIONS, tasks_max=TASKS_MAX)
def test_c_balanced_at_once_from_nothing(data: st.DataObject, partitions: set[TopicPartition], tasks_max: int) -> None:
    weights = weights_for(data, partitions)
    slots = spread(partitions, tasks_max=tasks_max, weights=weights)
    assert keeps_promise_c(slots, weights, tolerated_share=0)


@given(data=st.data(), partitions=PARTITIONS, tasks_max=TASKS_MAX)
def test_c_comes_to_rest_balanced_from_anywhere(
    data: st.DataObject, partitions: set[TopicPartition], tasks_max: int
) -> None:
    weights = weights_for(data, partitions)
    slots = spread(partitions, tasks_max=tasks_max, previous=previous_for(data, partitions, tasks_max), weights=weights)
    for _ in range(20 * len(partitions)):
        again = spread(partitions, tasks_max=tasks_max, previous=slot_of(slots), weights=weights)
        if again == slots:
            break
        slots = again
    else:
        raise AssertionError("it keeps moving")
    assert keeps_promise_c(slots, weights, GAP_TOLERATED)


@given(partitions=PARTITIONS, tasks_max=TASKS_MAX, added=st.builds(TopicPartition, st.just("new"), st.integers(0, 3)))
def test_one_more_partition_of_equal_weight_moves_none(
    partitions: set[TopicPartition], tasks_max: int, added: TopicPartition
) -> None:
    before = spread(partitions, tasks_max=tasks_max)
    after = slot_of(spread({*partitions, added}, tasks_max=tasks_max, previous=slot_of(before)))
    assert all(after[partition] == number for partition, number in slot_of(before).items())
    sizes = [list(after.values()).count(number) for number in set(after.values())]
    assert max(sizes) - min(sizes) <= 1


@given(data=st.data(), partitions=PARTITIONS, tasks_max=TASKS_MAX, seed=st.integers())
def test_the_order_of_what_comes_in_does_not_matter(
    data: st.DataObject, partitions: set[TopicPartition], tasks_max: int, seed: int
) -> None:
    previous, weights = previous_for(data, partitions, tasks_max), weights_for(data, partitions)
    shuffled = random.Random(seed).sample(sorted(partitions), len(partitions))
    assert spread(shuffled, tasks_max=tasks_max, previous=previous, weights=weights) == spread(
        sorted(partitions), tasks_max=tasks_max, previous=previous, weights=weights
    )
