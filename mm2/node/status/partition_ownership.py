"""The owner and state of each partition of a flow, as far as known to one node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.assignment.task_placement import TaskAssignments
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.coordination.pauses import NO_PAUSES, Pauses
from mm2.core.lanes.accumulated_progress import PartitionStates
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOwner:
    """The source task and node that run a partition, and its state there."""

    state: TaskState
    error: str | None = None
    source_task: int | None = None
    node: str = ""


NOWHERE = PartitionOwner(state=TaskState.WAITING)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedSourceTask:
    """A source task of this node: the partitions of its list, including paused ones, and their reported states.

    ``held_back``: the states of partitions that no lane can copy now, with the reason.
    """

    source_task: int
    partitions: frozenset[TopicPartition]
    states: PartitionStates = field(default_factory=dict)
    held_back: PartitionStates = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOwnership:
    """The owners of partitions, as known to node ``node_id``.

    ``lists`` are the source task lists that the leader published. ``confirmed`` are the source tasks whose nodes have
    reported that they run their newest list, if this node is the leader.

    Comparing two instances is cheap while nothing changes, because they then contain the same objects.
    """

    node_id: str
    placement: TaskAssignments = field(default_factory=TaskAssignments)
    lists: tuple[SourceTaskRecord, ...] = ()
    confirmed: frozenset[int] = frozenset()
    hosted: tuple[HostedSourceTask, ...] = ()
    pauses: Pauses = NO_PAUSES

    def partitions(self) -> Mapping[TopicPartition, PartitionOwner]:
        """Return the owner of every partition in a list."""
        found: dict[TopicPartition, PartitionOwner] = {}
        mine = {one.source_task for one in self.hosted}
        for record in self.lists:
            if record.source_task not in mine:
                found |= self._elsewhere(record)
        states = self._states()
        for one in self.hosted:
            for partition in one.partitions:
                state, error = states.get(partition, (TaskState.WAITING, None))
                found[partition] = PartitionOwner(
                    state=state, error=error, source_task=one.source_task, node=self.node_id
                )
        return found

    def own(self) -> Mapping[str, tuple[int, ...]]:
        """Return the partitions of this node, by topic, in order."""
        return _by_topic(partition for one in self.hosted for partition in one.partitions)

    def elsewhere(self) -> Mapping[str, tuple[int, ...]]:
        """Return the listed partitions that this node does not run, by topic, in order."""
        own = {partition for one in self.hosted for partition in one.partitions}
        return _by_topic(partition for record in self.lists for partition in record.partitions if partition not in own)

    def reported(self) -> frozenset[TopicPartition]:
        """Return the partitions whose progress is known: a lane of this node reports it and has not stopped them.

        All other progress is out of date: another node may have copied more, and more may have been written.
        """
        return frozenset(
            partition
            for one in self.hosted
            for partition, (state, _) in one.states.items()
            if partition in one.partitions and state is not TaskState.STOPPED
        )

    def _elsewhere(self, record: SourceTaskRecord) -> Mapping[TopicPartition, PartitionOwner]:
        """Return the owners of the partitions of a source task that runs on another node or not at all.

        All partitions that are not paused have the same state.
        """
        place = self.placement.places.get(TaskId(TaskKind.SOURCE, record.source_task))
        given = place is not None and place.owner is not None
        node = place.node if place is not None and given else ""
        runs = given and place is not None and place.next is None and record.source_task in self.confirmed
        usual = PartitionOwner(
            state=TaskState.RUNNING if runs else TaskState.WAITING, source_task=record.source_task, node=node
        )
        paused = replace(usual, state=TaskState.PAUSED) if runs else usual
        covers = self.pauses.covers
        return {partition: paused if covers(partition.topic) else usual for partition in record.partitions}

    def _states(self) -> PartitionStates:
        """Return the state of each partition that a lane of this node has reported, or that is paused or held back."""
        states: dict[TopicPartition, tuple[TaskState, str | None]] = {}
        for one in self.hosted:
            for partition in one.partitions:
                if self.pauses.covers(partition.topic):
                    states[partition] = (TaskState.PAUSED, None)
                elif partition in one.held_back:
                    states[partition] = one.held_back[partition]
            for partition, (state, error) in one.states.items():
                if partition in states and (state is TaskState.STOPPED or states[partition][0] is TaskState.PAUSED):
                    continue  # another source task possibly runs it now
                states[partition] = (state, error)
        return states


def _by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, tuple[int, ...]]:
    by_topic: dict[str, set[int]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, set()).add(partition.partition)
    return {topic: tuple(sorted(numbers)) for topic, numbers in sorted(by_topic.items())}
