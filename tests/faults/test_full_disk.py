"""The disk of the target broker fills up: the broker exits, the flow waits, and resumes when there is space again."""

from __future__ import annotations

import pytest

from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.settings import one_flow
from tests.lab.small_disk import SmallDisk
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

FULL, ROOMY = 24, 512  # MB: internal topics take a few, then the records fill the rest within seconds
VALUE_BYTES, PER_SECOND = 2_000, 2_000
FILLED = 90.0  # seconds until a broker that cannot write has exited
NOTICED = 60.0
COPIED = 90.0


@pytest.mark.needs("root")
def test_full_target_disk_loses_nothing() -> None:
    target = KafkaCluster("target")
    broker = target.broker(1)
    with (
        SmallDisk(broker.directory / scratch.DATA, FULL) as disk,
        target,
        KafkaCluster("source") as source,
        Node(one_flow(source, target, topics="t-.*") | {"mm2.lanes": "1"}) as node,
    ):
        node.wait_running()
        topic = source.create_topic("t-full", 2)
        with Load(source, topic, partitions=2, per_second=PER_SECOND, value_bytes=VALUE_BYTES, codec="none") as load:
            wait_until(lambda: not broker.process.running, FILLED, "the broker with the full disk has exited")
            assert "No space left on device" in broker.process.output()
            wait_until(lambda: node.health().get("status") == "DOWN", NOTICED, "the node reports that it cannot copy")
            assert node.process.running
            load.stop()
        disk.grow(ROOMY)
        broker.restart()
        wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED, repeats_allowed=True)
        node.wait_running()
