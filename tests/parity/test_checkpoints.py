"""Checkpoints that Java's MirrorMaker wrote on C, compared to mm2's from the same offset syncs."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from mm2.config.load import load
from mm2.core.wire.formats import Checkpoint
from mm2.node.checkpoint.checkpoint_log import CheckpointMetrics
from mm2.node.checkpoint.checkpoint_task import CheckpointTask
from tests.lab.history import Partitions, read_topic
from tests.lab.settings import ONE_COPY
from tests.lab.waiting import until
from tests.parity.internal_records import stored
from tests.parity.scenario import CHECKPOINTS, OFFSETS, READ_TO, READERS, STILL, Scenario

pytestmark = pytest.mark.timeout(600)  # the first test runs the scenario

SOON = 30.0  # seconds for a few checkpoints


def last(records: Partitions) -> dict[bytes, bytes]:
    """Return the last value of each key."""
    return {one.key: one.value for one in stored(records)}


def complete(scenario: Scenario, topic: str) -> bool:
    """Return whether there is a record for each group on A."""
    return len(last(read_topic(scenario.a.bootstrap, topic))) > len(READ_TO)


async def test_same_syncs_give_same_checkpoint_bytes(scenario: Scenario, tmp_path: Path) -> None:
    """Run mm2's task of flow A->C, but let it write to A, which has no other checkpoints."""
    lines = {
        "clusters": "A, C",
        "A.bootstrap.servers": scenario.a.bootstrap,
        "C.bootstrap.servers": scenario.a.bootstrap,
        "A->C.enabled": "true",
        "topics": STILL,
        "mm2.offset.translation": "compatible",
        "emit.checkpoints.interval.seconds": "1",
        **ONE_COPY,
    }
    file = tmp_path / "mm2.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    settings = load(file).settings
    assert settings is not None
    scenario.a.create_topic(OFFSETS, 25, config={"cleanup.policy": "compact"})
    task = CheckpointTask(
        settings.flows[0], offsets_partitions=25, node_id="node-1", checkpoint_metrics=CheckpointMetrics()
    )
    run = asyncio.create_task(task.run())
    try:
        for topic in (CHECKPOINTS, OFFSETS):
            await until(partial(complete, scenario, topic), SOON, f"all groups are in {topic}")
    finally:
        run.cancel()
        await asyncio.wait([run])
    by_java = last(scenario.checkpoints_on_c)
    assert {Checkpoint.decode(key, value).group for key, value in by_java.items()} == {
        READERS,
        *(f"{READERS}-{offset}" for offset in READ_TO),
    }
    assert last(read_topic(scenario.a.bootstrap, CHECKPOINTS)) == by_java
    ours, java = (
        {one.partition for one in stored(read_topic(*where))}
        for where in (
            (scenario.a.bootstrap, CHECKPOINTS),
            (scenario.c.bootstrap, CHECKPOINTS),
        )
    )
    assert ours == java == {0}
    keys = {one.key for one in stored(read_topic(scenario.a.bootstrap, OFFSETS))}
    java_keys = {one.key for one in stored(read_topic(scenario.c.bootstrap, OFFSETS)) if b"MirrorCheckpoint" in one.key}
    assert keys == java_keys
