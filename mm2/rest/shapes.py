"""The JSON of the public endpoints (contract: REST): written by the node, read by ``mm2 status`` and other programs.

A field is only ever added here. The descriptions are what GET /docs and /openapi.json print.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from mm2.core.lease import Loss, TaskState
from mm2.node.published import FlowStatus, PartitionStatus, TaskStatus, TopicStatus


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
    node: Annotated[str, Field(description="id of the node that runs it")]
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
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownShape:
    """What was asked for is not there."""

    detail: Annotated[str, Field(description="a sentence that says what there is instead")]
