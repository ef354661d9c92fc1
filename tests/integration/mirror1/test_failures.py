"""The end of ``kafka-mirror-maker`` after a failure: no stream continues without the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.mirror1 import user_classes
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.fixtures import unique_name
from tests.lab.history import count, read_topic
from tests.lab.load import Load
from tests.lab.mirror1 import MM2, Mirror1, committed
from tests.lab.node import RUNS_WITHIN
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.records import Outgoing, write
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

ENDS = RUNS_WITHIN  # a start of Spark included
RECORDS = 1_000
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


def test_the_failure_of_one_stream(cluster_a: KafkaCluster, cluster_b: KafkaCluster, tmp_path: Path) -> None:
    """The other stream of the source completes what is in flight and commits it before the process ends."""
    topic, group, fail = unique_name("orders"), unique_name("mirror"), tmp_path / "fail"
    for cluster in (cluster_a, cluster_b):
        cluster.create_topic(topic, 2)
    options = (
        *("--include", f"{topic}.*", "--num.streams", "2"),
        *(
            "--consumer.rebalance.listener",
            f"{user_classes.__name__}:FailsOnce",
            "--rebalance.listener.args",
            str(fail),
        ),
    )
    consumer = {**EARLIEST, "metadata.max.age.ms": "1000"}
    env = {"PYTHONPATH": str(ROOT)}
    with Load(cluster_a, topic, partitions=2, per_second=500) as load:
        with Mirror1(MM2, cluster_a, cluster_b, *options, group=group, consumer=consumer, env=env) as mirror:
            wait_until(lambda: count(read_topic(cluster_b.bootstrap, topic)) > RECORDS, ENDS, "both copy")
            fail.touch()
            cluster_a.create_topic(f"{topic}-later", 1)
            assert mirror.process.wait(ENDS, "it ends") == 1
        load.stop()
    said = mirror.process.output()
    assert "RuntimeError: cannot use " in said
    assert "stopped: no records are in flight, and all offsets are committed" in said
    copied = read_topic(cluster_b.bootstrap, topic)
    assert committed(cluster_a, group, topic, 2) == [len(copied[partition]) for partition in range(2)]
