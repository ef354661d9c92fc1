from __future__ import annotations

import pytest

from mm2.core.lease import TaskState
from mm2.core.task_states import worst


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], TaskState.RUNNING),
        ([TaskState.STOPPED, TaskState.RUNNING], TaskState.RUNNING),
        ([TaskState.RUNNING, TaskState.PAUSED], TaskState.PAUSED),
        ([TaskState.PAUSED, TaskState.DRAINING], TaskState.DRAINING),
        ([TaskState.DRAINING, TaskState.WAITING], TaskState.WAITING),
        ([TaskState.WAITING, TaskState.FAILED, TaskState.RUNNING], TaskState.FAILED),
    ],
)
def test_the_state_that_deserves_attention_most(states: list[TaskState], expected: TaskState) -> None:
    assert worst(states) is expected
    assert worst(reversed(states)) is expected


def test_what_nothing_is() -> None:
    assert worst([], TaskState.WAITING) is TaskState.WAITING
