from __future__ import annotations

import pytest

from mm2.core.tasks import TaskId, TaskKind, share_groups


def test_tasks_have_java_s_names() -> None:
    task = TaskId(TaskKind.SOURCE, 12)
    assert str(task) == "MirrorSourceConnector-12"
    assert TaskId.parse("MirrorSourceConnector-12") == task
    assert TaskId(TaskKind.CHECKPOINT, 0) < TaskId(TaskKind.HEARTBEAT, 0) < task


@pytest.mark.parametrize("text", ["", "MirrorSourceConnector", "MirrorSourceConnector-", "Other-1", "Other--1"])
def test_what_is_no_task(text: str) -> None:
    with pytest.raises(ValueError, match="is n"):
        TaskId.parse(text)


def test_groups_are_shared_out_in_contiguous_parts_the_first_ones_longer() -> None:
    groups = [f"g{number}" for number in range(7)]
    assert share_groups(reversed(groups), tasks_max=3) == (("g0", "g1", "g2"), ("g3", "g4"), ("g5", "g6"))


def test_never_more_tasks_than_groups() -> None:
    assert share_groups(["b", "a", "b"], tasks_max=5) == (("a",), ("b",))
    assert share_groups([], tasks_max=5) == ()


def test_without_a_task_no_group_is_translated() -> None:
    with pytest.raises(ValueError, match=r"tasks\.max is 0"):
        share_groups(["a"], tasks_max=0)
