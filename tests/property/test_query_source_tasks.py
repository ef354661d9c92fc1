"""Partitions of a flow with queries, spread over the source tasks of each query."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mm2.core.assignment.query_source_tasks import query_index, spread_by_query
from mm2.core.naming.names import TopicPartition

TOPICS = "abcdef"
PARTITIONS = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 5)), min_size=1, max_size=30
)
QUERIES = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 3))


@given(
    partitions=PARTITIONS,
    queries=QUERIES,
    tasks_max=st.integers(1, 4),
    previous=st.dictionaries(st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 5)), st.integers(0, 20)),
)
def test_each_partition_is_in_one_source_task_of_its_query(
    partitions: frozenset[TopicPartition],
    queries: dict[str, int],
    tasks_max: int,
    previous: dict[TopicPartition, int],
) -> None:
    found = spread_by_query(partitions, queries, tasks_max=tasks_max, previous=previous, weights={})
    assert Counter(one for some in found.values() for one in some) == Counter(partitions)
    for source_task, some in found.items():
        assert {queries.get(one.topic) for one in some} == {query_index(source_task, tasks_max)}
    by_query = Counter(queries.get(one.topic) for one in partitions)
    used = Counter(query_index(source_task, tasks_max) for source_task in found)
    assert used == {query: min(tasks_max, count) for query, count in by_query.items()}
    after = {one: source_task for source_task, some in found.items() for one in some}
    for _ in range(len(partitions)):  # calls with equal weights come to an end
        before, after = (
            after,
            {
                one: source_task
                for source_task, some in spread_by_query(
                    partitions, queries, tasks_max=tasks_max, previous=after, weights={}
                ).items()
                for one in some
            },
        )
        if after == before:
            return
    raise AssertionError("partitions do not settle")
