"""Decides when offset syncs are due and which are sent: the rule and queue of Java's OffsetSyncWriter, for runs.

Java checks every acknowledged record. Here whole batches are acknowledged, and in a run of contiguous offsets the due
syncs are equally spaced, so a run of any length costs no more than the few syncs it sends.
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import OffsetSync

IN_FLIGHT_MAX = 10  # Java's bound on unacknowledged offset syncs of one task


@dataclass(frozen=True, slots=True, kw_only=True)
class AckedRun:
    """``count`` acknowledged records (at least 1): contiguous source offsets from ``upstream`` on became target offsets
    from ``downstream`` on."""

    upstream: int
    downstream: int
    count: int


class DueSyncs:
    """Decides which records of one source partition get an offset sync.

    A record is due when it is the first since the task started, follows a gap or a step back upstream, steps back
    downstream (the remote topic was truncated or recreated), or is ``lag_max`` or more after the offset that the last
    due sync translates to, which is one after the sync.
    """

    __slots__ = ("_downstream", "_lag_max", "_last_due", "_upstream")

    def __init__(self, *, lag_max: int) -> None:
        self._lag_max = lag_max
        self._upstream = -1  # offsets of the last acknowledged record
        self._downstream = -1
        self._last_due: int | None = None  # downstream offset of the last due sync

    def acked(self, run: AckedRun) -> range:
        """Return the due downstream offsets of ``run`` in ascending order; upstream offsets have the same distances."""
        end = run.downstream + run.count
        if self._last_due is None or run.upstream != self._upstream + 1 or run.downstream < self._downstream:
            first = run.downstream
        else:
            first = max(run.downstream, self._last_due + 1 + self._lag_max)
        due = range(first, end, max(1, self._lag_max + 1))
        if due:
            self._last_due = due[-1]
        self._upstream = run.upstream + run.count - 1
        self._downstream = end - 1
        return due


class OffsetSyncEmission:
    """The offset syncs of one task: those to send now, those pending, and those delayed until the next commit.

    The caller sends what `acked`, `completed` and `commit` return, in that order, and reports every completed send,
    successful or not, through `completed`: a lost sync is not sent again, because the partition's next one replaces it.

    Invariants:
    A. At most ``in_flight_max`` syncs are in flight; a sync is pending only while that many are.
    B. A partition has at most one pending sync, its latest due one; it keeps its place in the queue when replaced.
    C. A partition has a delayed sync only while its last acknowledged record was not due: that record's. It is sent
       after the next `commit`, so an idle partition is exact one offset.flush.interval.ms later.

    Unlike Java, which checks its queue when the next record arrives, a pending sync is sent as soon as there is room.
    """

    def __init__(self, *, lag_max: int, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        """``lag_max`` is offset.lag.max in records; with 0 every record is due."""
        self._lag_max = lag_max
        self._in_flight_max = in_flight_max
        self._in_flight = 0
        self._due: dict[TopicPartition, DueSyncs] = {}
        self._pending: dict[TopicPartition, OffsetSync] = {}
        self._delayed: dict[TopicPartition, OffsetSync] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight or pending; if so after a `commit`, the task can end."""
        return not (self._in_flight or self._pending)

    def acked(self, topic_partition: TopicPartition, run: AckedRun) -> list[OffsetSync]:
        """Record that the target acknowledged ``run`` of source partition ``topic_partition``.

        Returns the syncs to send now.
        """
        due = self._due.setdefault(topic_partition, DueSyncs(lag_max=self._lag_max)).acked(run)

        def sync(downstream: int) -> OffsetSync:
            upstream = run.upstream + downstream - run.downstream
            return OffsetSync(topic_partition=topic_partition, upstream_offset=upstream, downstream_offset=downstream)

        room = self._in_flight_max - self._in_flight
        send = [sync(downstream) for downstream in due[:room]]
        self._in_flight += len(send)
        if len(due) > room:
            self._pending[topic_partition] = sync(due[-1])
        if due:
            self._delayed.pop(topic_partition, None)
        last = run.downstream + run.count - 1
        if not due or due[-1] != last:
            self._delayed[topic_partition] = sync(last)
        return send

    def completed(self, count: int = 1) -> list[OffsetSync]:
        """Record that ``count`` sends completed, successfully or not. Returns the syncs to send in their place."""
        self._in_flight -= count
        return self._take_pending()

    def commit(self) -> list[OffsetSync]:
        """Record that source offsets were committed (every offset.flush.interval.ms). Returns the syncs to send now."""
        self._pending |= self._delayed
        self._delayed.clear()
        return self._take_pending()

    def forget(self, topic_partition: TopicPartition) -> None:
        """Drop the pending syncs and state of a partition that left this task. To send them first, call `commit`."""
        self._due.pop(topic_partition, None)
        self._pending.pop(topic_partition, None)
        self._delayed.pop(topic_partition, None)

    def _take_pending(self) -> list[OffsetSync]:
        room = self._in_flight_max - self._in_flight
        send = list(self._pending.values())[:room]
        for sync in send:
            del self._pending[sync.topic_partition]
        self._in_flight += len(send)
        return send
