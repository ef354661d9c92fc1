"""The query of each source task by this node's own settings, and the listed partitions that are not for it."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.config.settings import FlowSettings
from mm2.config.sql.topic_queries import TopicQuery
from mm2.core.assignment.query_source_tasks import query_index
from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.lanes.accumulated_progress import PartitionStates
from mm2.core.lanes.lease import LaneQuery
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPartitions:
    """The partitions of a list: the ``copied`` ones, and the others with their state, WAITING, and the reason."""

    copied: frozenset[TopicPartition]
    excluded: PartitionStates


class SourceTaskQueries:
    """Decides what a source task of this node copies.

    (A) A partition is copied only with the query that this node's settings have for its topic, or without a query if
        they have none, and only if the leader's query has the same name. A list can contain others: it is from before a
        reload, or from a leader with another file.

    Queries, and with queries tasks.max, restart the flow (`UpdateMode.FLOW`), so that they do not change meanwhile.
    """

    def __init__(self, settings: FlowSettings) -> None:
        self._settings = settings
        self._queries = settings.queries.in_order
        self._known: dict[int, tuple[SourceTaskRecord, ListedPartitions]] = {}

    def of(self, source_task: int) -> LaneQuery | None:
        """Return the query for all records of a source task; None: it copies them as they are, or copies nothing."""
        query = self._query(source_task)
        if query is None:
            return None
        return LaneQuery(name=query.name, action=query.action, hides_values=query.hides_values)

    def listed(self, record: SourceTaskRecord) -> ListedPartitions:
        """Return which partitions of a list are copied; the same object for the same list.

        Raises PluginError if a custom policy fails.
        """
        known = self._known.get(record.source_task)
        if known is None or known[0] is not record:
            known = self._known[record.source_task] = record, self._listed(record)
        return known[1]

    def _listed(self, record: SourceTaskRecord) -> ListedPartitions:
        if not self._queries and record.query is None:
            return ListedPartitions(copied=record.partitions, excluded={})
        reasons = {topic: self._reason(topic, record) for topic in {one.topic for one in record.partitions}}
        excluded = {
            partition: (TaskState.WAITING, reason)
            for partition in record.partitions
            if (reason := reasons[partition.topic]) is not None
        }
        return ListedPartitions(copied=record.partitions - excluded.keys(), excluded=excluded)

    def _reason(self, topic: str, record: SourceTaskRecord) -> str | None:
        """Return why the source task does not copy a topic; None if it does."""
        query = self._settings.query_of(topic)
        name = None if query is None else query.name
        if name == record.query and self._is_for(record.source_task, query):
            return None
        expected, listed = ("no query" if one is None else f"query {one}" for one in (name, record.query))
        differ = (
            f"the leader has {listed}" if name != record.query else f"source task {record.source_task} is for others"
        )
        return (
            f"topic {topic} has {expected} in this node's file, but {differ}; waiting for the leader to assign it again"
            " (if this lasts, the nodes' files differ)"
        )

    def _is_for(self, source_task: int, query: TopicQuery | None) -> bool:
        """Return whether the number of a source task stands for this query; None: for none."""
        index = None if query is None else self._queries.index(query)
        return query_index(source_task, self._settings.source.tasks_max) == index

    def _query(self, source_task: int) -> TopicQuery | None:
        index = query_index(source_task, self._settings.source.tasks_max)
        return None if index is None or index >= len(self._queries) else self._queries[index]
