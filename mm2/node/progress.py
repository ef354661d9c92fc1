"""From what lanes report to what the node shows: topics, partitions, totals that only grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mm2.core.exact_offset_records import UNKNOWN_IDS, TopicIds
from mm2.core.lease import BatchCount, Loss, PartitionProgress, SlotProgress, TaskState
from mm2.core.names import TopicPartition
from mm2.core.task_states import worst
from mm2.node.published import PartitionStatus, TopicStatus
from mm2.node.totals import Totals
from mm2.node.whereabouts import NOWHERE, Where, Whereabouts


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedTopic:
    """A topic the flow replicates: its partitions, its name on the target, and what keeps it from being copied.
    ``topic_ids``: which topics of these names were there."""

    topic: str
    remote_topic: str
    partitions: int
    error: str | None = None
    topic_ids: TopicIds = UNKNOWN_IDS


class FlowProgress:
    """What all lanes said about one flow, kept over restarts of lanes.

    (A) What is shown of a topic is the same object until a lane says something else of one of its partitions, or the
        topic or the `Whereabouts` are others: each second the node shows thousands of partitions in which nothing
        happens.
    """

    def __init__(self) -> None:
        self._totals: Totals[TopicPartition] = Totals()
        self._batches: Totals[tuple[int, str, str]] = Totals()
        self._partitions: dict[TopicPartition, PartitionProgress] = {}
        self._runs: dict[TopicPartition, str] = {}
        self._taken: dict[int, tuple[str, tuple[PartitionProgress, ...]]] = {}
        self._shown: dict[TopicPartition, tuple[Where, PartitionStatus]] = {}
        self._topics: dict[str, tuple[ReplicatedTopic, Sequence[int], TopicStatus]] = {}
        self._whereabouts: Whereabouts | None = None
        self._where: Mapping[TopicPartition, Where] = {}
        self._own: Mapping[str, tuple[int, ...]] = {}
        self._losses: dict[tuple[str, int, int], Loss] = {}
        self._paths: set[tuple[int, str, str]] = set()

    def take(self, session: str, slot: SlotProgress) -> None:
        """A slot's newest report, under its lane's session.

        A slot goes on showing a partition it stopped; once another slot runs that partition, the word is that slot's.
        What is the same object as in the slot's report before is no news (`mm2.core.slot_words`).
        """
        run = f"{session}/{slot.epoch}/{slot.slot}"
        last_run, before = self._taken.get(slot.slot, ("", ()))
        self._taken[slot.slot] = (run, slot.partitions)
        if run != last_run or len(before) != len(slot.partitions):
            self._take_partitions(run, slot.partitions)
        elif slot.partitions is not before:
            both = zip(slot.partitions, before, strict=True)
            self._take_partitions(run, [now for now, then in both if now is not then])
        for count in slot.batches:
            path = (slot.slot, count.path, count.reason)
            self._paths.add(path)
            self._batches.fold(path, run, (count.batches,))
        for loss in slot.losses:
            self._losses[(loss.topic, loss.partition, loss.first)] = loss

    def _take_partitions(self, run: str, partitions: Iterable[PartitionProgress]) -> None:
        for p in partitions:
            key = TopicPartition(p.topic, p.partition)
            if p.state is TaskState.STOPPED and self._runs.get(key, run) != run:
                continue
            self._runs[key] = run
            self._partitions[key] = p
            self._shown.pop(key, None)
            self._topics.pop(key.topic, None)
            self._totals.fold(
                key,
                run,
                (p.records_total, p.bytes_total, p.latency_sum, p.latency_count, p.age_sum, p.age_count),
            )

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Every range of the source that could not be copied since the node started."""
        return tuple(self._losses.values())

    @property
    def batches(self) -> tuple[BatchCount, ...]:
        """Batches by path and reason since the node started."""
        sums: dict[tuple[str, str], int] = {}
        for slot, path, reason in self._paths:
            (count,) = self._batches.get((slot, path, reason), 1)
            sums[(path, reason)] = sums.get((path, reason), 0) + int(count)
        return tuple(BatchCount(path=p, reason=r, batches=n) for (p, r), n in sorted(sums.items()))

    def topics(self, replicated: Iterable[ReplicatedTopic], whereabouts: Whereabouts) -> tuple[TopicStatus, ...]:
        """All of these topics; partitions that are in no list wait."""
        self._look(whereabouts)
        return tuple(self._topic(topic, range(topic.partitions)) for topic in replicated)

    def share(self, whereabouts: Whereabouts, remote_name: Callable[[str], str]) -> tuple[TopicStatus, ...]:
        """The topics of which this node runs partitions, with no others in them."""
        self._look(whereabouts)
        return tuple(
            self._topic(ReplicatedTopic(topic=topic, remote_topic=remote_name(topic), partitions=len(own)), own)
            for topic, own in self._own.items()
        )

    def _look(self, whereabouts: Whereabouts) -> None:
        if whereabouts != self._whereabouts:
            self._whereabouts = whereabouts
            self._where, self._own = whereabouts.partitions(), whereabouts.own()
            self._topics.clear()

    def _topic(self, topic: ReplicatedTopic, numbers: Sequence[int]) -> TopicStatus:
        kept = self._topics.get(topic.topic)
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
        )
        self._topics[topic.topic] = (topic, numbers, status)
        return status

    def _partition(self, key: TopicPartition, where: Where) -> PartitionStatus:
        last_where, shown = self._shown.get(key, (None, None))
        if shown is None or last_where != where:
            shown = self._status(key, where)
            self._shown[key] = (where, shown)
        return shown

    def _status(self, key: TopicPartition, where: Where) -> PartitionStatus:
        last = self._partitions.get(key)
        records, size, latency_sum, latency_count, age_sum, age_count = self._totals.get(key, 6)
        known = last is not None and last.position >= 0 and last.end_offset >= 0
        return PartitionStatus(
            partition=key.partition,
            state=where.state,
            position=last.position if last else -1,
            end_offset=last.end_offset if last else -1,
            lag_records=max(0, last.end_offset - last.position) if last and known else 0,
            lag_seconds=last.lag_seconds if last else 0.0,
            error=where.error,
            records_total=int(records),
            bytes_total=int(size),
            latency_sum=latency_sum,
            latency_count=int(latency_count),
            age_sum=age_sum,
            age_count=int(age_count),
            slot=where.slot,
            node=where.node,
        )
