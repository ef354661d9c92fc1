"""Aggregation of lane reports into the status of topics and partitions, with totals that never decrease, and losses."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mm2.core.lanes.bottlenecks import sum_of_waits
from mm2.core.lanes.counters import ZERO, PartitionCounters, SourceTaskCounters
from mm2.core.lanes.losses import LOSSES_KEPT, Loss, LossKey
from mm2.core.lanes.partition_steps import EVENTS_KEPT, PartitionEvent, PartitionStory, RecentWaits, shown_step
from mm2.core.lanes.progress_reports import BatchCount, PartitionProgress, SourceTaskProgress
from mm2.core.lanes.task_states import TaskState, worst
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import UNKNOWN_IDS, TopicIds
from mm2.node.status.monotonic_counters import MonotonicCounters
from mm2.node.status.partition_ownership import NOWHERE, PartitionOwner, PartitionOwnership
from mm2.node.status.status_model import PartitionStatus, TopicStatus

LOOK_FOR_DELETED_S = 60.0
"""How often partitions that are in no list are looked for; this compares all partitions."""

FORGET_AFTER_S = 3600.0
"""A partition in no list for this long belongs to a deleted topic: moves take seconds, and most errors are repaired
sooner. If it returns, its totals start at zero again."""


class Losses:
    """The newest losses, and how many losses and lost offsets each partition has had, which includes older ones.

    A source task repeats its newest losses with every report, and the last one of a partition can still grow.
    """

    def __init__(self) -> None:
        self._newest: dict[LossKey, Loss] = {}
        self._reported: dict[int, tuple[str, Sequence[Loss]]] = {}
        self._totals: dict[TopicPartition, int] = {}
        self._counts: dict[TopicPartition, int] = {}
        self._remote: dict[str, str] = {}

    @property
    def newest(self) -> tuple[Loss, ...]:
        """At most `LOSSES_KEPT` losses, the newest last."""
        return tuple(self._newest.values())

    @property
    def totals(self) -> Mapping[TopicPartition, int]:
        """The number of lost offsets of each partition that has lost any."""
        return dict(self._totals)

    @property
    def counts(self) -> Mapping[TopicPartition, int]:
        """The number of losses of each partition that has had any."""
        return dict(self._counts)

    @property
    def remote_topics(self) -> Mapping[str, str]:
        """The remote topic of each source topic that has lost records, as far as the lanes have reported it."""
        return dict(self._remote)

    def take(self, source_task: int, run: str, losses: Sequence[Loss]) -> list[Loss]:
        """Apply a source task's report; ``run`` identifies the run of the source task. Return the new losses."""
        last_run, before = self._reported.get(source_task, ("", ()))
        self._reported[source_task] = run, losses
        if losses is before or not losses:
            return []
        known = set(before) if run == last_run else set()
        return [loss for loss in losses if loss not in known and self._add(loss)]

    def forget(self, partition: TopicPartition) -> None:
        """Forget the totals of a partition that no longer exists."""
        self._totals.pop(partition, None)
        self._counts.pop(partition, None)

    def _add(self, loss: Loss) -> bool:
        """Add a loss, or the new extent of a known one; return whether it is new."""
        before = self._newest.pop(loss.key, None)
        if before is None:
            offsets, count = loss.offsets, loss.count
        else:
            offsets, count = max(0, loss.offsets - before.offsets), max(0, loss.count - before.count)
            loss = loss if loss.until >= before.until else before
        partition = TopicPartition(loss.topic, loss.partition)
        if loss.remote_topic is not None:
            self._remote[loss.topic] = loss.remote_topic
        self._totals[partition] = self._totals.get(partition, 0) + offsets
        self._counts[partition] = self._counts.get(partition, 0) + count
        self._newest[loss.key] = loss
        if len(self._newest) > LOSSES_KEPT:
            del self._newest[next(iter(self._newest))]
        return before is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedTopic:
    """A replicated topic: its partition count, its name on the target, and the error that prevents copying.

    ``topic_ids`` are the IDs of both topics, which identify them if they are deleted and recreated. ``query`` is the
    name of the query that transforms its records, if there is one.
    """

    topic: str
    remote_topic: str
    partitions: int
    error: str | None = None
    topic_ids: TopicIds = UNKNOWN_IDS
    query: str | None = None


