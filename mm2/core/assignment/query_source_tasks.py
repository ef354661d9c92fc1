"""Numbers of source tasks in a flow with queries: each query has source tasks of its own.

With tasks.max = N, the numbers 0 to N-1 are the source tasks of topics without a query, as in Java. The query with
index k, in the order of the file, has the numbers from N*(k+1) to N*(k+2)-1. At most min(N, partitions) of each range
are used, from the first on, so the numbers of a flow can have gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mm2.core.assignment.partition_assignment import spread
from mm2.core.naming.names import TopicPartition


def first_source_task(query: int | None, tasks_max: int) -> int:
    """Return the first source task of the query with this index; None: of the topics without a query."""
    return 0 if query is None else tasks_max * (query + 1)


def query_index(source_task: int, tasks_max: int) -> int | None:
    """Return the index of the query that a source task's number stands for; None: it copies records as they are.

    The flow need not have so many queries: the number can be from a time when it had.
    """
    group = source_task // tasks_max
    return group - 1 if group else None


def query_names(source_tasks: Iterable[int], names: Sequence[str], *, tasks_max: int) -> dict[int, str]:
    """Return the name of the query of each of these source tasks that has one; ``names`` of queries in their order."""
    indexes = {source_task: query_index(source_task, tasks_max) for source_task in source_tasks}
    return {source_task: names[index] for source_task, index in indexes.items() if index is not None}


def spread_by_query(
    partitions: Iterable[TopicPartition],
    queries: Mapping[str, int],
    *,
    tasks_max: int,
    previous: Mapping[TopicPartition, int],
    weights: Mapping[TopicPartition, int],
) -> dict[int, tuple[TopicPartition, ...]]:
    """Spread partitions over the source tasks of their queries, as `spread` does for each query by itself.

    ``queries``: the index of the query by topic; other topics have none. ``previous`` maps a partition to its current
    source task, which is ignored if it is one of another query. Returns the sorted partitions of each source task that
    has any. Raises ValueError for a ``tasks_max`` below 1.
    """
    groups: dict[int | None, list[TopicPartition]] = {}
    for partition in partitions:
        groups.setdefault(queries.get(partition.topic), []).append(partition)
    found: dict[int, tuple[TopicPartition, ...]] = {}
    for query, some in groups.items():
        first = first_source_task(query, tasks_max)
        before = {one: previous[one] - first for one in some if one in previous}  # out of range: of another query
        lists = spread(some, tasks_max=tasks_max, previous=before, weights=weights)
        found |= {first + number: one for number, one in enumerate(lists)}
    return dict(sorted(found.items()))
