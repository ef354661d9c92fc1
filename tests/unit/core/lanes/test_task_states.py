from __future__ import annotations

import pytest

from mm2.core.lanes.task_states import TaskState, without_pauses, worst


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
def test_most_severe_state(states: list[TaskState], expected: TaskState) -> None:
    assert worst(states) is expected
    assert worst(reversed(states)) is expected


def test_state_of_no_tasks() -> None:
    assert worst([], TaskState.WAITING) is TaskState.WAITING


def test_paused_states_do_not_count_where_only_a_part_is_paused() -> None:
    assert without_pauses([TaskState.PAUSED, TaskState.RUNNING, TaskState.PAUSED]) == [TaskState.RUNNING]