_TopicCache = dict[str, tuple[ReplicatedTopic, Sequence[int], TopicStatus]]


class FlowProgress:
    """The reports of all lanes about one flow, kept when lanes restart.

    (A) The status of a topic remains the same object until a lane reports a change of one of its partitions, or the
        topic or the `PartitionOwnership` changes: the node publishes thousands of unchanged partitions every second.
    (B) Positions, end offsets and lags are those of lanes that report them now (`PartitionOwnership.reported`); nothing
        else is known here. The last end offset of a partition that no lane reports would show a lag that is too low,
        and the last position, of a partition that another node has copied since, one that is too high: what is certain
        of them, and measured since, is in `mm2.node.observe.flow_observations`.
    (C) The end offset and the lag of a partition are unknown if the source has not told the end offset within the last
        10 s (`PartitionProgress.end_observed`); the last ones are then shown beside them, with their time.
    (D) The last `EVENTS_KEPT` events of a partition that this node has copied are kept, also after its lane has died.
    (E) Totals never decrease, whichever node copies a partition, until it has been in no list for `FORGET_AFTER_S`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns monotonic seconds."""
        self.losses = Losses()
        self._clock = clock
        self._looked_at = clock()
        self._unlisted: dict[TopicPartition, float] = {}  # since when
        self._totals: MonotonicCounters[TopicPartition] = MonotonicCounters()
        self._batches: MonotonicCounters[tuple[int, str, str]] = MonotonicCounters()
        self._of_tasks: MonotonicCounters[int] = MonotonicCounters()
        self._last_minutes: dict[int, RecentWaits | None] = {}  # by source task
        self._partitions: dict[TopicPartition, PartitionProgress] = {}
        self._runs: dict[TopicPartition, str] = {}
        self._taken: dict[int, tuple[str, tuple[PartitionProgress, ...]]] = {}
        self._shown: dict[TopicPartition, tuple[PartitionOwner, bool, PartitionStatus]] = {}
        self._topics: _TopicCache = {}
        self._others: _TopicCache = {}
        self._ownership: PartitionOwnership | None = None
        self._where: Mapping[TopicPartition, PartitionOwner] = {}
        self._reported: frozenset[TopicPartition] = frozenset()
        self._own: Mapping[str, tuple[int, ...]] = {}
        self._elsewhere: Mapping[str, tuple[int, ...]] = {}
        self._records = self._bytes = 0
        self._paths: set[tuple[int, str, str]] = set()
        self._events: dict[TopicPartition, deque[PartitionEvent]] = {}
        self._events_taken: dict[int, tuple[PartitionEvent, ...]] = {}

    def take(self, session: str, source_task: SourceTaskProgress) -> list[Loss]:
        """Apply a source task's newest report, from this session of its lane; return the losses that are new.

        A report still contains partitions that the source task has stopped; these are ignored once another source task
        runs them. A partition that is the same object as in the previous report has not changed
        (`mm2.core.lanes.accumulated_progress`).
        """
        run = f"{session}/{source_task.epoch}/{source_task.source_task}"
        last_run, before = self._taken.get(source_task.source_task, ("", ()))
        self._taken[source_task.source_task] = (run, source_task.partitions)
        if run != last_run or len(before) != len(source_task.partitions):
            self._take_partitions(run, source_task.partitions)
        elif source_task.partitions is not before:
            both = zip(source_task.partitions, before, strict=True)
            self._take_partitions(run, [now for now, then in both if now is not then])
        self._take_events(source_task)
        self._of_tasks.fold(source_task.source_task, run, source_task.counters.values)
        self._last_minutes[source_task.source_task] = source_task.last_minute
        for count in source_task.batches:
            path = (source_task.source_task, count.path, count.reason)
            self._paths.add(path)
            self._batches.fold(path, run, (count.batches,))
        return self.losses.take(source_task.source_task, run, source_task.losses)

    def _take_partitions(self, run: str, partitions: Iterable[PartitionProgress]) -> None:
        for p in partitions:
            key = TopicPartition(p.topic, p.partition)
            if p.state is TaskState.STOPPED and self._runs.get(key, run) != run:
                continue
            self._runs[key] = run
            self._partitions[key] = p
            self._shown.pop(key, None)
            self._topics.pop(key.topic, None)
            self._others.pop(key.topic, None)
            before = PartitionCounters.of(self._totals.get(key, ZERO))
            totals = PartitionCounters.of(self._totals.fold(key, run, p.counters.values))
            self._records += totals.records - before.records
            self._bytes += totals.bytes - before.bytes

    def _take_events(self, source_task: SourceTaskProgress) -> None:
        events = source_task.events
        if events is self._events_taken.get(source_task.source_task):
            return
        self._events_taken[source_task.source_task] = events
        for event in events:
            kept = self._events.setdefault(TopicPartition(event.topic, event.partition), deque(maxlen=EVENTS_KEPT))
            if event not in kept and (not kept or event.at >= kept[0].at):
                kept.append(event)

    def story(self, partition: TopicPartition) -> PartitionStory:
        """Return what lanes of this node have reported of the partition besides its progress."""
        now = self._partitions.get(partition) if partition in self._reported else None
        events = tuple(self._events.get(partition, ()))
        if now is None:
            return PartitionStory(events=events)
        return PartitionStory(fetching=now.fetching, sending=now.sending, last_minute=now.last_minute, events=events)

    def last_minute(self, ownership: PartitionOwnership) -> RecentWaits | None:
        """Return what the partitions of this node waited for during the last minute; None: no lane reports any now."""
        return sum_of_waits(self._last_minutes.get(one.source_task) for one in ownership.hosted if one.states)

    @property
    def counters(self) -> SourceTaskCounters:
        """Return the totals of all source tasks since the node started."""
        none = SourceTaskCounters().values
        totals = [self._of_tasks.get(source_task, none) for source_task in self._last_minutes]
        return SourceTaskCounters.of([sum(one) for one in zip(none, *totals, strict=True)])

    @property
    def records_total(self) -> int:
        """Return the records that this node copied since it started."""
        return self._records

    @property
    def bytes_total(self) -> int:
        """Return the bytes of the batches that this node copied since it started."""
        return self._bytes

    @property
    def batches(self) -> tuple[BatchCount, ...]:
        """Batches by path and reason since the node started."""
        sums: dict[tuple[str, str], int] = {}
        for source_task, path, reason in self._paths:
            (count,) = self._batches.get((source_task, path, reason), (0,))
            sums[(path, reason)] = sums.get((path, reason), 0) + int(count)
        return tuple(BatchCount(path=p, reason=r, batches=n) for (p, r), n in sorted(sums.items()))

    def topics(self, replicated: Iterable[ReplicatedTopic], ownership: PartitionOwnership) -> tuple[TopicStatus, ...]:
        """Return the status of all these topics; partitions that are in no list are WAITING."""
        self._look(ownership)
        return tuple(self._topic(self._topics, topic, range(topic.partitions)) for topic in replicated)

    def share(
        self,
        ownership: PartitionOwnership,
        remote_name: Callable[[str], str],
        query_name: Callable[[str], str | None] = lambda _topic: None,
    ) -> tuple[TopicStatus, ...]:
        """Return the status of the topics of which this node runs partitions, with only these partitions."""
        self._look(ownership)
        return self._part(self._topics, self._own, remote_name, query_name)

    def elsewhere(
        self,
        ownership: PartitionOwnership,
        remote_name: Callable[[str], str],
        query_name: Callable[[str], str | None] = lambda _topic: None,
    ) -> tuple[TopicStatus, ...]:
        """Return the listed partitions that `share` leaves out: other nodes run them, or none does."""
        self._look(ownership)
        return self._part(self._others, self._elsewhere, remote_name, query_name)

    def _part(
        self,
        cache: _TopicCache,
        numbers: Mapping[str, Sequence[int]],
        remote_name: Callable[[str], str],
        query_name: Callable[[str], str | None],
    ) -> tuple[TopicStatus, ...]:
        listed = (
            ReplicatedTopic(topic=topic, remote_topic=remote_name(topic), partitions=len(some), query=query_name(topic))
            for topic, some in numbers.items()
        )
        return tuple(self._topic(cache, topic, numbers[topic.topic]) for topic in listed)

    def _look(self, ownership: PartitionOwnership) -> None:
        if ownership != self._ownership:
            self._ownership = ownership
            self._where, self._reported = ownership.partitions(), ownership.reported()
            self._own, self._elsewhere = ownership.own(), ownership.elsewhere()
            self._topics.clear()
            self._others.clear()
        self._forget_deleted()

    def _forget_deleted(self) -> None:
        now = self._clock()
        if now - self._looked_at < LOOK_FOR_DELETED_S:
            return
        self._looked_at = now
        known = self._partitions.keys() | self._shown.keys()
        self._unlisted = {one: self._unlisted.get(one, now) for one in known - self._where.keys()}
        for one, since in self._unlisted.items():
            if now - since >= FORGET_AFTER_S:
                self._partitions.pop(one, None)
                self._runs.pop(one, None)
                self._shown.pop(one, None)
                self._events.pop(one, None)
                self._totals.forget(one)
                self.losses.forget(one)

    def _topic(self, cache: _TopicCache, topic: ReplicatedTopic, numbers: Sequence[int]) -> TopicStatus:
        kept = cache.get(topic.topic)
        if kept is not None and kept[:2] == (topic, numbers):
            return kept[2]
        keys = [TopicPartition(topic.topic, number) for number in numbers]
        found = tuple(self._partition(key, self._where.get(key, NOWHERE)) for key in keys)
        status = TopicStatus(
            topic=topic.topic,
            remote_topic=topic.remote_topic,
            state=TaskState.FAILED if topic.error else worst(p.state for p in found),
            error=topic.error,
            partitions=found,
            query=topic.query,
        )
        cache[topic.topic] = (topic, numbers, status)
        return status

    def _partition(self, key: TopicPartition, where: PartitionOwner) -> PartitionStatus:
        reported = key in self._reported
        last_where, last_reported, shown = self._shown.get(key, (None, False, None))
        if shown is None or last_where != where or last_reported != reported:
            shown = self._status(key, where, self._partitions.get(key) if reported else None)
            self._shown[key] = (where, reported, shown)
        return shown

    def _status(self, key: TopicPartition, where: PartitionOwner, now: PartitionProgress | None) -> PartitionStatus:
        position = now.position if now is not None and now.position >= 0 else None
        end = last_end = now.end_offset if now is not None and now.end_offset >= 0 else None
        lag = last_lag = None if position is None or end is None else max(0, end - position)
        observed = now.end_observed if now is not None else None
        if observed is None:
            last_end = last_lag = None
        else:
            end = lag = None
        return PartitionStatus(
            partition=key.partition,
            state=where.state,
            position=position,
            end_offset=end,
            lag_records=lag,
            lag_seconds=None if now is None or lag is None else now.lag_seconds,
            error=where.error,
            counters=PartitionCounters.of(self._totals.get(key, ZERO)),
            step=_step(now),
            stopped_at=now.stopped_at if now is not None else None,
            stopped_until=now.stopped_until if now is not None else None,
            source_task=where.source_task,
            node=where.node,
            observed=None if observed is None else round(observed * 1_000),
            last_end_offset=last_end,
            last_lag_records=last_lag,
        )


def _step(now: PartitionProgress | None) -> str | None:
    if now is None or now.fetching is None or now.sending is None:
        return None
    return shown_step(now.fetching, now.sending).step
