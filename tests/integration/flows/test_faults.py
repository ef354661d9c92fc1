"""Brokers stop, crash, move leaders and throttle under load: a source task loses and repeats no records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from mm2.core.lanes.task_states import TaskState
from mm2.core.settings.client import FetchSettings, SecurityProtocol
from tests.integration.flows.lane import COPIED, client, copying
from tests.lab.cable import Cable
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.freezing import frozen
from tests.lab.listeners import Listener
from tests.lab.load import mixed_batches_load
from tests.lab.quotas import set_quota
from tests.lab.records import Outgoing, Writer, plain, write
from tests.lab.waiting import until

Unique = Callable[[str], str]


@asynccontextmanager
async def writing(cluster: KafkaCluster, topic: str, partitions: int, *, codec: str = "lz4") -> AsyncIterator[None]:
    """Write records in batches of mixed size during the block."""
    load = mixed_batches_load(cluster, topic, partitions=partitions, codec=codec)
    load.start()
    try:
        yield
    finally:
        await asyncio.to_thread(load.stop)


@pytest.mark.long  # tests/faults/test_each_kind.py
@pytest.mark.parametrize("fault", ["restart", "kill"])
async def test_target_broker_restarts(
    cluster_a: KafkaCluster, breakable: KafkaCluster, unique: Unique, fault: str
) -> None:
    target = breakable
    topic = unique("target-gone")
    cluster_a.create_topic(topic, partitions=3)
    async with copying(cluster_a, target, {topic: 3}) as source_task:
        async with writing(cluster_a, topic, 3):
            for _ in range(2):
                await asyncio.sleep(1)
                if fault == "kill":
                    await asyncio.to_thread(target.broker(1).kill)
                    await until(lambda: bool(source_task.partition(topic).error), COPIED, "the error is reported")
                    assert source_task.partition(topic).state is not TaskState.FAILED
                await asyncio.to_thread(target.broker(1).restart)
        assert (await source_task.copied(topic)).exact
        await until(lambda: source_task.partition(topic).error is None, COPIED, "the error is resolved")


@pytest.mark.parametrize("side", [pytest.param("source", marks=pytest.mark.long), "target"])  # test_end_offset_age.py
async def test_unresponsive_broker_is_reported_and_retried(
    cluster_a: KafkaCluster, breakable: KafkaCluster, unique: Unique, side: str
) -> None:
    """Its connections stay open without a response, so only a timeout detects it
    (`flows.partition.timeouts.UNANSWERED_REPORT_S`)."""
    source, target = (breakable, cluster_a) if side == "source" else (cluster_a, breakable)
    topic = unique("silent")
    source.create_topic(topic)
    async with copying(source, target, {topic: 1}) as source_task:
        write(source.bootstrap, topic, plain(100))
        assert (await source_task.copied(topic)).exact
        broker = breakable.broker(1).process
        with frozen(broker):
            if side == "target":
                write(source.bootstrap, topic, plain(100, first=100))
            alias = "A" if side == "source" else "B"

            def reported() -> bool:
                one = source_task.partition(topic)
                return one.state is TaskState.WAITING and f"{alias}.bootstrap.servers" in (one.error or "")

            await until(reported, COPIED, "the partition waits and names the cluster and the property")

        def resolved() -> bool:
            one = source_task.partition(topic)
            return one.state is TaskState.RUNNING and one.error is None and one.position == one.end_offset

        await until(resolved, COPIED, "the partition runs again and the error is resolved")


@pytest.mark.long  # tests/faults/test_each_kind.py
@pytest.mark.parametrize("fault", ["restart", "kill"])
async def test_source_broker_restarts(
    breakable: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, fault: str
) -> None:
    source = breakable
    topic = unique("source-gone")
    source.create_topic(topic, partitions=3)
    async with copying(source, cluster_b, {topic: 3}) as source_task:
        async with writing(source, topic, 3):
            for _ in range(2):
                await asyncio.sleep(1)
                if fault == "kill":
                    await asyncio.to_thread(source.broker(1).kill)
                await asyncio.to_thread(source.broker(1).restart)
        assert (await source_task.copied(topic)).exact


@pytest.mark.long  # tests/faults/test_leaders.py tests the same with a node
@pytest.mark.timeout(300)
async def test_leaders_move_on_both_sides(start_cluster: StartCluster, unique: Unique) -> None:
    source, target = await asyncio.gather(
        asyncio.to_thread(start_cluster, "source", brokers=3), asyncio.to_thread(start_cluster, "target", brokers=3)
    )
    topic = unique("leaders")
    source.create_topic(topic, partitions=6, config={"min.insync.replicas": "1"})
    async with copying(source, target, {topic: 6}) as source_task:
        async with writing(source, topic, 6):
            for number in (1, 2, 3):
                for cluster in (target, source):
                    broker = cluster.broker(number)
                    await asyncio.to_thread(broker.kill if number == 2 else broker.stop)
                    await asyncio.sleep(1)
                    await asyncio.to_thread(broker.start)
                    await asyncio.to_thread(broker.wait_ready)
                    await asyncio.sleep(1)
        assert (await source_task.copied(topic)).exact


async def test_stuck_partition_does_not_block_others(
    cluster_a: KafkaCluster, start_cluster: StartCluster, unique: Unique
) -> None:
    """Its remote topic requires three in-sync replicas and has two, which the broker reports only after a while.

    Its backlog is ten times the lane's buffer; one batch of each partition is half of it.
    """
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
    alive = target.admin.list_topics
    await until(lambda: len(alive(timeout=10).brokers) == 2, COPIED, "no internal topic is placed on the killed broker")
    settings = FetchSettings(max_partition_bytes=1024 * 1024)
    async with copying(
        cluster_a, target, {stuck: 2, flowing: 2}, create=False, buffer_bytes=buffer, fetch=settings
    ) as source_task:
        most = 0
        async with writing(cluster_a, flowing, 2):
            for _ in range(50):
                await asyncio.sleep(0.1)
                most = max(most, source_task.budget.used)
        assert (await source_task.copied(flowing)).exact
        await until(
            lambda: "NOT_ENOUGH_REPLICAS" in (source_task.partition(stuck).error or ""),
            COPIED,
            "the missing replica is reported, once its session has expired",
        )
        assert source_task.partition(stuck).position == 0
        assert most <= buffer + 1024 * 1024, "one batch can exceed the buffer"
        await asyncio.to_thread(target.broker(3).restart)
        assert (await source_task.copied(stuck)).exact


@pytest.mark.long  # tests/integration/kafka/test_control_producer.py
async def test_throttled_by_the_target(cluster_a: KafkaCluster, breakable: KafkaCluster, unique: Unique) -> None:
    topic = unique("throttled")
    cluster_a.create_topic(topic)
    writer = Writer(cluster_a.bootstrap)
    for number in range(4_500):  # several requests, as the time for which the broker mutes one depends on its samples
        writer.send(topic, Outgoing(value=b"%d" % number + bytes(1_000)))
    writer.flush()
    with set_quota(breakable, "producer_byte_rate", 300_000):
        async with copying(cluster_a, breakable, {topic: 1}) as source_task:
            began = asyncio.get_running_loop().time()
            assert (await source_task.copied(topic)).exact
            assert asyncio.get_running_loop().time() - began > 2, "4.5 MB at 0.3 MB/s"
            assert source_task.partition(topic).error is None


async def test_a_slow_link_gets_smaller_responses(
    start_cluster: StartCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """All that one request would fetch takes longer than the request timeout."""
    topic, slow = unique("slow"), "SLOW"
    with Cable("slow", bytes_per_s=1_000_000) as cable:
        behind = Listener(protocol=SecurityProtocol.PLAINTEXT, name=slow, advertised=(cable.address,))
        source = await asyncio.to_thread(start_cluster, "source", listeners=(behind,))
        cable.plug(source.bootstrap_of(slow))
        source.create_topic(topic, partitions=2)
        write(source.bootstrap, topic, plain(2_000, partitions=2, value_bytes=1_000))
        far = replace(client(source, "A"), bootstrap_servers=(cable.address,), request_timeout_ms=1_000)
        fetch = FetchSettings(max_wait_ms=100)
        async with copying(source, cluster_b, {topic: 2}, source_client=far, fetch=fetch) as source_task:
            assert (await source_task.copied(topic)).exact
