from __future__ import annotations

import pytest

from mm2.core.assignment.tasks import TaskId, TaskKind


def test_task_names_as_in_java() -> None:
    task = TaskId(TaskKind.SOURCE, 12)
    assert str(task) == "MirrorSourceConnector-12"
    assert TaskId.parse("MirrorSourceConnector-12") == task
    assert TaskId(TaskKind.CHECKPOINT, 0) < TaskId(TaskKind.HEARTBEAT, 0) < task
    assert task.label == "source"


@pytest.mark.parametrize("text", ["MirrorSchemaConnector-1", "Other-1", "a-b-3"])
def test_unknown_task_kind(text: str) -> None:
    task = TaskId.parse(text)
    assert str(task) == text
    assert task.label in ("schema", "Other", "a-b")


@pytest.mark.parametrize("text", ["", "MirrorSourceConnector", "MirrorSourceConnector-", "Other-x", "-1"])
def test_invalid_task_names(text: str) -> None:
    with pytest.raises(ValueError, match="is n"):
        TaskId.parse(text)
