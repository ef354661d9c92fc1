from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mm2.core.lease import TaskState
from mm2.kafka.errors import SecuritySettingsInvalid
from mm2.node.checkpoint_rounds import about_some
from mm2.node.checkpoint_tally import CheckpointTally
from mm2.node.tasks.checkpoint import CheckpointTask, reason_for_none
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
def test_a_flow_without_checkpoints_knows_why(tmp_path: Path, lines: str, words: str | None) -> None:
    reason = reason_for_none(flow(tmp_path, lines))
    assert (words is None) is (reason is None)
    assert (words or "") in (reason or "")


def test_one_sentence_for_many_groups() -> None:
    assert about_some("offsets of {} fail", {"g": "why"}) == "offsets of group g fail: why"
    assert about_some("offsets of {} fail", {"g": "why", "h": "x"}) == "offsets of group g and 1 more fail: why"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (KeyError("a broker left it out"), "checkpoints: an unexpected error, see the log; they begin again"),
        (SecuritySettingsInvalid("cluster B: no CA"), "checkpoints: cluster B: no CA"),
    ],
)
async def test_what_goes_wrong_with_checkpoints_does_not_end_the_copying(
    tmp_path: Path, error: Exception, sentence: str
) -> None:
    lives = 0

    class Failing(CheckpointTask):
        async def _work(self) -> None:
            nonlocal lives
            lives += 1
            raise error

    task = Failing(flow(tmp_path, ""), offsets_partitions=25, node_id="n", tally=CheckpointTally())
    running = asyncio.create_task(task.run())
    await until(lambda: lives == 2, 10.0, "it begins again")
    status = task.status()
    assert (status.state, status.error, running.done()) == (TaskState.FAILED, sentence, False)
    running.cancel()
    await asyncio.wait([running])
