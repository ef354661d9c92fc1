"""The end of ``kafka-mirror-maker`` after a failure: no stream continues without the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.mirror1 import MM2, Mirror1
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.records import Outgoing, write

pytestmark = pytest.mark.timeout(300)

ENDS = 60.0
EARLIEST = {"auto.offset.reset": "earliest"}


def test_a_failure_to_send_while_another_source_is_unreachable(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, tmp_path: Path
) -> None:
    topic, group = unique_name("orders"), unique_name("mirror")
    cluster_a.create_topic(topic, 1)
    cluster_b.create_topic(topic, 1, config={"max.message.bytes": "10000"})
    write(cluster_a.bootstrap, topic, [Outgoing(key=None, value=b"x" * 20_000, partition=0)])
    port = reserve_port()
    unreachable = tmp_path / "unreachable.properties"
    unreachable.write_text(f"bootstrap.servers={HOST}:{port}\ngroup.id={group}\n", "utf-8")
    options = ("--include", topic, "--consumer.config", str(unreachable))
    try:
        with Mirror1(MM2, cluster_a, cluster_b, *options, group=group, consumer=EARLIEST) as mirror:
            assert mirror.process.wait(ENDS, "it ends") == 1
    finally:
        release_port(port)
    said = mirror.process.output()
    assert "stopping, because --abort.on.send.failure is true" in said
    assert "Traceback" not in said
