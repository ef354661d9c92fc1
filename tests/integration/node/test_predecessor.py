"""Comparison with the configuration that Java stored in mm2-configs, at a migration (docs/how-to/migrating.md)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path

import javaproperties
import pytest
from confluent_kafka import Producer

from mm2.cli.run.java_takeover import taken_as_java
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.load import load
from mm2.config.reload.sources import LoadedConfig, take
from mm2.config.settings import FlowSettings
from mm2.kafka.client.cluster import Cluster
from mm2.node.leader.leader_term import log_differences
from tests.lab.cluster import KafkaCluster
from tests.lab.guide import MIGRATING, promised_lines
from tests.lab.settings import one_flow

STORED_MS = 1_700_000_000_000
SOURCE = b"connector-MirrorSourceConnector"


@pytest.fixture
def flow(
    tmp_path: Path, cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> FlowSettings:
    """Flow A->B for ``orders``, with a separate configs topic."""
    properties = one_flow(cluster_a, cluster_b, topics="orders") | {"B.config.storage.topic": unique("configs")}
    file = tmp_path / "mm2.properties"
    file.write_text(javaproperties.dumps(properties, timestamp=False))
    settings = load(file).settings
    assert settings is not None
    cluster_b.create_topic(settings.flows[0].storage.configs.name, config={"cleanup.policy": "compact"})
    return settings.flows[0]


async def logged(
    flow: FlowSettings, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture, *records: tuple[bytes, bytes | None]
) -> list[str]:
    """Return the log messages if ``records`` are in the configs topic."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for key, value in records:
        producer.produce(flow.storage.configs.name, value, key, partition=0, timestamp=STORED_MS)
    assert producer.flush(30) == 0
    with caplog.at_level(logging.INFO, logger="mm2.node.leader.leader_term"):
        async with Cluster(flow.clients.of(ClientRole.SHARED_ADMIN)) as target:
            await log_differences(flow, target)
    return caplog.messages


def stored(**properties: str) -> bytes:
    return json.dumps({"properties": {"enabled": "true"} | properties}).encode()


async def test_different_configuration_is_logged(
    flow: FlowSettings, cluster_b: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = stored(topics="payments"), stored(topics="payments, orders")
    (line,) = await logged(
        flow, cluster_b, caplog, (SOURCE, old), (SOURCE, new), (b"commit-MirrorSourceConnector", b"{}")
    )
    (promised,) = (line for line in promised_lines(MIGRATING) if "differs" in line)
    assert line.startswith(promised)
    assert "2023-11-14 22:13 UTC" in line
    assert line.endswith("topics = orders (was payments, orders)")


async def test_same_configuration_is_not_logged(
    flow: FlowSettings, cluster_b: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    assert await logged(flow, cluster_b, caplog, (SOURCE, stored(topics="orders"))) == []


async def test_deleted_connector_is_not_logged(
    flow: FlowSettings, cluster_b: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    assert await logged(flow, cluster_b, caplog, (SOURCE, stored(topics="payments")), (SOURCE, None)) == []


@pytest.mark.parametrize("value", [b"\xff", b"[]", b'{"properties": 7}', b"{}"])
async def test_invalid_record_is_logged_and_ignored(
    flow: FlowSettings, cluster_b: KafkaCluster, caplog: pytest.LogCaptureFixture, value: bytes
) -> None:
    (line,) = await logged(flow, cluster_b, caplog, (SOURCE, value))
    assert line.endswith("not a configuration written by Java")


def near_miss(flow: FlowSettings, directory: Path, line: str) -> LoadedConfig:
    """Return the file of ``flow`` with another line, which is a near miss of a key."""
    file = directory / "mm2.properties"
    with file.open("a") as lines:
        lines.write(f"\n{line}\n")
    taken = take(file)
    assert taken.reading is None
    assert len(taken.near_misses) == 1
    return taken


def test_what_java_ignored_prevents_no_start(
    flow: FlowSettings, cluster_b: KafkaCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    taken = near_miss(flow, tmp_path, "A->B.topics.exlude = secret.*")
    assert taken_as_java(taken) == (taken, remark_of(tmp_path, "errors: Java MirrorMaker 2 has not run A->B"))
    asyncio.run(logged(flow, cluster_b, caplog, (SOURCE, stored(topics="payments"))))
    again, remark = taken_as_java(taken)
    assert again is taken
    assert remark.endswith("Java MirrorMaker 2 ran A->B with other settings: topics = orders (was payments)")
    asyncio.run(logged(flow, cluster_b, caplog, (SOURCE, stored(topics="orders"))))
    again, remark = taken_as_java(taken)
    assert remark == remark_of(tmp_path, "warnings: Java MirrorMaker 2 ran A->B with the same topics and groups")
    assert again.reading is not None
    (warning,) = [problem for problem in again.problems if problem.key == "A->B.topics.exlude"]
    assert warning.is_warning
    assert warning.rule.startswith("unknown property, ignored as in Java")
    with (tmp_path / "mm2.properties").open("a") as lines:  # a later one is an error: Java has not run with it
        lines.write("A->B.topics.exclud = more.*\n")
    assert take(taken.path, accepted=again.accepted).reading is None


def remark_of(directory: Path, end: str) -> str:
    return f"{directory}/mm2.properties: lines that look like a key which selects or protects data are {end}"
