"""The JSON of the public endpoints (contract: REST): written by the node, read by ``mm2 status``, other nodes and
other programs.

A field is only ever added here. The descriptions are what GET /docs and /openapi.json print.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from mm2.core.lease import Loss, TaskState
from mm2.node.published import CoverageStatus, FlowStatus, MemberStatus, PartitionStatus, TaskStatus, TopicStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthShape:
    """The answer of /health and /health/live."""

    status: Annotated[str, Field(description="UP, or DOWN together with HTTP status 503")]
    reasons: Annotated[tuple[str, ...], Field(description="one sentence for each thing that is wrong")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionShape:
    """One source partition."""

    partition: int
    state: TaskState
    position: Annotated[int, Field(description="next source offset to copy; -1: not known yet")]
    end_offset: Annotated[
        int, Field(description="source high watermark, under read_committed the last stable offset; -1: not known yet")
    ]
    lag_records: Annotated[int, Field(description="end_offset minus position; -1: not known yet")]
    lag_seconds: Annotated[float, Field(description="how long ago the next record to copy was written; 0: caught up")]
    error: str | None
    slot: Annotated[
        int | None, Field(description="number of the source task that copies it; null: none, or not known")
    ] = None
    node: Annotated[str, Field(description="id of the node that copies it; empty: none, or not known")] = ""

    @classmethod
    def of(cls, status: PartitionStatus) -> PartitionShape:
        return cls(
            partition=status.partition,
            state=status.state,
            position=status.position,
            end_offset=status.end_offset,
            lag_records=status.lag_records if status.lag_known else -1,
            lag_seconds=status.lag_seconds,
            error=status.error,
            slot=status.slot,
            node=status.node,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """One replicated topic."""

    topic: Annotated[str, Field(description="name on the source cluster")]
    remote_topic: Annotated[str, Field(description="name on the target cluster")]
    state: Annotated[TaskState, Field(description="the worst of its partitions and of the remote topic's own trouble")]
    error: str | None
    partitions: tuple[PartitionShape, ...]

    @classmethod
    def of(cls, status: TopicStatus) -> TopicShape:
        return cls(
            topic=status.topic,
            remote_topic=status.remote_topic,
            state=status.state,
            error=status.error,
            partitions=tuple(map(PartitionShape.of, status.partitions)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskShape:
    """One task of a flow, called as in Java."""

    id: Annotated[str, Field(description="MirrorSourceConnector-0 and so on")]
    kind: Annotated[str, Field(description="source, checkpoint or heartbeat")]
    node: Annotated[str, Field(description="id of the node that runs it; empty: none does now")]
    state: TaskState
    error: str | None

    @classmethod
    def of(cls, status: TaskStatus) -> TaskShape:
        return cls(id=status.id, kind=status.kind, node=status.node, state=status.state, error=status.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossShape:
    """Source records that can no longer be copied."""

    topic: str
    partition: int
    first: Annotated[int, Field(description="first source offset that is lost")]
    until: Annotated[int, Field(description="first source offset after the lost ones")]
    reason: str

    @classmethod
    def of(cls, loss: Loss) -> LossShape:
        return cls(topic=loss.topic, partition=loss.partition, first=loss.first, until=loss.until, reason=loss.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberShape:
    """One of the nodes that share a flow."""

    node: Annotated[str, Field(description="its id")]
    url: Annotated[str, Field(description="where other nodes reach it; empty: nowhere")]
    leads: bool
    capacity: Annotated[int, Field(description="how many lanes it offers; 0: it leaves")]
    tasks: Annotated[tuple[str, ...], Field(description="ids of the tasks it was given")] = ()
    version: Annotated[str, Field(description="its release")] = ""
    terms: Annotated[
        str, Field(description="digest of what its file says of the flow: different ones, different files")
    ] = ""

    @classmethod
    def of(cls, status: MemberStatus) -> MemberShape:
        return cls(
            node=status.node,
            url=status.url,
            leads=status.leads,
            capacity=status.capacity,
            tasks=status.tasks,
            version=status.version,
            terms=status.terms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageShape:
    """Whether each task, or partition, of a flow is run by exactly one."""

    covered: Annotated[int, Field(description="run once")] = 0
    moving: Annotated[int, Field(description="run by nobody, on their way from one to another")] = 0
    uncovered: Annotated[int, Field(description="run by nobody, though they should")] = 0
    doubled: Annotated[int, Field(description="run by more than one")] = 0
    stray: Annotated[int, Field(description="run, though they should not be")] = 0

    @classmethod
    def of(cls, status: CoverageStatus) -> CoverageShape:
        return cls(
            covered=status.covered,
            moving=status.moving,
            uncovered=status.uncovered,
            doubled=status.doubled,
            stray=status.stray,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowShape:
    """One flow of /flows."""

    flow: Annotated[str, Field(description="source->target")]
    source: str
    target: str
    enabled: Annotated[bool, Field(description="false: heartbeats only")]
    state: TaskState
    leader: Annotated[str | None, Field(description="id of the leading node, null while there is none")]
    epoch: Annotated[int, Field(description="generation of the leadership; a decision of a lower one is void")]
    reasons: Annotated[
        tuple[str, ...], Field(description="one sentence for each thing that keeps the flow from running well")
    ]
    tasks: tuple[TaskShape, ...]
    topics: tuple[TopicShape, ...]
    losses: tuple[LossShape, ...] = ()
    members: Annotated[
        tuple[MemberShape, ...], Field(description="the nodes that share the flow, as of the last round")
    ] = ()
    paused: Annotated[
        tuple[str, ...],
        Field(description="what operators paused, by names on the source cluster; an empty text: the whole flow"),
    ] = ()
    coverage: Annotated[
        Mapping[str, CoverageShape],
        Field(description="of tasks and of partitions, by the leader's books; empty while there is no leader"),
    ] = field(default_factory=dict)

    @classmethod
    def of(cls, status: FlowStatus) -> FlowShape:
        return cls(
            flow=str(status.flow),
            source=status.flow.source,
            target=status.flow.target,
            enabled=status.enabled,
            state=status.state,
            leader=status.leader,
            epoch=status.epoch,
            reasons=status.reasons,
            tasks=tuple(map(TaskShape.of, status.tasks)),
            topics=tuple(map(TopicShape.of, status.topics)),
            losses=tuple(map(LossShape.of, status.losses)),
            members=tuple(map(MemberShape.of, status.members)),
            paused=status.paused,
            coverage={what: CoverageShape.of(counts) for what, counts in status.coverage.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownShape:
    """What was asked for is not there."""

    detail: Annotated[str, Field(description="a sentence that says what there is instead")]
