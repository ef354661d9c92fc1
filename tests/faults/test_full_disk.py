"""Disks fill up: that of the target broker, which exits, and that of the node. The flow resumes when there is space."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.faults.mode import OURS, Mode
from tests.integration.flows.lane import copying
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import end_offset_sum
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.settings import one_flow
from tests.lab.small_disk import SmallDisk
from tests.lab.verify import Verdict, wait_until_copied
from tests.lab.waiting import until, wait_until

FULL, ROOMY = 24, 512  # MB: internal topics take a few, then the records fill the rest within seconds
VALUE_BYTES, PER_SECOND = 2_000, 2_000
FILLED = 90.0  # seconds until a broker that cannot write has exited
NOTICED = 60.0
COPIED = 90.0


@pytest.mark.needs("root")
async def test_full_target_disk_loses_nothing_of_a_source_task(
    cluster_a: KafkaCluster, unique: Callable[[str], str]
) -> None:
    target = KafkaCluster("target")
    broker = target.broker(1)
    topic = unique("t-full")
    cluster_a.create_topic(topic, 2)
    with SmallDisk(broker.directory / scratch.DATA, FULL) as disk, target:
        async with copying(cluster_a, target, {topic: 2}) as source_task:
            with Load(
                cluster_a, topic, partitions=2, per_second=PER_SECOND, value_bytes=VALUE_BYTES, codec="none"
            ) as load:
                await until(lambda: not broker.process.running, FILLED, "the broker with the full disk has exited")
                assert "No space left on device" in broker.process.output()
                await until(lambda: source_task.partition(topic).error, NOTICED, "the error is reported")
                await asyncio.to_thread(load.stop)
            disk.grow(ROOMY)
            await asyncio.to_thread(broker.restart)
            await source_task.copied(topic, repeats_allowed=True)


@pytest.mark.long  # test_full_target_disk_loses_nothing_of_a_source_task
@pytest.mark.needs("root")
@pytest.mark.fault_row("target disk full")
@pytest.mark.parametrize("mode", OURS, ids=str)
def test_full_target_disk_loses_nothing(mode: Mode, record_row: Callable[[Verdict], None]) -> None:
    target = KafkaCluster("target")
    broker = target.broker(1)
    with (
        SmallDisk(broker.directory / scratch.DATA, FULL) as disk,
        target,
        KafkaCluster("source") as source,
        Node(one_flow(source, target, topics="t-.*") | {"mm2.lanes": "1"} | mode.properties()) as node,
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
        remote = target.bootstrap, f"A.{topic}"
        record_row(wait_until_copied((source.bootstrap, topic), remote, COPIED, repeats_allowed=mode.repeats_allowed))
        node.wait_running()


@pytest.mark.long
@pytest.mark.needs("root")
@pytest.mark.fault_row("temporary directory full")
@pytest.mark.parametrize("mode", OURS, ids=str)
def test_full_temporary_directory_loses_nothing(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, mode: Mode, record_row: Callable[[Verdict], None]
) -> None:
    """Spark keeps its files there. Copying goes on without space; an engine that has to be replaced waits for it."""
    topic = cluster_a.create_topic(unique_name("t-temporary"), 2)
    remote = cluster_b.bootstrap, f"TA.{topic}"
    file = one_flow(cluster_a, cluster_b, aliases=("TA", "TB"), topics=topic) | {"mm2.lanes": "1"}
    node = Node(file | mode.properties("TA", "TB"))
    with SmallDisk(node.directory / scratch.DATA, ROOMY) as disk, node:
        node.wait_running()
        with Load(cluster_a, topic, partitions=2, per_second=500) as load:
            load.wait_for_more(1_000)
            filling = disk.fill()
            before = end_offset_sum(*remote)
            wait_until(lambda: end_offset_sum(*remote) > before + 2_000, COPIED, "records are copied without space")
            for process in node.members("jvm"):
                process.kill()
            wait_until(lambda: not node.healthy, NOTICED, "the node reports that it cannot copy")
            load.wait_for_more(5_000)
            assert node.process.running
            filling.unlink()
            wait_until(lambda: node.healthy, COPIED, "the flow is healthy again")
            load.stop()
        source = cluster_a.bootstrap, topic
        record_row(wait_until_copied(source, remote, COPIED, repeats_allowed=mode.repeats_allowed))
