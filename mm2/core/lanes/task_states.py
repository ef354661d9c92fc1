"""The states of tasks, and the summary of several states as one."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class TaskState(StrEnum):
    """States as shown by the REST interface."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    DRAINING = "DRAINING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


_WORST_FIRST = (
    TaskState.FAILED,
    TaskState.WAITING,
    TaskState.DRAINING,
    TaskState.PAUSED,
    TaskState.RUNNING,
    TaskState.STOPPED,
)


def worst(states: Iterable[TaskState], default: TaskState = TaskState.RUNNING) -> TaskState:
    """Return the state that most needs attention."""
    found = set(states)
    return next((state for state in _WORST_FIRST if state in found), default)


def without_pauses(states: Iterable[TaskState]) -> list[TaskState]:
    """Return the states that count for a flow of which an operator paused only a part: it runs."""
    return [state for state in states if state is not TaskState.PAUSED]
