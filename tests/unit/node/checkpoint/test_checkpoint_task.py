from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mm2.core.lanes.task_states import TaskState
from mm2.kafka.errors import SecuritySettingsInvalid
from mm2.node.checkpoint.checkpoint_log import CheckpointMetrics
from mm2.node.checkpoint.checkpoint_task import CheckpointTask, reason_for_none
from mm2.node.checkpoint.group_errors import about_groups
from tests.lab.waiting import until
from tests.unit.config.files import flow


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", None),
        ("A->B.enabled = false\n", "the flow is not enabled"),
        ("emit.checkpoints.enabled = false\n", "emit.checkpoints.enabled is false"),
        ("emit.checkpoints.interval.seconds = -1\n", "or the interval is negative"),
        ("emit.offset-syncs.enabled = false\n", "emit.offset-syncs.enabled is false"),
    ],
)
def test_the_reason_for_no_checkpoints(tmp_path: Path, lines: str, words: str | None) -> None:
    reason = reason_for_none(flow(tmp_path, lines))
    assert (words is None) is (reason is None)
    assert (words or "") in (reason or "")


def test_one_message_for_many_groups() -> None:
    assert about_groups("offsets of {} fail", {"g": "why"}) == "offsets of group g fail: why"
    assert about_groups("offsets of {} fail", {"g": "why", "h": "x"}) == "offsets of group g and 1 more fail: why"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("a broker left it out"), "checkpoint task failed unexpectedly; restarting (see the log)"),
        (SecuritySettingsInvalid("cluster B: no CA"), "cannot run the checkpoint task: cluster B: no CA"),
    ],
)
async def test_a_failing_checkpoint_task_is_restarted(tmp_path: Path, error: Exception, message: str) -> None:
    lives = 0

    class Failing(CheckpointTask):
        async def _work(self) -> None:
            nonlocal lives
            lives += 1
            raise error

    task = Failing(flow(tmp_path, ""), offsets_partitions=25, node_id="n", checkpoint_metrics=CheckpointMetrics())
    running = asyncio.create_task(task.run())
    await until(lambda: lives == 2, 10.0, "it is restarted")
    status = task.status()
    assert (status.state, status.error, running.done()) == (TaskState.FAILED, message, False)
    running.cancel()
    await asyncio.wait([running])
