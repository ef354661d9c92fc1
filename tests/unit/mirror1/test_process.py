"""The order in which a mirror starts: its lanes run first, then it joins the group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mm2.mirror1.process import _Mirror
from mm2.node.engine.lease_service import Wake
from tests.lab.waiting import until
from tests.unit.config.mirror1 import files
from tests.unit.node.engine.lane_boards import carried_out, grant

SOON = 10.0  # seconds
LANES_RUN = "joining group mirror"
ASKS_SOURCE = "cannot list the topics of the source yet"


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mm2.mirror1")


@asynccontextmanager
async def starting(directory: Path) -> AsyncIterator[_Mirror]:
    """A mirror with two streams, of a source that does not answer. Its lanes are asked for, and do not run yet."""
    start = (files.CONSUMER.replace("a:9092", "localhost:1"), files.PRODUCER.replace("b:9092", "localhost:2"))
    settings = files.loaded(directory, start=start).settings
    assert settings is not None
    mirror = _Mirror(replace(settings, streams=2))
    mirror._engine.leases.keep_all_lanes_running()
    running = asyncio.create_task(mirror._mirror(0, settings.consumers[0], None))
    try:
        yield mirror
    finally:
        mirror._ending.set()
        await running
        mirror._engine.kill()


async def test_nothing_else_is_done_until_all_lanes_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Until then, the other members of the group copy all partitions."""
    async with starting(tmp_path) as mirror:
        leases = mirror._engine.leases
        waits = f"waiting for Spark and its lanes ({leases.capacity}) before joining group mirror"
        await until(lambda: waits in caplog.messages, SOON, "it says what it waits for")
        for lane in range(leases.capacity):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await until(lambda: len(caplog.messages) > 1, SOON, "it does something else")
            carried_out(leases.board, lane, grant(leases.board, lane))
            leases.wake(Wake.REPORT)
        await until(lambda: ASKS_SOURCE in caplog.text, SOON, "it asks the source for the topics to join with")
        said = caplog.messages
    assert said[0] == waits
    assert said[1].startswith("Spark and its lanes run after ")
    assert said[1].endswith(f": {LANES_RUN}")
    assert said[2].startswith(f"{ASKS_SOURCE}: ")
    assert mirror._streams == []


async def test_a_mirror_that_ends_before_its_lanes_run_does_not_join(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with starting(tmp_path):
        await until(lambda: len(caplog.messages) == 1, SOON, "it waits for Spark")
    assert len(caplog.messages) == 1
