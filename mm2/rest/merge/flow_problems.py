"""The problems of a flow, each reported once and with its place: for /health, ``mm2 status`` and the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mm2.core.coordination.pauses import pause_message
from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import FlowStatus, TopicStatus

NO_REASON = "no reason given"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProblem:
    """One problem. ``place`` is a task, topic or partition, or empty for the flow; ``state`` is its state."""

    place: str = ""
    state: TaskState
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason


def flow_problems(flow: FlowStatus) -> list[FlowProblem]:
    """Return the problems of the flow itself, then those of its tasks, topics and partitions.

    A reason of the flow that repeats one of the latter is left out. If the flow is not RUNNING, has no reason of its
    own and contains nothing FAILED, the first task, topic or partition in the same state explains it; without any, the
    problem has no reason. What an operator paused is no problem (`pause_of`), and explains why a flow is PAUSED.
    """
    placed = _placed(flow)
    known = _reasons(placed)
    paused = flow.state is TaskState.PAUSED and pause_of(flow) is not None
    state = TaskState.RUNNING if paused else flow.state
    own = [FlowProblem(state=state, reason=reason) for reason in flow.reasons if reason not in known]
    if paused:
        return own + placed
    explained = own or any(problem.state is TaskState.FAILED for problem in placed)
    if flow.state is not TaskState.RUNNING and not explained:
        cause = next((problem for problem in placed if problem.state is flow.state), None)
        own = [FlowProblem(state=flow.state, reason=NO_REASON if cause is None else str(cause))]
        placed = [problem for problem in placed if problem is not cause]
    return own + placed


def pause_of(flow: FlowStatus) -> FlowProblem | None:
    """Return what an operator paused; None: nothing. Its state is PAUSED only if all of the flow is."""
    message = pause_message(flow.paused)
    if message is None:
        return None
    return FlowProblem(state=TaskState.PAUSED if flow.state is TaskState.PAUSED else TaskState.RUNNING, reason=message)


def placed_reasons(flow: FlowStatus) -> set[str]:
    """Return the problems of tasks, topics and partitions in each form in which the flow's reasons can repeat them."""
    return _reasons(_placed(flow))


def _placed(flow: FlowStatus) -> list[FlowProblem]:
    return [*_of_tasks(flow), *(problem for topic in flow.topics for problem in _of_topic(topic))]


def _reasons(placed: Iterable[FlowProblem]) -> set[str]:
    return {problem.reason for problem in placed} | {str(problem) for problem in placed}


def _of_tasks(flow: FlowStatus) -> Iterator[FlowProblem]:
    for task in flow.tasks:
        if task.error is not None or task.state is TaskState.FAILED:
            yield FlowProblem(place=f"task {task.id} on {task.node}", state=task.state, reason=task.error or NO_REASON)


def _of_topic(topic: TopicStatus) -> Iterator[FlowProblem]:
    """Yield the topic's own problem, if any, and those of its partitions, which also determine the topic's state."""
    partitions = [
        FlowProblem(
            place=f"topic {topic.topic} partition {partition.partition}",
            state=partition.state,
            reason=partition.error or NO_REASON,
        )
        for partition in topic.partitions
        if partition.error is not None or partition.state is TaskState.FAILED
    ]
    explained = any(problem.state is TaskState.FAILED for problem in partitions)
    if topic.error is not None or (topic.state is TaskState.FAILED and not explained):
        yield FlowProblem(place=f"topic {topic.topic}", state=topic.state, reason=topic.error or NO_REASON)
    yield from partitions
