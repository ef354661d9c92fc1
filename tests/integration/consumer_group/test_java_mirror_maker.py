"""The real MirrorMaker 1 and our members in one group, each as leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from confluent_kafka import Producer

from mm2.core.naming.names import TopicPartition
from tests.integration.consumer_group.members import SESSION_MS, SOON, joined, partitions
from tests.lab.cluster import KafkaCluster
from tests.lab.groups import committed
from tests.lab.mirror1 import JAVA, Mirror1
from tests.lab.waiting import until

JAVA_STARTS = 60.0  # seconds until it has joined, on a busy machine


@asynccontextmanager
async def java(source: KafkaCluster, target: KafkaCluster, group: str, topic: str) -> AsyncIterator[Mirror1]:
    """Run MirrorMaker 1 as member ``<group>-0``, and stop it at the end."""
    consumer = {
        "auto.offset.reset": "earliest",
        "session.timeout.ms": str(SESSION_MS),
        "heartbeat.interval.ms": "500",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
    }
    options = ("--include", topic, "--offset.commit.interval.ms", "500")
    with Mirror1(JAVA, source, target, *options, group=group, consumer=consumer) as running:
        yield running
        await asyncio.to_thread(running.stop)


def produce(kafka: KafkaCluster, topic: str, count: int, *numbers: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in numbers:
        for record in range(count):
            producer.produce(topic, str(record), partition=number)
    producer.flush(SOON)


async def until_committed(kafka: KafkaCluster, group: str, wanted: dict[tuple[str, int], int]) -> None:
    async def found() -> bool:
        return await asyncio.to_thread(committed, kafka, group) == wanted

    await until(found, SOON, f"{group} has committed {wanted}")


async def test_members_beside_java_as_leader_and_as_follower(
    old_cluster: KafkaCluster, new_cluster: KafkaCluster, group: str, topic: str
) -> None:
    """Members are in the order of their IDs: ours before Java's, which begins with the group."""
    old_cluster.create_topic(topic, 3)
    new_cluster.create_topic(topic, 3)
    first = "a"
    assert first < group
    async with joined(old_cluster, group, topic, client_id=first) as ours:
        await ours.until_assigned(partitions(topic, 0, 1, 2))
        produce(old_cluster, topic, 10, 0, 1, 2)
        async with java(old_cluster, new_cluster, group, topic):
            await ours.until_assigned(partitions(topic, 0, 1), within=JAVA_STARTS)
            assert ours.member.status.is_leader
            await until_committed(old_cluster, group, {(topic, 2): 10})
            outcome = await ours.member.commit({TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 10})
            assert set(outcome.values()) == {None}

            ours.member.stop()
            await until_committed(old_cluster, group, {(topic, number): 10 for number in range(3)})

            async with joined(old_cluster, group, topic, client_id=first) as follower:
                await follower.until_assigned(partitions(topic, 0, 1))
                assert not follower.member.status.is_leader
                produce(old_cluster, topic, 5, 2)
                await until_committed(old_cluster, group, {(topic, 0): 10, (topic, 1): 10, (topic, 2): 15})
