"""Invariants of `spread` by letter, for any partitions, weights and earlier assignments."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from mm2.core.assignment.partition_assignment import GAP_TOLERATED, MOVES_SHARE, WEIGHT, spread
from mm2.core.naming.names import TopicPartition

SourceTasks = tuple[tuple[TopicPartition, ...], ...]

PARTITIONS = st.sets(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 30)), min_size=1, max_size=60)
TASKS_MAX = st.integers(1, 12)


def source_task_of(source_tasks: SourceTasks) -> dict[TopicPartition, int]:
    return {partition: number for number, source_task in enumerate(source_tasks) for partition in source_task}


def any_weights(data: st.DataObject, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
    weight = st.one_of(st.integers(1, 200), st.integers(1, 20_000))
    return data.draw(st.dictionaries(st.sampled_from(sorted(partitions)), weight))


def any_previous(data: st.DataObject, partitions: set[TopicPartition], source_tasks: int) -> dict[TopicPartition, int]:
    return data.draw(st.dictionaries(st.sampled_from(sorted(partitions)), st.integers(0, source_tasks)))


def satisfies_c(source_tasks: SourceTasks, weights: dict[TopicPartition, int], tolerated_share: float) -> bool:
    totals = [sum(weights.get(partition, WEIGHT) for partition in source_task) for source_task in source_tasks]
    tolerated = tolerated_share * sum(totals) / len(totals)
    return all(
        total - min(totals) <= max(tolerated, min(weights.get(partition, WEIGHT) for partition in source_task))
        for source_task, total in zip(source_tasks, totals, strict=True)
    )


@given(data=st.data(), partitions=PARTITIONS, tasks_max=TASKS_MAX)
def test_a_every_partition_once_and_no_empty_source_task(
    data: st.DataObject, partitions: set[TopicPartition], tasks_max: int
) -> None:
    previous = any_previous(data, partitions, tasks_max + 2)
    source_tasks = spread(partitions, tasks_max=tasks_max, previous=previous, weights=any_weights(data, partitions))
    assert len(source_tasks) == min(tasks_max, len(partitions))
    assert all(source_tasks)
    assert sorted(partition for source_task in source_tasks for partition in source_task) == sorted(partitions)


@given(data=st.data(), partitions=PARTITIONS, tasks_max=TASKS_MAX)
def test_b_moves_are_limited(data: st.DataObject, partitions: set[TopicPartition], tasks_max: int) -> None:
    previous = any_previous(data, partitions, tasks_max)
    source_tasks = spread(partitions, tasks_max=tasks_max, previous=previous, weights=any_weights(data, partitions))
    now = source_task_of(source_tasks)
    kept = {number for number in previous.values() if number < len(source_tasks)}
    moved = {partition for partition in partitions if previous.get(partition, -1) in kept - {now[partition]}}
    fillers = {partition for partition in moved if now[partition] not in kept}
    if kept == set(range(len(source_tasks))):
        assert not fillers
    assert len(moved - fillers) <= max(1, int(MOVES_SHARE * len(partitions)))


@given(data=st.data(), partitions=PARTITIONS, tasks_max=TASKS_MAX)
def test_c_first_assignment_is_balanced(data: st.DataObject, partitions: set[TopicPartition], tasks_max: int) -> None:
    weights = any_weights(data, partitions)
    source_tasks = spread(partitions, tasks_max=tasks_max, weights=weights)
    assert satisfies_c(source_tasks, weights, tolerated_share=0)


@given(data=st.data(), partitions=PARTITIONS, tasks_max=TASKS_MAX)
def test_c_any_assignment_settles_in_balance(
    data: st.DataObject, partitions: set[TopicPartition], tasks_max: int
) -> None:
    weights = any_weights(data, partitions)
    source_tasks = spread(
        partitions, tasks_max=tasks_max, previous=any_previous(data, partitions, tasks_max), weights=weights
    )
    for _ in range(20 * len(partitions)):
        again = spread(partitions, tasks_max=tasks_max, previous=source_task_of(source_tasks), weights=weights)
        if again == source_tasks:
            break
        source_tasks = again
    else:
        raise AssertionError("assignments do not settle")
    assert satisfies_c(source_tasks, weights, GAP_TOLERATED)


@given(partitions=PARTITIONS, tasks_max=TASKS_MAX, added=st.builds(TopicPartition, st.just("new"), st.integers(0, 3)))
def test_added_partition_of_equal_weight_moves_no_other(
    partitions: set[TopicPartition], tasks_max: int, added: TopicPartition
) -> None:
    before = spread(partitions, tasks_max=tasks_max)
    after = source_task_of(spread({*partitions, added}, tasks_max=tasks_max, previous=source_task_of(before)))
    assert all(after[partition] == number for partition, number in source_task_of(before).items())
    sizes = [list(after.values()).count(number) for number in set(after.values())]
    assert max(sizes) - min(sizes) <= 1


@given(data=st.data(), partitions=PARTITIONS, tasks_max=TASKS_MAX, seed=st.integers())
def test_order_of_partitions_does_not_matter(
    data: st.DataObject, partitions: set[TopicPartition], tasks_max: int, seed: int
) -> None:
    previous, weights = any_previous(data, partitions, tasks_max), any_weights(data, partitions)
    shuffled = random.Random(seed).sample(sorted(partitions), len(partitions))
    assert spread(shuffled, tasks_max=tasks_max, previous=previous, weights=weights) == spread(
        sorted(partitions), tasks_max=tasks_max, previous=previous, weights=weights
    )
