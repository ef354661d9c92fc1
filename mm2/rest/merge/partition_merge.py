"""One partition with its steps and events, merged from the nodes of its flow.

A. Its state, progress and owner are those of the whole flow (`flow_merge`).
B. Its steps are those of the node that copies it; without any, its step is a `NodeStep`.
C. Its events are those of all nodes that answered, since it can have moved between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter

from mm2.core.coordination.pauses import pause_message
from mm2.core.coordination.repeats import RepeatState
from mm2.core.lanes.bottlenecks import limited_by
from mm2.core.lanes.partition_steps import (
    EVENTS_KEPT,
    NodeStep,
    PartitionStory,
    RecentWaits,
    StepReport,
    shown_step,
)
from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import FlowStatus, PartitionStatus, TopicStatus

UNEXPLAINED = "no lane reports the partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """The step of one side of a partition."""

    step: str
    since: Annotated[int, Field(description="in milliseconds since 1970")]
    reason: Annotated[str | None, Field(description="what it waits for; null: nothing holds it up")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEvent:
    """A transition, an error or a decision."""

    time: Annotated[int, Field(description="in milliseconds since 1970")]
    node: Annotated[str, Field(description="ID of the node that copied the partition then")]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDetails:
    """One source partition: what it does, why, and what has happened to it."""

    flow: str
    topic: str
    remote_topic: str
    step: Annotated[str, Field(description="what it does; see the table of steps")]
    since: Annotated[int | None, Field(description="in milliseconds since 1970; null: unknown")]
    reason: Annotated[str | None, Field(description="what it waits for; null: nothing holds it up")]
    fetching: Annotated[ShownStep | None, Field(description="its step at the source; null: no lane reports it")]
    sending: Annotated[ShownStep | None, Field(description="its step at the target; null: no lane reports it")]
    status: Annotated[PartitionStatus, Field(description="as in GET /flows")]
    unknown: Annotated[tuple[str, ...], Field(description="nodes that did not answer, with the reason")]
    events: Annotated[tuple[ShownEvent, ...], Field(description="the last 50, oldest first")]
    limited_by: Annotated[
        str | None,
        Field(
            description="what limits its pace, as a message; also that it is caught up, or that there are no data;"
            " null: the node is of an earlier release"
        ),
    ] = None
    last_minute: Annotated[
        RecentWaits | None,
        Field(
            description="what it waited for during the last minute, and for how many seconds it was behind;"
            " null: no lane reports it"
        ),
    ] = None


PARTITION_DETAILS = TypeAdapter(PartitionDetails)


def merge_partition(
    flow: FlowStatus, topic: TopicStatus, partition: PartitionStatus, answers: Mapping[str, PartitionStory | str]
) -> PartitionDetails:
    """Return the details of a partition. ``answers``: what each node knows of it, or why it did not answer."""
    stories = {node: answer for node, answer in sorted(answers.items()) if isinstance(answer, PartitionStory)}
    silent = {node: why for node, why in sorted(answers.items()) if isinstance(why, str)}
    running = stories.get(partition.node, PartitionStory())
    fetching, sending = running.fetching, running.sending
    if fetching is not None and sending is not None:
        shown = shown_step(fetching, sending)
        step, since, reason = shown.step, _ms(shown.since), shown.reason
    else:
        step, reason = _without_lane(flow, topic, partition, silent)
        since = None
    return PartitionDetails(
        flow=flow.flow,
        topic=topic.topic,
        remote_topic=topic.remote_topic,
        step=step,
        since=since,
        reason=reason,
        fetching=_shown(fetching),
        sending=_shown(sending),
        status=partition,
        unknown=tuple(f"{node}: {why}" for node, why in silent.items()),
        events=_events(stories),
        limited_by=limited_by(running.last_minute, lag=partition.lag_records),
        last_minute=running.last_minute,
    )


def _without_lane(
    flow: FlowStatus, topic: TopicStatus, partition: PartitionStatus, silent: Mapping[str, str]
) -> tuple[NodeStep, str]:
    """Return the step of a partition that no lane reports, and the reason."""
    if partition.state is TaskState.PAUSED:
        message = pause_message(flow.paused, flow.paused_since, flow.paused_by)
        return NodeStep.PAUSED_BY_OPERATOR, message or "paused by an operator"
    if partition.node in silent:
        return NodeStep.UNKNOWN, f"node {partition.node} did not answer: {silent[partition.node]}"
    why, place = partition.error or topic.error, (topic.topic, partition.partition)
    again = next((one for one in flow.copying_again if (one.topic, one.partition) == place), None)
    if again is not None and again.state != RepeatState.STARTED:
        text = f"to be copied again from offset {again.first}, requested by {again.by}"
        return NodeStep.NOT_ASSIGNED, f"{text}: waiting until what is in flight is stored"
    if not partition.node:
        return NodeStep.NOT_ASSIGNED, why or "no node has the source task of the partition"
    task = next((one for one in flow.tasks if one.id == f"MirrorSourceConnector-{partition.source_task}"), None)
    return NodeStep.AWAITS_LANE, why or (task.error if task is not None else None) or UNEXPLAINED


def _events(stories: Mapping[str, PartitionStory]) -> tuple[ShownEvent, ...]:
    found = [
        ShownEvent(time=_ms(event.at), node=node, text=event.text)
        for node, story in stories.items()
        for event in story.events
    ]
    return tuple(sorted(found, key=lambda one: one.time)[-EVENTS_KEPT:])


def _shown(report: StepReport | None) -> ShownStep | None:
    return None if report is None else ShownStep(step=report.step, since=_ms(report.since), reason=report.reason)


def _ms(seconds: float) -> int:
    return round(seconds * 1_000)
