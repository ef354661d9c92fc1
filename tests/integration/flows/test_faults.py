"""Brokers stop, die, move leaders and throttle while a slot copies under load: nothing lost, nothing repeated."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from mm2.core.client_settings import FetchSettings
from mm2.core.lease import TaskState
from tests.integration.flows.lane import COPIED, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.jars import class_path
from tests.lab.jvm import java
from tests.lab.records import Outgoing, Writer, plain, write
from tests.lab.waiting import until

Unique = Callable[[str], str]


@asynccontextmanager
async def writing(cluster: KafkaCluster, topic: str, partitions: int, *, codec: str = "lz4") -> AsyncIterator[None]:
    """Numbered records in batches of mixed size, from the beginning of the block to its end."""
    stop = asyncio.Event()

    def write_some(writer: Writer, first: int, count: int) -> None:
        for number in range(first, first + count):
            writer.send(topic, Outgoing(key=b"%d" % number, value=b"v" * 200, partition=number % partitions))
        writer.flush()

    async def keep_writing() -> None:
        writer = Writer(cluster.bootstrap, codec=codec)
        rng = random.Random(1)
        number = 0
        while not stop.is_set():
            count = rng.choice([1, 20, 2_000])
            await asyncio.to_thread(write_some, writer, number, count)
            number += count
            await asyncio.sleep(0.01)

    task = asyncio.create_task(keep_writing())
    try:
        yield
    finally:
        stop.set()
        await task


@pytest.mark.parametrize("fault", ["restart", "kill"])
async def test_the_target_broker_goes_and_comes_back(
    cluster_a: KafkaCluster, start_cluster: StartCluster, unique: Unique, fault: str
) -> None:
    target = await asyncio.to_thread(start_cluster, "target")
    topic = unique("target-gone")
    cluster_a.create_topic(topic, partitions=3)
    async with copying(cluster_a, target, {topic: 3}) as slot:
        async with writing(cluster_a, topic, 3):
            for _ in range(2):
                await asyncio.sleep(1)
                if fault == "kill":
                    await asyncio.to_thread(target.broker(1).kill)
                    await until(lambda: bool(slot.partition(topic).error), COPIED, "the trouble is told")
                    assert slot.partition(topic).state is not TaskState.FAILED
                await asyncio.to_thread(target.broker(1).restart)
        assert (await slot.copied(topic)).exact
        await until(lambda: slot.partition(topic).error is None, COPIED, "the trouble is over")


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_broker_that_is_silent_is_told_of_and_waited_for(
    cluster_a: KafkaCluster, start_cluster: StartCluster, unique: Unique, side: str
) -> None:
    """Its connections stay, and nobody answers: nothing shows it but the clock (`flows.patience.SILENT_S`)."""
    other = await asyncio.to_thread(start_cluster, side)
    source, target = (other, cluster_a) if side == "source" else (cluster_a, other)
    topic = unique("silent")
    source.create_topic(topic)
    async with copying(source, target, {topic: 1}) as slot:
        write(source.bootstrap, topic, plain(100))
        assert (await slot.copied(topic)).exact
        broker = other.broker(1).process
        broker.signal(signal.SIGSTOP)
        try:
            if side == "target":
                write(source.bootstrap, topic, plain(100, first=100))
            alias = "A" if side == "source" else "B"

            def told() -> bool:
                one = slot.partition(topic)
                return one.state is TaskState.WAITING and f"bootstrap.servers of {alias}" in (one.error or "")

            await until(told, COPIED, "the partition waits, and says for which cluster and where to look")
        finally:
            broker.signal(signal.SIGCONT)

        def over() -> bool:
            one = slot.partition(topic)
            return one.state is TaskState.RUNNING and one.error is None and one.position == one.end_offset

        await until(over, COPIED, "the partition runs again, and the trouble is over")


@pytest.mark.parametrize("fault", ["restart", "kill"])
async def test_the_source_broker_goes_and_comes_back(
    start_cluster: StartCluster, cluster_b: KafkaCluster, unique: Unique, fault: str
) -> None:
    source = await asyncio.to_thread(start_cluster, "source")
    topic = unique("source-gone")
    source.create_topic(topic, partitions=3)
    async with copying(source, cluster_b, {topic: 3}) as slot:
        async with writing(source, topic, 3):
            for _ in range(2):
                await asyncio.sleep(1)
                if fault == "kill":
                    await asyncio.to_thread(source.broker(1).kill)
                await asyncio.to_thread(source.broker(1).restart)
        assert (await slot.copied(topic)).exact


@pytest.mark.timeout(300)
async def test_leaders_move_on_both_sides(start_cluster: StartCluster, unique: Unique) -> None:
    source, target = await asyncio.gather(
        asyncio.to_thread(start_cluster, "source", brokers=3), asyncio.to_thread(start_cluster, "target", brokers=3)
    )
    topic = unique("leaders")
    source.create_topic(topic, partitions=6, config={"min.insync.replicas": "1"})
    async with copying(source, target, {topic: 6}) as slot:
        async with writing(source, topic, 6):
            for number in (1, 2, 3):
                for cluster in (target, source):
                    broker = cluster.broker(number)
                    await asyncio.to_thread(broker.kill if number == 2 else broker.stop)
                    await asyncio.sleep(1)
                    await asyncio.to_thread(broker.start)
                    await asyncio.to_thread(broker.wait_ready)
                    await asyncio.sleep(1)
        assert (await slot.copied(topic)).exact


async def test_a_stuck_partition_does_not_hold_up_the_others(
    cluster_a: KafkaCluster, start_cluster: StartCluster, unique: Unique
) -> None:
    """Its remote topic wants three replicas in sync and has two, and the broker takes its time to say so. Its backlog
    is ten times what the lane may hold, and one batch of each partition is half of that."""
    target = await asyncio.to_thread(start_cluster, "target", brokers=3)
    stuck, flowing = unique("stuck"), unique("flowing")
    for topic in (stuck, flowing):
        cluster_a.create_topic(topic, partitions=2)
    buffer = 2 * 1024 * 1024
    writer = Writer(cluster_a.bootstrap)
    for number in range(20_000):
        writer.send(stuck, Outgoing(value=b"%d" % number + bytes(1_000), partition=number % 2))
    writer.flush()
    target.create_topic(f"A.{stuck}", partitions=2, copies=3, config={"min.insync.replicas": "3"})
    target.create_topic(f"A.{flowing}", partitions=2, copies=3, config={"min.insync.replicas": "1"})
    await asyncio.to_thread(target.broker(3).kill)
    settings = FetchSettings(max_partition_bytes=1024 * 1024)
    async with copying(
        cluster_a, target, {stuck: 2, flowing: 2}, create=False, buffer_bytes=buffer, fetch=settings
    ) as slot:
        most = 0
        async with writing(cluster_a, flowing, 2):
            for _ in range(50):
                await asyncio.sleep(0.1)
                most = max(most, slot.budget.used)
        assert (await slot.copied(flowing)).exact
        words = slot.partition(stuck).error
        assert words is not None
        assert "NOT_ENOUGH_REPLICAS" in words
        assert slot.partition(stuck).position == 0
        assert most <= buffer + 1024 * 1024, "one batch may come on top"
        await asyncio.to_thread(target.broker(3).restart)
        assert (await slot.copied(stuck)).exact


async def test_throttled_by_the_target(cluster_a: KafkaCluster, start_cluster: StartCluster, unique: Unique) -> None:
    properties = {"quota.window.num": "2", "quota.window.size.seconds": "1"}
    target = await asyncio.to_thread(start_cluster, "target", properties=properties)
    await asyncio.to_thread(limit_rate, target, "producer_byte_rate=300000")
    topic = unique("throttled")
    cluster_a.create_topic(topic)
    writer = Writer(cluster_a.bootstrap)
    for number in range(4_500):  # several requests: how long the broker mutes one depends on its samples
        writer.send(topic, Outgoing(value=b"%d" % number + bytes(1_000)))
    writer.flush()
    async with copying(cluster_a, target, {topic: 1}) as slot:
        began = asyncio.get_running_loop().time()
        assert (await slot.copied(topic)).exact
        assert asyncio.get_running_loop().time() - began > 2, "4.5 MB at 0.3 MB/s"
        assert slot.partition(topic).error is None


def limit_rate(cluster: KafkaCluster, quota: str) -> None:
    """Set a quota for every client id. (The independent client cannot.)"""
    tool = [java(), "-cp", class_path(cluster.version), "kafka.admin.ConfigCommand"]
    order = ["--alter", "--add-config", quota, "--entity-type", "clients", "--entity-default"]
    subprocess.run(
        [*tool, "--bootstrap-server", cluster.bootstrap, *order], check=True, capture_output=True, timeout=60
    )
