"""Batches of internal topics that no honest program writes: they are skipped and counted, and reading continues."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from mm2.core.coordination import skips
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.wire.status_records import ConnectState, Status, encode_status, task_key
from mm2.kafka.logs.stored_records import MAX_UNCOMPRESSED
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.status_store import StatusStore
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.records import Outgoing, write
from tests.lab.waiting import until
from tests.unit.config import files

SOON = 60.0  # seconds
BATCHES = 3
SKIPS = skips.NO_SKIPS.skip(TopicPartition("orders", 0), 7)
TASK = "MirrorSourceConnector-0"
RUNNING = Status(state=ConnectState.RUNNING, worker_id="one", generation=1)


def write_behind_unreadable(kafka: KafkaCluster, topic: str, record: Outgoing) -> None:
    """Write batches of some kB that decompress to more than is read, and a record behind them."""
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "compression.type": "zstd",
            "message.max.bytes": 2 * MAX_UNCOMPRESSED,
            "log_level": 0,
        }
    )
    for _ in range(BATCHES):
        producer.produce(topic, key=b"k", value=bytes(MAX_UNCOMPRESSED + 1), partition=0)
        assert producer.flush(SOON) == 0
    write(kafka.bootstrap, topic, [record])


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for name, level, line in caplog.record_tuples if level >= logging.WARNING and name != "aiokafka"]


async def test_the_config_topic(
    cluster_b: KafkaCluster, unique: Callable[[str], str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster_b.create_topic(unique("mm2-configs"), config={"cleanup.policy": "compact"})
    write_behind_unreadable(cluster_b, topic, Outgoing(key=skips.KEY, value=skips.encode_skips(SKIPS)))
    settings = files.flow(tmp_path, f"B.config.storage.topic = {topic}\n")
    async with connected(cluster_b) as cluster:
        store = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
        await store.read_to_end()
    assert store.skips == SKIPS
    assert store.skipped.count == BATCHES
    (line,) = logged(caplog)
    assert f"A->B: skipped a record of {topic}, partition 0 offset 0: the batch cannot be read: " in line


async def test_the_status_topic(
    cluster_b: KafkaCluster, unique: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster_b.create_topic(unique("mm2-status"), config={"cleanup.policy": "compact"})
    write_behind_unreadable(cluster_b, topic, Outgoing(key=task_key(TASK), value=encode_status(RUNNING)))
    store = StatusStore(Flow("A", "B"), topic)
    async with connected(cluster_b) as cluster:
        following = asyncio.create_task(store.follow(cluster))
        try:
            await until(lambda: store.tasks() == {TASK: RUNNING}, SOON, "the record behind the batches is read")
        finally:
            following.cancel()
            await asyncio.wait([following])
    assert store.skipped.count == BATCHES
    (line,) = logged(caplog)
    assert f"A->B: skipped a record of {topic}, partition 0 offset 0: the batch cannot be read: " in line
