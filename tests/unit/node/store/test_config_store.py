"""The config topic as seen by a node."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.node.store.config_store import ConfigStore
from tests.lab.waiting import until
from tests.unit.config import files


async def test_a_permanent_error_of_the_topic_is_reported_and_does_not_end_the_flow(tmp_path: Path) -> None:
    async with Cluster(ClientSettings(bootstrap_servers=("localhost:1",))) as closed:
        pass
    store = ConfigStore(files.flow(tmp_path), closed, on_change=lambda: None, on_command=lambda _: None)
    following = asyncio.create_task(store.follow())
    try:
        await until(lambda: following.done() or store.error.text, 10, "the error is reported")
        assert not following.done()
        assert "cannot read mm2-configs.A.internal: " in str(store.error.text)
        assert "copying continues" in str(store.error.text)
    finally:
        following.cancel()
        await asyncio.wait([following])
