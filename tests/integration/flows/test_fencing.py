"""A source task that continues a transactional producer: what fences it, and what does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from flows.target.producer_ids import ProducerIds
from mm2.core.lanes.lease import TaskProducer
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import ProduceSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.transaction_coordinator import Fenced, TransactionCoordinator
from mm2.kafka.protocol.transaction_requests import ProducerIdAndEpoch
from mm2.kafka.retrying import retried
from tests.integration.flows.lane import COPIED, acquired, copying
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.records import plain, write
from tests.lab.waiting import until

Unique = Callable[[str], str]


def coordinator(cluster: Cluster, transactional_id: str) -> TransactionCoordinator:
    return TransactionCoordinator(cluster, transactional_id, timeout_ms=60_000, purpose="test")


async def abort_on(cluster_b: KafkaCluster, producer: TaskProducer, partition: TopicPartition) -> None:
    """Write a marker with the producer's epoch, as the next owner of a source task does."""
    async with connected(cluster_b) as cluster:
        own = coordinator(cluster, producer.transactional_id)
        epoch = ProducerIdAndEpoch(producer.producer_id, producer.epoch)
        add = partial(own.add_writable, epoch, [partition])
        assert await retried(add, cluster.settings, timeout_ms=30_000)
        await own.abort(epoch)
        await retried(partial(own.abort, epoch), cluster.settings, timeout_ms=30_000)  # until the marker is written


async def test_a_fenced_source_task_ends_and_writes_nothing_more(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic, transactional_id = cluster_a.create_topic(unique("fenced")), unique("id")
    write(cluster_a.bootstrap, topic, plain(10))
    producer = await acquired(cluster_b, transactional_id)
    async with copying(cluster_a, cluster_b, {topic: 1}, producer=producer) as source_task:
        assert (await source_task.copied(topic)).exact
        successor = await acquired(cluster_b, transactional_id)
        await abort_on(cluster_b, successor, TopicPartition(f"A.{topic}", 0))
        write(cluster_a.bootstrap, topic, plain(10, first=10))
        await until(lambda: source_task.reported().state is TaskState.FAILED, COPIED, "the source task has ended")
        assert "fenced by a newer writer" in str(source_task.reported().error)
        assert source_task.partition(topic).stored == 10
    (records,) = read_topic(cluster_b.bootstrap, f"A.{topic}").values()
    assert len(records) == 10

    async with copying(
        cluster_a,
        cluster_b,
        {topic: 1},
        starts={TopicPartition(topic, 0): 10},
        predecessor=source_task,
        producer=successor,
    ) as next_owner:
        assert (await next_owner.copied(topic)).exact


async def test_a_partition_that_returns_gets_the_next_epoch(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """Of the same producer ID, so that the next owner fences it, too."""
    topic = cluster_a.create_topic(unique("returns"))
    write(cluster_a.bootstrap, topic, plain(10))
    producer = await acquired(cluster_b, unique("id"))
    async with copying(cluster_a, cluster_b, {topic: 1}, producer=producer) as source_task:
        await until(lambda: source_task.partition(topic).stored == 10, COPIED, "the first records are copied")
        source_task.runner.apply(replace(source_task.lease, partitions=()))
        await until(lambda: source_task.partition(topic).state is TaskState.STOPPED, COPIED, "the partition has left")
        source_task.runner.apply(source_task.lease)
        write(cluster_a.bootstrap, topic, plain(10, first=10))
        assert (await source_task.copied(topic)).exact
        current = await acquired(cluster_b, producer.transactional_id)
    assert (current.producer_id, current.epoch) == (producer.producer_id, producer.epoch + 2)


def was_renewed(cluster_b: KafkaCluster, transactional_id: str) -> bool:
    """Return whether the coordinator has stored more than the first acquisition."""
    stored = read_topic(cluster_b.bootstrap, "__transaction_state").values()
    return sum(transactional_id.encode() in (one.key or b"") for partition in stored for one in partition) > 1


async def test_a_transactional_id_that_is_not_used_is_renewed(cluster_b: KafkaCluster, unique: Unique) -> None:
    """Brokers forget it otherwise, and a later owner would get another producer ID."""
    producer = await acquired(cluster_b, unique("id"))
    async with connected(cluster_b) as cluster:
        ids = ProducerIds(cluster, ProduceSettings(), lambda work: work.close(), producer, renew_every_s=0.2)
        renewing = asyncio.create_task(ids.keep_renewed())
        renewed = partial(asyncio.to_thread, was_renewed, cluster_b, producer.transactional_id)
        await until(renewed, COPIED, "the coordinator stores a renewal")
        current = await acquired(cluster_b, producer.transactional_id)
        assert current.producer_id == producer.producer_id
        assert current.epoch > producer.epoch + 1, "it was renewed before"
        with pytest.raises(Fenced):
            await renewing
