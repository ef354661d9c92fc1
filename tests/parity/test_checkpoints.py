"""Checkpoints that Java's MirrorMaker made on C, beside those we make of the same offset syncs (mm2-compat §4)."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from mm2.config.load import load
from mm2.core.formats import Checkpoint
from mm2.node.checkpoint_tally import CheckpointTally
from mm2.node.tasks.checkpoint import CheckpointTask
from tests.lab.history import Partitions, read_topic
from tests.lab.settings import ONE_COPY
from tests.lab.waiting import until
from tests.parity.internal_records import stored
from tests.parity.story import CHECKPOINTS, OFFSETS, READ_TO, READERS, STILL, Story

pytestmark = pytest.mark.timeout(600)  # the first test plays the story

SOON = 30.0  # seconds for a few checkpoints


def last(records: Partitions) -> dict[bytes, bytes]:
    """The folded topic."""
    return {one.key: one.value for one in stored(records)}


def complete(story: Story, topic: str) -> bool:
    """Whether there is a record for each group on A."""
    return len(last(read_topic(story.a.bootstrap, topic))) > len(READ_TO)


async def test_the_same_bytes_of_the_same_syncs(story: Story, tmp_path: Path) -> None:
    """Our task for flow A->C, but that it writes on A, where nobody else keeps checkpoints."""
    lines = {
        "clusters": "A, C",
        "A.bootstrap.servers": story.a.bootstrap,
        "C.bootstrap.servers": story.a.bootstrap,
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
    story.a.create_topic(OFFSETS, 25, config={"cleanup.policy": "compact"})
    task = CheckpointTask(settings.flows[0], offsets_partitions=25, node_id="node-1", tally=CheckpointTally())
    run = asyncio.create_task(task.run())
    try:
        for topic in (CHECKPOINTS, OFFSETS):
            await until(partial(complete, story, topic), SOON, f"all groups are in {topic}")
    finally:
        run.cancel()
        await asyncio.wait([run])
    by_java = last(story.checkpoints_on_c)
    assert {Checkpoint.decode(key, value).group for key, value in by_java.items()} == {
        READERS,
        *(f"{READERS}-{offset}" for offset in READ_TO),
    }
    assert last(read_topic(story.a.bootstrap, CHECKPOINTS)) == by_java
    ours, java = (
        {one.partition for one in stored(read_topic(*where))}
        for where in (
            (story.a.bootstrap, CHECKPOINTS),
            (story.c.bootstrap, CHECKPOINTS),
        )
    )
    assert ours == java == {0}
    keys = {one.key for one in stored(read_topic(story.a.bootstrap, OFFSETS))}
    java_keys = {one.key for one in stored(read_topic(story.c.bootstrap, OFFSETS)) if b"MirrorCheckpoint" in one.key}
    assert keys == java_keys
