"""Reports about the queries that this node's source tasks apply, through ``mm2-status.<source>.internal``
(`mm2.core.coordination.query_uses`)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from mm2.config.settings import FlowSettings
from mm2.core.coordination.query_history import QueryEntry, QueryText, QueryUse
from mm2.core.coordination.query_history_records import QueryHistories
from mm2.core.coordination.query_uses import USES_REPORTED, encode_query_uses
from mm2.core.lanes.lease import PartitionLease, SourceTaskLease
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.murmur2 import partition_of
from mm2.kafka.errors import ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import ControlProducer

log = logging.getLogger(__name__)

REPEAT_EVERY_S = 10.0
"""Interval after which a report is repeated while the histories lack it, because another node may have replaced its
record, or the leader does not know it."""


@dataclass(slots=True, kw_only=True)
class _Applied:
    """The query that a source task applies since its lease was granted, and where."""

    query: QueryText | None
    uses: dict[TopicPartition, QueryUse]
    unconfirmed: list[QueryUse] | None = None  # None: to be found
    reported: tuple[QueryUse, ...] = ()
    reported_at: float = float("-inf")


class QueryUseReporter:
    """Reports from which source offset each partition passes through which query, until the histories say so.

    Partitions that are copied as they are, and to which no query has applied before, have no history and are not
    reported. A query that applied before can reach the histories later, as its owner or the leader was delayed.

    (A) Copying does not wait until a report is stored, because a history that cannot be written must not stop a flow.
        The history stays right: an entry has the offset from which the lease was granted, however late it is written.
        It is lost only if the node is lost before it has written its first report, a few milliseconds after the lease
        was granted. If it has copied records by then, the history says that another query applied to them.
    (B) While this node is certainly the owner, it reports again if a history says anything else: a former owner that
        was stopped may report late. If the history has a later time, as the clocks of two nodes differ, so does the new
        report.
    """

    def __init__(
        self,
        settings: FlowSettings,
        producer: ControlProducer,
        partitions: int,
        histories: QueryHistories,
        may_send: Callable[[], bool],
        *,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """``partitions`` is the partition count of the status topic. ``may_send``: this node is certainly a member of
        the flow's group. ``clock_ms`` returns epoch milliseconds."""
        self._flow = settings.flow
        self._topic = settings.storage.statuses.name
        self._producer = producer
        self._partitions = partitions
        self._histories = histories
        self._may_send = may_send
        self._clock_ms = clock_ms
        self._applied: dict[int, _Applied] = {}
        self._revision = -1

    def granted(self, lease: SourceTaskLease) -> None:
        """Note what applies to the partitions of a lease, before it is handed to the lane.

        A partition that the source task has already been copying through the same query keeps its first offset.
        """
        query = QueryText.of(lease.query.action) if lease.query is not None else None
        before = self._applied.pop(lease.source_task, None)
        known: Mapping[TopicPartition, QueryUse] = before.uses if before is not None and before.query == query else {}
        uses = {}
        for one in lease.partitions:
            partition = TopicPartition(one.topic, one.partition)
            uses[partition] = _continued(known.get(partition), self._use(partition, one, query))
        if uses:
            self._applied[lease.source_task] = _Applied(query=query, uses=uses)

    def _use(self, partition: TopicPartition, lease: PartitionLease, query: QueryText | None) -> QueryUse:
        # without a stored offset, all records that are copied from now on pass through the query
        entry = QueryEntry(lease.start_offset or 0, query.sha256 if query is not None else None, self._clock_ms())
        return QueryUse(partition, entry, lease.topic_ids.source)

    def forget(self, source_task: int) -> None:
        """The source task was released: it applies nothing any more."""
        self._applied.pop(source_task, None)

    def report(self, now: float) -> None:
        """Report what the histories lack. ``now`` is in seconds of the event loop's clock."""
        changed = self._histories.revision != self._revision
        self._revision = self._histories.revision
        if not self._applied or not self._may_send():
            return
        for source_task, applied in self._applied.items():
            if changed or applied.unconfirmed is None:
                applied.unconfirmed = self._unconfirmed(applied.uses)
            due = tuple(applied.unconfirmed[:USES_REPORTED])
            if due and (due != applied.reported or now - applied.reported_at >= REPEAT_EVERY_S):
                applied.reported, applied.reported_at = due, now
                self._write(source_task, applied, due)

    def _unconfirmed(self, uses: dict[TopicPartition, QueryUse]) -> list[QueryUse]:
        found = []
        for partition, use in uses.items():
            history = self._histories.of(partition)
            if history.says(use):
                continue
            if history.last_at_ms >= use.entry.at_ms:
                use = replace(use, entry=replace(use.entry, at_ms=history.last_at_ms + 1))  # noqa: PLW2901
                uses[partition] = use  # of a present key
            found.append(use)
        return found

    def _write(self, source_task: int, applied: _Applied, uses: tuple[QueryUse, ...]) -> None:
        key, value = encode_query_uses(source_task, applied.query, uses)
        try:
            written = self._producer.send(self._topic, partition_of(key, self._partitions), key, value)
        except ClusterError as error:
            self._failed(source_task, applied, error)
        else:
            written.add_done_callback(partial(self._written, source_task, applied))

    def _written(self, source_task: int, applied: _Applied, done: asyncio.Future[int]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, ClusterError) and not isinstance(error, ClusterClosed):
            self._failed(source_task, applied, error)

    def _failed(self, source_task: int, applied: _Applied, error: ClusterError) -> None:
        """Retry by the next `report`."""
        applied.reported = ()
        log.warning(
            "%s: failed to report the queries of source task %d to the leader; retrying: %s",
            self._flow,
            source_task,
            error,
        )


def _continued(earlier: QueryUse | None, use: QueryUse) -> QueryUse:
    """Return what applies under a renewed lease: the use that has the first offset, of the same topic."""
    if earlier is None or earlier.entry.offset > use.entry.offset:
        return use
    if earlier.topic_id is None or use.topic_id is None:
        return replace(earlier, topic_id=earlier.topic_id or use.topic_id)
    return earlier if earlier.topic_id == use.topic_id else use
