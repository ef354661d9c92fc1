"""Which group offsets to write on the target (sync.group.offsets.enabled, mm2-compat §4.5), and why not the others.

A group that is used on the target has a position of its own there, which is not touched. Java tries to write those too
and lets the broker refuse; and it writes what it translated without a look at the target's end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mm2.core.formats import Checkpoint
from mm2.core.names import TopicPartition


@dataclass(frozen=True, slots=True)
class Absent:
    """The target has no such group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """The group exists on the target without members. ``committed``: its offsets there; None for one that was reset."""

    committed: Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """The group has members on the target, or is no consumer group; ``state`` in Kafka's words."""

    state: str


TargetGroup = Absent | Idle | Active


def target_group(state: str | None, committed: Mapping[TopicPartition, int | None] | None = None) -> TargetGroup:
    """Read a group's state as ListGroups or a describe answers it; None: the target does not know the group.

    Any state but Empty and Dead counts as active, one that is not known too. Take states of groups of the new protocol
    (KIP-848) from ConsumerGroupDescribe: DescribeGroups calls a live one Dead. A commit that is refused with
    UNKNOWN_MEMBER_ID is an active group.
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
    """``offset`` is to be committed for the group on the target; it had ``current`` (None: nothing)."""

    offset: int
    metadata: str
    current: int | None

    def __str__(self) -> str:
        return f"set to {self.offset}" if self.current is None else f"moved from {self.current} to {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AsFar:
    """The group is at ``current`` on the target: there already, or further on. It is never set back."""

    offset: int
    current: int

    def __str__(self) -> str:
        if self.offset == self.current:
            return f"at {self.offset} already"
        return f"at {self.current} already, further than {self.offset}: it is never set back"


@dataclass(frozen=True, slots=True, kw_only=True)
class InUse:
    """The group is active on the target."""

    state: str

    def __str__(self) -> str:
        return f"the group is active on the target ({self.state}) and keeps its own position"


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondEnd:
    """The remote partition ends at ``end``, before ``offset``: the topic was made anew, or lost its end."""

    offset: int
    end: int

    def __str__(self) -> str:
        return (
            f"the remote partition ends at {self.end}, before {self.offset}: the topic was made anew, or lost its end"
        )


@dataclass(frozen=True, slots=True)
class NoRemotePartition:
    """The target has no such partition, or its end is not known."""

    def __str__(self) -> str:
        return "the remote partition does not exist, or its end is not known"


Decision = Write | AsFar | InUse | BeyondEnd | NoRemotePartition


def decide(
    checkpoints: Mapping[TopicPartition, Checkpoint], group: TargetGroup, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Decision]:
    """Decide for each remote partition of a group that has a checkpoint. ``ends`` are the target's log ends.

    A decision as a text is a sentence for people.
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
        return AsFar(offset=offset, current=current)
    if end is None:
        return NoRemotePartition()
    if offset > end:
        return BeyondEnd(offset=offset, end=end)
    return Write(offset=offset, metadata=checkpoint.metadata, current=current)
