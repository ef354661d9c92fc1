"""Who runs each partition of a flow, and how it is there, as far as one node knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mm2.core.lease import TaskState
from mm2.core.names import TopicPartition
from mm2.core.pauses import NO_PAUSES, Pauses
from mm2.core.placement import Placement
from mm2.core.slot_records import SlotRecord
from mm2.core.slot_words import PartitionStates
from mm2.core.tasks import TaskId, TaskKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Who runs a partition, and how it is there."""

    state: TaskState
    error: str | None = None
    slot: int | None = None
    node: str = ""


NOWHERE = Where(state=TaskState.WAITING)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedSlot:
    """A slot of this node: the partitions of its list, paused ones too, and what its lane has said of any."""

    slot: int
    partitions: frozenset[TopicPartition]
    states: PartitionStates = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """All that node ``node_id`` knows of where partitions are: ``lists`` are those that the leader published,
    ``confirmed`` the slots whose nodes have taken theirs in, where this node leads.

    To compare two of them costs little while nothing changes, since they are made of the same objects then; to go
    through all partitions is for when they differ.
    """

    node_id: str
    placement: Placement = field(default_factory=Placement)
    lists: tuple[SlotRecord, ...] = ()
    confirmed: frozenset[int] = frozenset()
    hosted: tuple[HostedSlot, ...] = ()
    pauses: Pauses = NO_PAUSES

    def partitions(self) -> Mapping[TopicPartition, Where]:
        """Of every partition in a list."""
        found: dict[TopicPartition, Where] = {}
        mine = {one.slot for one in self.hosted}
        for record in self.lists:
            if record.slot not in mine:
                found |= self._elsewhere(record)
        states = self._states()
        for one in self.hosted:
            for partition in one.partitions:
                state, error = states.get(partition, (TaskState.WAITING, None))
                found[partition] = Where(state=state, error=error, slot=one.slot, node=self.node_id)
        return found

    def own(self) -> Mapping[str, tuple[int, ...]]:
        """The partitions of this node, by topic, in order."""
        by_topic: dict[str, set[int]] = {}
        for one in self.hosted:
            for partition in one.partitions:
                by_topic.setdefault(partition.topic, set()).add(partition.partition)
        return {topic: tuple(sorted(numbers)) for topic, numbers in sorted(by_topic.items())}

    def _elsewhere(self, record: SlotRecord) -> Mapping[TopicPartition, Where]:
        """The partitions of a slot that this node does not run: what is so of one is so of all that are not paused."""
        place = self.placement.places.get(TaskId(TaskKind.SOURCE, record.slot))
        given = place is not None and place.owner is not None
        node = place.node if place is not None and given else ""
        runs = given and place is not None and place.next is None and record.slot in self.confirmed
        usual = Where(state=TaskState.RUNNING if runs else TaskState.WAITING, slot=record.slot, node=node)
        paused = replace(usual, state=TaskState.PAUSED) if runs else usual
        covers = self.pauses.covers
        return {partition: paused if covers(partition.topic) else usual for partition in record.partitions}

    def _states(self) -> PartitionStates:
        """How it is with each partition that a lane of this node knows, or that is paused here."""
        states: dict[TopicPartition, tuple[TaskState, str | None]] = {}
        for one in self.hosted:
            for partition in one.partitions:
                if self.pauses.covers(partition.topic):
                    states[partition] = (TaskState.PAUSED, None)
            for partition, (state, error) in one.states.items():
                if partition in states and (state is TaskState.STOPPED or states[partition][0] is TaskState.PAUSED):
                    continue  # another slot may run it by now
                states[partition] = (state, error)
        return states
