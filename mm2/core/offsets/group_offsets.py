"""Selects the group offsets to write on the target (sync.group.offsets.enabled, KIP-545), with reasons for the others.

A group that is active on the target has its own position there, which is not changed. Java tries to write it and relies
on the broker to reject the commit, and it writes translated offsets without checking the target's log end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import Checkpoint


@dataclass(frozen=True, slots=True)
class Absent:
    """The group does not exist on the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """The group exists on the target without members. ``committed``: its offsets there; None for one that was reset."""

    committed: Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """The group has members on the target, or is not a consumer group; ``state`` is Kafka's group state."""

    state: str


TargetGroup = Absent | Idle | Active


def target_group(state: str | None, committed: Mapping[TopicPartition, int | None] | None = None) -> TargetGroup:
    """Return the target group for a state from ListGroups or a describe request; None: the group does not exist.

    Every state except Empty and Dead counts as active, including unknown ones. Take states of groups of the new
    protocol (KIP-848) from ConsumerGroupDescribe: DescribeGroups reports a live one as Dead. A commit rejected with
    UNKNOWN_MEMBER_ID means that the group is active.
    """
    match (state or "Dead").lower():
        case "dead":
            return Absent()
        case "empty":
            return Idle(committed=committed or {})
        case _:
            return Active(state=state or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Commit ``offset`` for the group on the target, where it has ``current`` (None: no offset)."""

    offset: int
    metadata: str
    current: int | None

    def __str__(self) -> str:
        return f"set to {self.offset}" if self.current is None else f"moved from {self.current} to {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyReached:
    """The group's offset on the target is ``current``, at or after ``offset``. It is never moved back."""

    offset: int
    current: int

    def __str__(self) -> str:
        if self.offset == self.current:
            return f"already at {self.offset}"
        return f"already at {self.current}, beyond {self.offset}; offsets never move backwards"


@dataclass(frozen=True, slots=True, kw_only=True)
class InUse:
    """The group is active on the target."""

    state: str

    def __str__(self) -> str:
        return f"the group is active on the target ({self.state}) and keeps its own position"


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondEnd:
    """The remote partition ends at ``end``, before ``offset``: the topic was recreated or truncated."""

    offset: int
    end: int

    def __str__(self) -> str:
        return f"the remote partition ends at {self.end}, before {self.offset}: the topic was recreated or truncated"


@dataclass(frozen=True, slots=True)
class NoRemotePartition:
    """The partition does not exist on the target, or its log end is unknown."""

    def __str__(self) -> str:
        return "the remote partition does not exist, or its end offset is unknown"


Decision = Write | AlreadyReached | InUse | BeyondEnd | NoRemotePartition


def decide(
    checkpoints: Mapping[TopicPartition, Checkpoint], group: TargetGroup, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Decision]:
    """Return the decision for each remote partition of a group that has a checkpoint; ``str`` of it is a message.

    ``ends`` are the target's log ends.
    """
    if isinstance(group, Active):
        return {partition: InUse(state=group.state) for partition in checkpoints}
    committed = group.committed if isinstance(group, Idle) else {}
    return {
        partition: _decide(checkpoint, committed.get(partition), ends.get(partition))
        for partition, checkpoint in checkpoints.items()
    }


def _decide(checkpoint: Checkpoint, current: int | None, end: int | None) -> Decision:
    offset = checkpoint.downstream_offset
    if current is not None and current >= offset:
        return AlreadyReached(offset=offset, current=current)
    if end is None:
        return NoRemotePartition()
    if offset > end:
        return BeyondEnd(offset=offset, end=end)
    return Write(offset=offset, metadata=checkpoint.metadata, current=current)
