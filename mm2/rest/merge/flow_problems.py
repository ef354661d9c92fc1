"""The problems of a flow, grouped by cause and each reported once: for /health, ``mm2 status`` and the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mm2.core.coordination.pauses import pause_message
from mm2.core.lanes.task_states import TaskState
from mm2.core.problems.grouped_problems import (
    GroupedProblem,
    PlacedProblem,
    grouped,
    partitions_in_words,
    without_message,
)
from mm2.node.status.status_model import FlowStatus, PartitionStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProblem:
    """One cause. ``place`` is a task, a topic, a partition or several of them in words, or empty for the flow itself;
    ``state`` is their state. ``members`` are the single places; that of the flow is empty."""

    place: str = ""
    state: TaskState
    reason: str
    members: tuple[str, ...] = ("",)

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason

    @property
    def counts(self) -> bool:
        """Whether it makes an enabled flow unhealthy: something is FAILED, or the flow does not run.

        What an operator paused is none, and neither are warnings of a flow that runs.
        """
        if self.state is TaskState.FAILED:
            return True
        return not self.place and self.state not in (TaskState.RUNNING, TaskState.PAUSED)


def flow_problems(flow: FlowStatus) -> list[FlowProblem]:
    """Return the problems of the flow itself, then those of its tasks, topics and partitions.

    A reason of the flow that repeats one of the latter is left out. If the flow is not RUNNING, has no reason of its
    own and contains nothing FAILED, a cause in the same state explains it; without any, its state does. What an
    operator paused is no problem (`pause_of`), and explains why a flow is PAUSED.
    """
    places = _placed(flow)
    placed = [_of_group(one) for one in grouped(places)]
    known = _forms(places)
    state = TaskState.RUNNING if flow.state is TaskState.PAUSED else flow.state
    own = [FlowProblem(state=state, reason=reason) for reason in flow.reasons if reason and reason not in known]
    explained = own or any(problem.state is TaskState.FAILED for problem in placed)
    if state is not TaskState.RUNNING and not explained:
        cause = next((problem for problem in placed if problem.state is flow.state), None)
        own = [FlowProblem(state=state, reason=_why(flow) if cause is None else str(cause))]
        placed = [problem for problem in placed if problem is not cause]
    return own + placed


def pause_of(flow: FlowStatus) -> FlowProblem | None:
    """Return what an operator paused; None: nothing. Its state is PAUSED only if all of the flow is."""
    message = pause_message(flow.paused, flow.paused_since, flow.paused_by)
    if message is None and flow.state is TaskState.PAUSED:
        message = "paused by an operator; this node does not know since when"
    if message is None:
        return None
    return FlowProblem(state=TaskState.PAUSED if flow.state is TaskState.PAUSED else TaskState.RUNNING, reason=message)


def placed_reasons(flow: FlowStatus) -> set[str]:
    """Return the problems of tasks, topics and partitions in each form in which the flow's reasons can repeat them."""
    return _forms(_placed(flow))


def topic_reasons(flow: FlowStatus) -> set[str]:
    """Return those of `placed_reasons` that are about topics and partitions."""
    return _forms([problem for topic in flow.topics for problem in topic.problems()])


def _placed(flow: FlowStatus) -> list[PlacedProblem]:
    tasks = [task.problem for task in flow.tasks]
    return [
        *(problem for problem in tasks if problem is not None),
        *(problem for topic in flow.topics for problem in topic.problems()),
    ]


def _forms(places: list[PlacedProblem]) -> set[str]:
    forms = {form for one in places if one.reason for form in (one.reason, f"{one.place}: {one.text}")}
    of_topics = [one for one in places if not one.task]  # as a node reports them, without its tasks
    return forms | {str(one) for group in (places, of_topics) for one in grouped(group)}


def _of_group(group: GroupedProblem) -> FlowProblem:
    return FlowProblem(place=group.place, state=group.state, reason=group.reason, members=group.members)


def _why(flow: FlowStatus) -> str:
    """Return the reason for a state for which no node has reported one."""
    if flow.state is TaskState.FAILED:
        return without_message("")
    if flow.state is TaskState.DRAINING:
        return "the node is draining: its tasks move to other nodes, or stop"
    parts = [(topic.topic, one) for topic in flow.topics for one in topic.partitions if one.state is flow.state]
    if parts:
        return f"{_partitions(parts)}: {_waiting_for(one for _, one in parts)}"
    tasks = [task for task in flow.tasks if task.state is flow.state and not task.only_moves]
    if tasks:
        names = ", ".join(task.id for task in tasks)
        return f"waiting for {names} to start" if flow.state is TaskState.WAITING else f"{names}: {flow.state}"
    return "waiting for its first tasks" if flow.state is TaskState.WAITING else "it has no running task"


def _partitions(parts: Iterable[tuple[str, PartitionStatus]]) -> str:
    return partitions_in_words((topic, one.partition) for topic, one in parts)


def _waiting_for(parts: Iterable[PartitionStatus]) -> str:
    nodes = sorted({one.node for one in parts})
    if not any(nodes):
        return "not assigned to a node"
    return f"not started yet on {', '.join(node or 'any node' for node in nodes)}"
