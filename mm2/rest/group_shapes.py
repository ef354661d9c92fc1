"""The JSON of /flows/{source}/{target}/groups (contract: REST). A field is only ever added here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter

from mm2.core.names import Flow
from mm2.node.published import FlowStatus, GroupPartitionStatus, GroupState, GroupStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointShape:
    """A checkpoint as it was written: a source offset and what it became on the target."""

    source_offset: int
    target_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartitionShape:
    """One partition that a consumer group has committed on the source."""

    topic: Annotated[str, Field(description="name on the source cluster")]
    partition: int
    remote_topic: Annotated[
        str | None, Field(description="name on the target cluster; null: the topic is not selected")
    ]
    state: GroupState
    reason: Annotated[str, Field(description="why the state is what it is")]
    source_offset: Annotated[int | None, Field(description="what the group has committed on the source")]
    translated_offset: Annotated[int | None, Field(description="where it would go on in the remote topic")]
    precision: Annotated[
        str | None,
        Field(description="exact: no record is read again there; conservative: some may be; null: not known"),
    ]
    records_read_again: Annotated[int | None, Field(description="so many at the most; null: not known")]
    checkpoint: Annotated[CheckpointShape | None, Field(description="the last one written")]
    target_offset: Annotated[
        int | None, Field(description="what the group has committed on the target, when group offset sync looked last")
    ]
    sync: Annotated[str | None, Field(description="what group offset sync made of it, in a sentence")]

    @classmethod
    def of(cls, status: GroupPartitionStatus) -> GroupPartitionShape:
        precision = None if status.exact is None else "exact" if status.exact else "conservative"
        checkpoint = status.checkpoint
        return cls(
            topic=status.topic,
            partition=status.partition,
            remote_topic=status.remote_topic,
            state=status.state,
            reason=status.reason,
            source_offset=status.source_offset,
            translated_offset=status.translated_offset,
            precision=precision,
            records_read_again=status.read_again,
            checkpoint=None
            if checkpoint is None
            else CheckpointShape(source_offset=checkpoint[0], target_offset=checkpoint[1]),
            target_offset=status.target_offset,
            sync=status.sync,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShape:
    """One consumer group of a flow's source."""

    group: str
    state: Annotated[GroupState, Field(description="what becomes of its offsets")]
    reason: Annotated[str, Field(description="why the state is what it is")]
    source_state: Annotated[str | None, Field(description="its state on the source, in Kafka's words")]
    target_state: Annotated[
        str | None, Field(description="its state on the target; null: no such group there, or not looked at")
    ]
    partitions: tuple[GroupPartitionShape, ...]

    @classmethod
    def of(cls, status: GroupStatus) -> GroupShape:
        return cls(
            group=status.group,
            state=status.state,
            reason=status.reason,
            source_state=status.source_state,
            target_state=status.target_state,
            partitions=tuple(map(GroupPartitionShape.of, status.partitions)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsShape:
    """The answer of /flows/{source}/{target}/groups."""

    flow: Annotated[str, Field(description="source->target")]
    source: str
    target: str
    reasons: Annotated[
        tuple[str, ...], Field(description="why there are no groups, or why they are not quite what they should be")
    ]
    groups: tuple[GroupShape, ...]


_HEAD = TypeAdapter(GroupsShape)
_GROUP = TypeAdapter(GroupShape)

GROUPS_BEGIN, NEXT_GROUP, GROUPS_END = b'"groups":[', b",\n", b"]}"
"""What stands in the JSON of a `GroupsShape` before, between and after the groups, and nowhere else."""


def groups_json(status: FlowStatus) -> bytes:
    """A `GroupsShape` of the flow as JSON, written group by group: while pydantic writes, no other thread runs, and
    100,000 partitions in one go would hold up the event loop for half a second."""
    head = groups_head(status.flow, status.group_reasons)
    return head + NEXT_GROUP.join(_GROUP.dump_json(GroupShape.of(one)) for one in status.groups) + GROUPS_END


def groups_head(flow: Flow, reasons: tuple[str, ...]) -> bytes:
    """The JSON up to the first group."""
    head = GroupsShape(flow=str(flow), source=flow.source, target=flow.target, reasons=reasons, groups=())
    return _HEAD.dump_json(head).removesuffix(GROUPS_END)
