"""Which query a source task has by the settings of this node, and which listed partitions it leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.settings import FlowSettings
from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.lanes.lease import LaneQuery
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.row_query import RowQuery
from mm2.node.source.source_task_leases import SourceTaskQueries
from tests.unit.config import files

MASK = "mm2.sql.mask.topics = orders\nmm2.sql.mask.query = SELECT upper(CAST(value AS STRING)) AS value FROM records\n"
NONE = "mm2.sql.none.topics = .*\nmm2.sql.none.query = SELECT * FROM records\n"
MAX = "tasks.max = 4\n"


def settings(directory: Path, lines: str = MASK + NONE) -> FlowSettings:
    return files.flow(directory, MAX + lines)


def a_list(source_task: int, *topics: str, query: str | None = None, version: int = 1) -> SourceTaskRecord:
    partitions = frozenset(TopicPartition(topic, number) for topic in topics for number in range(2))
    return SourceTaskRecord(source_task=source_task, epoch=1, version=version, partitions=partitions, query=query)


def copied(queries: SourceTaskQueries, record: SourceTaskRecord) -> set[str]:
    return {one.topic for one in queries.listed(record).copied}


def test_the_number_of_a_source_task_tells_its_query(tmp_path: Path) -> None:
    flow = settings(tmp_path)
    queries = SourceTaskQueries(flow)
    mask, none = flow.queries.in_order
    assert [queries.of(number) for number in (0, 3)] == [None, None]
    assert [queries.of(number) for number in (4, 7)] == [
        LaneQuery(name="mask", action=mask.action, hides_values=True)
    ] * 2
    assert queries.of(8) == LaneQuery(name="none", action=none.action)
    assert queries.of(12) is None


def test_a_query_that_changes_nothing_is_a_query(tmp_path: Path) -> None:
    query = SourceTaskQueries(settings(tmp_path)).of(8)
    assert query is not None
    assert isinstance(query.action, RowQuery)
    assert query.action.changes_nothing


@pytest.mark.parametrize(
    ("source_task", "query", "topics"),
    [
        (0, None, {"heartbeats"}),
        (4, "mask", {"orders"}),
        (8, "none", {"other"}),
        (12, "keys", set()),
        (4, None, set()),  # a list from before the query, or of a leader without it
        (8, "mask", set()),  # of a leader with another order of queries, or another tasks.max
        (0, "mask", set()),
    ],
)
def test_only_topics_of_the_query_are_copied(
    tmp_path: Path, source_task: int, query: str | None, topics: set[str]
) -> None:
    queries = SourceTaskQueries(settings(tmp_path))
    assert copied(queries, a_list(source_task, "orders", "other", "heartbeats", query=query)) == topics


WAITING = "; waiting for the leader to assign it again (if this lasts, the nodes' files differ)"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (a_list(0, "orders"), "topic orders has query mask in this node's file, but the leader has no query"),
        (
            a_list(4, "other", query="mask"),
            "topic other has no query in this node's file, but the leader has query mask",
        ),
        (
            a_list(8, "orders", query="mask"),
            "topic orders has query mask in this node's file, but source task 8 is for others",
        ),
    ],
)
def test_partitions_that_are_left_out_wait_with_a_reason(tmp_path: Path, record: SourceTaskRecord, reason: str) -> None:
    listed = SourceTaskQueries(settings(tmp_path, MASK)).listed(record)
    assert listed.excluded == dict.fromkeys(record.partitions, (TaskState.WAITING, reason + WAITING))
    assert listed.copied == frozenset()


def test_a_node_without_queries_copies_lists_without_a_query(tmp_path: Path) -> None:
    queries = SourceTaskQueries(settings(tmp_path, ""))
    record = a_list(9, "orders", "heartbeats")
    assert queries.listed(record).copied is record.partitions
    assert queries.of(9) is None
    assert copied(queries, a_list(4, "orders", query="mask")) == set(), "the leader's file has a query for it"


def test_an_unchanged_list_is_judged_once(tmp_path: Path) -> None:
    queries = SourceTaskQueries(settings(tmp_path))
    record = a_list(4, "orders", "other", query="mask")
    first = queries.listed(record)
    assert queries.listed(record) is first
    assert copied(queries, a_list(4, "other", query="mask", version=2)) == set()
    assert copied(queries, a_list(4, "orders", query="mask", version=3)) == {"orders"}
