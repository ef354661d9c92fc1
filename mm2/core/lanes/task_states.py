"""The summary of several task states as one state."""

from __future__ import annotations

from collections.abc import Iterable

from mm2.core.lanes.lease import TaskState

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
