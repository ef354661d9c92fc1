"""Source tasks of queries: numbers, and partitions that stay with the source tasks of their query."""

from __future__ import annotations

import pytest

from mm2.core.assignment.partition_assignment import spread
from mm2.core.assignment.query_source_tasks import first_source_task, query_index, query_names, spread_by_query
from mm2.core.naming.names import TopicPartition


def some(topic: str, *numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for number in numbers)


@pytest.mark.parametrize(("query", "numbers"), [(None, range(4)), (0, range(4, 8)), (2, range(12, 16))])
def test_numbers(query: int | None, numbers: range) -> None:
    assert first_source_task(query, 4) == numbers[0]
    assert {query_index(number, 4) for number in numbers} == {query}


def test_without_queries_nothing_differs() -> None:
    partitions = some("t", *range(10))
    before = {one: one.partition % 2 for one in partitions}
    weights = {one: 1 + one.partition for one in partitions}
    expected = spread(partitions, tasks_max=3, previous=before, weights=weights)
    assert spread_by_query(partitions, {}, tasks_max=3, previous=before, weights=weights) == dict(enumerate(expected))


def test_each_query_has_at_most_tasks_max_source_tasks_of_its_own() -> None:
    partitions = some("plain", 0) + some("keys", 0, 1) + some("mask", 0, 1, 2, 3)
    found = spread_by_query(partitions, {"mask": 0, "keys": 2}, tasks_max=3, previous={}, weights={})
    assert found == {
        0: some("plain", 0),
        3: some("mask", 0, 3),
        4: some("mask", 1),
        5: some("mask", 2),
        9: some("keys", 0),
        10: some("keys", 1),
    }


def test_names() -> None:
    assert query_names([0, 3, 4, 7, 9], ["mask", "keys"], tasks_max=4) == {4: "mask", 7: "mask", 9: "keys"}


def test_no_partitions() -> None:
    assert spread_by_query((), {"t": 0}, tasks_max=3, previous={}, weights={}) == {}


def test_a_partition_stays_while_its_query_does() -> None:
    before = {TopicPartition("t", 0): 3, TopicPartition("t", 1): 2, TopicPartition("u", 0): 1}
    found = spread_by_query(before, {"t": 0}, tasks_max=2, previous=before, weights={})
    assert found == {0: some("u", 0), 2: some("t", 1), 3: some("t", 0)}


@pytest.mark.parametrize(
    ("queries", "found"),
    [
        ({}, {0: some("t", 0), 1: some("t", 1)}),
        ({"t": 1}, {4: some("t", 0), 5: some("t", 1)}),
    ],
)
def test_another_query_has_other_source_tasks(
    queries: dict[str, int], found: dict[int, tuple[TopicPartition, ...]]
) -> None:
    before = {TopicPartition("t", 0): 3, TopicPartition("t", 1): 2}
    assert spread_by_query(before, queries, tasks_max=2, previous=before, weights={}) == found


def test_no_source_tasks_at_all() -> None:
    with pytest.raises(ValueError, match=r"tasks.max is 0"):
        spread_by_query(some("t", 0), {}, tasks_max=0, previous={}, weights={})
