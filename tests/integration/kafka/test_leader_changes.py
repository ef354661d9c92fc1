"""Leaders that change among three brokers: each client asks the new one, and loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as PartitionOfClient

from mm2.core.naming.names import TopicPartition
from mm2.kafka.errors import BrokerError
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.logs.stored_records import StoredRecord
from tests.integration.kafka.clients import connected, led
from tests.lab.cluster import KafkaCluster
from tests.lab.records import Outgoing, write
from tests.lab.waiting import until

Condition = Callable[[], bool | Awaitable[bool]]

SOON = 60.0  # seconds: broker restarts and elections on a busy machine


@pytest.fixture(scope="module")
def brokers() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def three(brokers: KafkaCluster) -> KafkaCluster:
    """Three brokers that run and are in sync; a test may kill one."""
    return brokers.heal()


async def test_catching_up_after_the_leader_moved(three: KafkaCluster, unique: Callable[[str], str]) -> None:
    """The former leader still serves fetches, as a follower (KIP-392), so only the end offsets ask for the new one."""
    name = three.create_topic(unique("log"), copies=3)
    preferred = three.leader(name)
    preferred.restart()  # another broker leads now
    async with connected(three) as cluster:
        log = CompactedLog(cluster, name)
        found: list[StoredRecord] = []

        async def follow() -> None:
            async for record in log.follow():
                found.append(record)  # noqa: PERF401 it never ends

        following = asyncio.create_task(follow())
        try:
            write(three.bootstrap, name, [Outgoing(key=b"k", value=b"before")])
            await until(lambda: len(found) == 1, SOON, "the first record is read")
            assert three.leader(name) is not preferred
            three.wait_in_sync(SOON)
            three.admin.elect_leaders(ElectionType.PREFERRED, [PartitionOfClient(name, 0)]).result(SOON)
            await until(lambda: three.leader(name) is preferred, SOON, "the preferred replica leads")
            write(three.bootstrap, name, [Outgoing(key=b"k", value=b"after")])
            await log.catch_up(timeout_ms=10_000)
            assert [one.value for one in found] == [b"before", b"after"]
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def test_producer_follows_a_leader_change(three: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = three.create_topic(unique("log"), 3, copies=3, config={"min.insync.replicas": "2"})
    async with connected(three) as cluster, ControlProducer(cluster) as producer:
        await led(cluster, *(TopicPartition(name, number) for number in range(3)))
        await asyncio.gather(*(producer.send(name, number, b"k", b"before") for number in range(3)))
        three.leader(name).kill()
        after = [producer.send(name, number, b"k", b"after") for number in range(3)]
        assert await producer.flush(SOON)
        assert all(one.result() >= 1 for one in after)


async def test_client_follows_leader_changes(three: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = three.create_topic(unique("orders"), 3, copies=3)
    partitions = [TopicPartition(name, number) for number in range(3)]
    async with connected(three) as cluster:
        await led(cluster, *partitions)
        three.broker(1).kill()

        async def moved() -> bool:
            for one in partitions:
                cluster.forget(one)
            now = await cluster.leaders(partitions)
            led_by_others = all(not isinstance(one, BrokerError) and one.node_id != 1 for one in now.values())
            return led_by_others and await cluster.controller() != 1

        condition: Condition = moved
        await until(condition, SOON, "all partitions are led by running brokers")
        assert await cluster.any_node() != 1
