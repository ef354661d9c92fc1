"""What is said of the configuration that Java left in mm2-configs when a flow is taken over (docs/migrating.md)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import javaproperties
import pytest
from confluent_kafka import Producer

from mm2.config.flow_clients import ClientRole
from mm2.config.load import load
from mm2.config.settings import FlowSettings
from mm2.kafka.cluster import Cluster
from mm2.node.predecessor import tell_differences
from tests.lab.cluster import KafkaCluster
from tests.lab.settings import one_flow
from tests.parity.guide import MIGRATING, promised_lines

STORED_MS = 1_700_000_000_000
SOURCE = b"connector-MirrorSourceConnector"


@pytest.fixture
def flow(
    tmp_path: Path, cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> FlowSettings:
    """Flow A->B for ``orders``, with a configs topic of its own."""
    properties = one_flow(cluster_a, cluster_b, topics="orders") | {"B.config.storage.topic": unique("configs")}
    file = tmp_path / "mm2.properties"
    file.write_text(javaproperties.dumps(properties, timestamp=False))
    settings = load(file).settings
    assert settings is not None
    cluster_b.create_topic(settings.flows[0].storage.configs.name, config={"cleanup.policy": "compact"})
    return settings.flows[0]


async def told(
    flow: FlowSettings, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture, *records: tuple[bytes, bytes | None]
) -> list[str]:
    """What the log says when ``records`` are in the topic."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for key, value in records:
        producer.produce(flow.storage.configs.name, value, key, partition=0, timestamp=STORED_MS)
    assert producer.flush(30) == 0
    with caplog.at_level(logging.INFO, logger="mm2.node.predecessor"):
        async with Cluster(flow.clients.of(ClientRole.SHARED_ADMIN)) as target:
            await tell_differences(flow, target)
    return caplog.messages


def stored(**properties: str) -> bytes:
    return json.dumps({"properties": {"enabled": "true"} | properties}).encode()


async def test_another_file_than_javas_is_told(
    flow: FlowSettings, cluster_b: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = stored(topics="payments"), stored(topics="payments, orders")
    (said,) = await told(
        flow, cluster_b, caplog, (SOURCE, old), (SOURCE, new), (b"commit-MirrorSourceConnector", b"{}")
    )
    (promised,) = (line for line in promised_lines(MIGRATING) if "differs" in line)
    assert said.startswith(promised)
    assert "2023-11-14 22:13 UTC" in said
    assert said.endswith("topics = orders (was payments, orders)")


async def test_the_same_file_is_no_news(
    flow: FlowSettings, cluster_b: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    assert await told(flow, cluster_b, caplog, (SOURCE, stored(topics="orders"))) == []


async def test_a_connector_that_was_deleted_is_no_news(
    flow: FlowSettings, cluster_b: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    assert await told(flow, cluster_b, caplog, (SOURCE, stored(topics="payments")), (SOURCE, None)) == []


@pytest.mark.parametrize("value", [b"\xff", b"[]", b'{"properties": 7}', b"{}"])
async def test_garbage_is_passed_over(
    flow: FlowSettings, cluster_b: KafkaCluster, caplog: pytest.LogCaptureFixture, value: bytes
) -> None:
    (said,) = await told(flow, cluster_b, caplog, (SOURCE, value))
    assert said.endswith("is not a configuration that Java wrote")
