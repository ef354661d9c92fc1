"""Letters refer to the invariants of `spread`."""

from __future__ import annotations

import pytest

from mm2.core.assignment.partition_assignment import MOVES_SHARE, WEIGHT, spread
from mm2.core.naming.names import TopicPartition
from tests.lab.work import count_calls

SourceTasks = tuple[tuple[TopicPartition, ...], ...]


def partitions(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in range(count)]


def previous(source_tasks: SourceTasks) -> dict[TopicPartition, int]:
    return {partition: number for number, source_task in enumerate(source_tasks) for partition in source_task}


def moved(before: SourceTasks, after: SourceTasks) -> set[TopicPartition]:
    then, now = previous(before), previous(after)
    return {partition for partition in then.keys() & now.keys() if then[partition] != now[partition]}


def test_first_assignment_is_javas_round_robin() -> None:
    source_tasks = spread([*partitions("t0", 8), *partitions("t1", 2), *partitions("t2", 2)], tasks_max=3)
    assert [",".join(map(str, source_task)) for source_task in source_tasks] == [
        "t0-0,t0-3,t0-6,t1-1",
        "t0-1,t0-4,t0-7,t2-0",
        "t0-2,t0-5,t1-0,t2-1",
    ]


def test_at_most_as_many_source_tasks_as_partitions() -> None:
    assert spread(partitions("t", 2), tasks_max=10) == ((TopicPartition("t", 0),), (TopicPartition("t", 1),))
    assert spread([], tasks_max=10) == ()


def test_zero_tasks_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"tasks\.max is 0"):
        spread(partitions("t", 2), tasks_max=0)


def test_new_topic_moves_no_other_partitions() -> None:
    before = spread(partitions("t", 10), tasks_max=4)
    after = spread([*partitions("t", 10), *partitions("u", 5)], tasks_max=4, previous=previous(before))
    assert moved(before, after) == set()
    assert sorted(map(len, after)) == [3, 4, 4, 4]


def test_added_source_tasks_take_load_above_the_mean() -> None:
    before = spread(partitions("t", 12), tasks_max=2)
    after = spread(partitions("t", 12), tasks_max=4, previous=previous(before))
    assert list(map(len, after)) == [3, 3, 3, 3]
    assert len(moved(before, after)) == 6


def test_added_source_task_gets_a_partition_even_without_load_above_the_mean() -> None:
    p0, p1, p2, p3 = partitions("t", 4)
    source_tasks = spread([p0, p1, p2, p3], tasks_max=3, previous={p0: 0, p1: 0, p2: 1, p3: 1})
    assert sorted(map(len, source_tasks)) == [1, 1, 2]  # A


def test_only_partitions_of_removed_source_tasks_move() -> None:
    before = spread(partitions("t", 12), tasks_max=4)
    after = spread(partitions("t", 12), tasks_max=3, previous=previous(before))
    assert moved(before, after) == set(before[3])
    assert list(map(len, after)) == [4, 4, 4]


def test_overloaded_source_task_is_relieved_gradually() -> None:
    everything = partitions("t", 100)
    crowd = tuple(everything[:60] if number == 0 else everything[50 + 10 * number :][:10] for number in range(5))
    first = tuple(map(tuple, crowd))
    second = spread(everything, tasks_max=5, previous=previous(first))
    assert len(moved(first, second)) == 10  # B: a tenth at a time
    third = spread(everything, tasks_max=5, previous=previous(second))
    assert len(moved(second, third)) == 10


def test_small_imbalance_moves_nothing() -> None:
    everything = partitions("t", 100)
    uneven = (tuple(everything[:54]), tuple(everything[54:]))
    assert spread(everything, tasks_max=2, previous=previous(uneven)) == uneven  # C: 8 is within a fifth of 50


def test_heavy_partition_stays_and_the_others_move() -> None:
    giant, *rest = everything = partitions("t", 21)
    weights = {giant: 20 * WEIGHT}
    source_tasks = spread(everything, tasks_max=3, weights=weights)
    assert list(map(len, source_tasks)) == [1, 10, 10]
    crowded: SourceTasks = ((giant,), tuple(rest[:14]), tuple(rest[14:]))
    after = spread(everything, tasks_max=3, weights=weights, previous=previous(crowded))
    assert after[0] == (giant,)
    assert len(moved(crowded, after)) == 2


def test_weights_below_one_are_treated_as_one() -> None:
    everything = partitions("t", 4)
    assert list(map(len, spread(everything, tasks_max=2, weights=dict.fromkeys(everything, 0)))) == [2, 2]


def calls_of(count: int, *, crowded: bool) -> int:
    """Return the number of function calls needed to rebalance ``count`` partitions over 8 source tasks."""
    everything = partitions("t", count)
    before = {partition: 0 if crowded else number % 8 for number, partition in enumerate(everything)}
    weights = {partition: 50 + 97 * number % 1_000 for number, partition in enumerate(everything)}
    return count_calls(lambda: spread(everything, tasks_max=8, previous=before, weights=weights))


@pytest.mark.parametrize("crowded", [True, False])
def test_work_grows_linearly_with_the_number_of_partitions(*, crowded: bool) -> None:
    assert calls_of(10_000, crowded=crowded) < 15 * calls_of(1_000, crowded=crowded)
    assert calls_of(10_000, crowded=crowded) < 25 * 10_000


def test_only_necessary_moves_with_many_partitions() -> None:
    everything = partitions("t", 10_000)
    before = spread(everything, tasks_max=8)
    heavier = dict.fromkeys(before[0], 3 * WEIGHT)
    after = spread(everything, tasks_max=8, previous=previous(before), weights=heavier)
    assert moved(before, after) <= set(before[0])
    assert len(moved(before, after)) <= MOVES_SHARE * 10_000
    assert moved(before, spread([*everything, *partitions("u", 100)], tasks_max=8, previous=previous(before))) == set()


def test_heavy_partition_moves_if_that_reduces_the_imbalance() -> None:
    p0, p1, p2 = everything = partitions("t", 3)
    source_tasks = spread(everything, tasks_max=2, previous={p0: 0, p1: 0, p2: 1}, weights={p0: 300, p1: 310, p2: 250})
    assert source_tasks == ((p1,), (p0, p2))
