from __future__ import annotations

import pytest

from mm2.core.tasks import TaskId, TaskKind


def test_tasks_have_java_s_names() -> None:
    task = TaskId(TaskKind.SOURCE, 12)
    assert str(task) == "MirrorSourceConnector-12"
    assert TaskId.parse("MirrorSourceConnector-12") == task
    assert TaskId(TaskKind.CHECKPOINT, 0) < TaskId(TaskKind.HEARTBEAT, 0) < task


@pytest.mark.parametrize("text", ["", "MirrorSourceConnector", "MirrorSourceConnector-", "Other-1", "Other--1"])
def test_what_is_no_task(text: str) -> None:
    with pytest.raises(ValueError, match="is n"):
        TaskId.parse(text)
