"""What a partition is doing on each of its sides, by name, and what has happened to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mm2.core.lanes.task_states import TaskState

EVENTS_KEPT = 50
"""A lane and its node keep this many events of a partition."""

LONGEST_EVENT = 1_000
"""Maximum characters of an event. Messages of brokers, and of Spark, can have any length."""


class FetchStep(StrEnum):
    """What a partition does at the source. If several apply, the first in this order is shown."""

    STOPPED = "STOPPED"
    DRAINING = "DRAINING"
    AWAITS_TRUNCATION = "AWAITS_TRUNCATION"
    AWAITS_DEAD_LETTER = "AWAITS_DEAD_LETTER"
    AWAITS_UNREADABLE = "AWAITS_UNREADABLE"
    PAUSED = "PAUSED"
    MEMORY_RELEASED = "MEMORY_RELEASED"
    FULL = "FULL"
    AWAITS_START = "AWAITS_START"
    LIMITED = "LIMITED"
    FETCHING = "FETCHING"


class SendStep(StrEnum):
    """What a partition does at the target. If several apply, the first in this order is shown."""

    ROLLING_BACK = "ROLLING_BACK"
    AWAITS_DEAD_LETTER = "AWAITS_DEAD_LETTER"
    AWAITS_SIZE_LIMIT = "AWAITS_SIZE_LIMIT"
    AWAITS_START_STORED = "AWAITS_START_STORED"
    SETTLING = "SETTLING"
    BACKOFF = "BACKOFF"
    DIVIDING = "DIVIDING"
    AWAITS_PRODUCER_ID = "AWAITS_PRODUCER_ID"
    AWAITS_BOUNDARY = "AWAITS_BOUNDARY"
    PACKING = "PACKING"
    WRITING = "WRITING"
    AWAITS_QUERY = "AWAITS_QUERY"
    IN_FLIGHT = "IN_FLIGHT"
    READY = "READY"
    IDLE = "IDLE"


@dataclass(frozen=True, slots=True)
class StepReport:
    """The step of one side ``since`` epoch seconds; ``reason`` is a message for operators, None if nothing is held up.

    ``step`` is the value of a `FetchStep` or `SendStep`.
    """

    step: str
    since: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionEvent:
    """A transition, an error or a decision of a source partition, never a single batch. ``at``: epoch seconds."""

    topic: str
    partition: int
    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """``seconds`` that partitions which were behind have waited ``on`` something, summed over partitions.

    ``on`` is the value of a `mm2.core.lanes.bottlenecks.Bottleneck`, or one of a later release.
    """

    on: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentWaits:
    """What was waited for during the last minute by a partition that was behind, or by all that were.

    ``behind``: seconds during which it, or any of them, was behind; at most 60.
    """

    waits: tuple[Wait, ...] = ()
    behind: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStory:
    """What one node knows of a partition. ``fetching``, ``sending``, ``last_minute``: if a lane of it copies it now."""

    fetching: StepReport | None = None
    sending: StepReport | None = None
    last_minute: RecentWaits | None = None
    events: tuple[PartitionEvent, ...] = ()


class NodeStep(StrEnum):
    """What a partition waits for that no lane reports."""

    PAUSED_BY_OPERATOR = "PAUSED_BY_OPERATOR"
    AWAITS_LANE = "AWAITS_LANE"
    NOT_ASSIGNED = "NOT_ASSIGNED"
    UNKNOWN = "UNKNOWN"


STATES_OF_STEPS: Mapping[str, tuple[TaskState, ...]] = {
    FetchStep.STOPPED: (TaskState.FAILED,),
    FetchStep.DRAINING: (TaskState.DRAINING, TaskState.FAILED),
    FetchStep.AWAITS_TRUNCATION: (TaskState.RUNNING, TaskState.WAITING),
    FetchStep.AWAITS_DEAD_LETTER: (TaskState.RUNNING, TaskState.WAITING),
    FetchStep.AWAITS_UNREADABLE: (TaskState.RUNNING, TaskState.WAITING),
    FetchStep.PAUSED: (TaskState.RUNNING, TaskState.WAITING, TaskState.FAILED),
    FetchStep.MEMORY_RELEASED: (TaskState.RUNNING, TaskState.WAITING),
    FetchStep.FULL: (TaskState.RUNNING, TaskState.WAITING),
    FetchStep.AWAITS_START: (TaskState.WAITING, TaskState.FAILED),
    FetchStep.LIMITED: (TaskState.RUNNING, TaskState.WAITING, TaskState.FAILED),
    FetchStep.FETCHING: (TaskState.RUNNING, TaskState.WAITING, TaskState.FAILED),
    **{step: (TaskState.RUNNING, TaskState.WAITING) for step in SendStep if step not in FetchStep},
    NodeStep.PAUSED_BY_OPERATOR: (TaskState.PAUSED,),
    NodeStep.AWAITS_LANE: (TaskState.WAITING, TaskState.FAILED),
    NodeStep.NOT_ASSIGNED: (TaskState.WAITING,),
    NodeStep.UNKNOWN: tuple(TaskState),
}
"""The states in which a partition can be at each step: WAITING if its source or target has not answered for 10 s,
FAILED if an operator has to act."""

MEANINGS: Mapping[str, str] = {
    FetchStep.STOPPED: "a loss of records stopped the partition (`mm2.on.data.loss`), until it is accepted",
    FetchStep.DRAINING: "the partition leaves its source task; what is in flight is completed",
    FetchStep.AWAITS_TRUNCATION: "the source lost the end of its log; what is in flight is completed, then copying"
    " goes back to where the logs part",
    FetchStep.AWAITS_DEAD_LETTER: "a record that cannot be copied is being written to the dead-letter topic",
    FetchStep.AWAITS_UNREADABLE: "the next batch cannot be read, or a query failed for its record; what is before it is"
    " copied first",
    FetchStep.PAUSED: "a request failed: it is retried after a pause. If an operator has to act, the state is FAILED",
    FetchStep.MEMORY_RELEASED: "the target does not acknowledge what is in flight, and the fetched bytes were"
    " released to other partitions",
    FetchStep.FULL: "as many bytes as a partition may hold wait for the target. Usual while the target is slower",
    FetchStep.AWAITS_START: "no offset is stored; the source is asked for its first and last ones",
    FetchStep.LIMITED: "the source has more, but `mm2.max.bytes.per.second` limits what is fetched",
    FetchStep.FETCHING: "records are fetched as they are written",
    SendStep.ROLLING_BACK: "the transaction is being aborted; its records are copied again",
    SendStep.AWAITS_SIZE_LIMIT: "the target rejected a batch as too large; its limit is being read",
    SendStep.AWAITS_START_STORED: "the chosen start is not stored yet; nothing is sent before that",
    SendStep.SETTLING: "a batch failed; the answers to those that were sent after it are awaited",
    SendStep.BACKOFF: "the target rejected the last batch, or did not answer; it is sent again after a pause",
    SendStep.DIVIDING: "a batch that the target did not accept is taken apart",
    SendStep.AWAITS_PRODUCER_ID: "the target has not given a producer id yet",
    SendStep.AWAITS_BOUNDARY: "a batch that the target may have is fetched again, to repeat it as it was",
    SendStep.PACKING: "a batch is being rebuilt",
    SendStep.WRITING: "routed records are being written",
    SendStep.AWAITS_QUERY: "records pass through the query",
    SendStep.IN_FLIGHT: "batches were sent, and are not acknowledged yet",
    SendStep.READY: "a batch is ready to be sent",
    SendStep.IDLE: "there is nothing to send",
    NodeStep.PAUSED_BY_OPERATOR: "`mm2 pause` paused the topic or the flow",
    NodeStep.AWAITS_LANE: "a node has the source task, and no lane copies it yet",
    NodeStep.NOT_ASSIGNED: "no node has the source task",
    NodeStep.UNKNOWN: "the node that copies the partition did not answer",
}
"""What each step means, for the table in docs/reference/steps.md."""

_USUAL_AT_SOURCE = frozenset({FetchStep.FETCHING, FetchStep.LIMITED, FetchStep.FULL})
_USUAL = frozenset({SendStep.PACKING, SendStep.IN_FLIGHT, SendStep.READY, SendStep.IDLE})


def shown_step(fetching: StepReport, sending: StepReport) -> StepReport:
    """Return the step that explains what a partition does: that of the source, unless only the target is waited for."""
    if fetching.step not in _USUAL_AT_SOURCE or sending.step in _USUAL:
        return fetching
    return sending
