"""Other brokers: an older release, followers close by, topics written in a format from before Kafka 0.11."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from mm2.core.client_settings import FetchSettings
from mm2.core.lease import TaskState
from tests.integration.flows.lane import COPIED, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.jars import KAFKA_3
from tests.lab.records import every_shape, plain, write
from tests.lab.waiting import until

Unique = Callable[[str], str]


@pytest.mark.parametrize("old", ["source", "target"])
async def test_kafka_3_9(
    cluster_a: KafkaCluster,
    cluster_b: KafkaCluster,
    start_cluster: StartCluster,
    unique: Unique,
    rng: random.Random,
    old: str,
) -> None:
    older = await asyncio.to_thread(start_cluster, "older", version=KAFKA_3)
    source, target = (older, cluster_b) if old == "source" else (cluster_a, older)
    topic = unique("older")
    source.create_topic(topic, partitions=2)
    write(source.bootstrap, topic, every_shape(rng, 2_000, partitions=2, value_bytes=500), codec="zstd")
    write(source.bootstrap, topic, every_shape(rng, 300, partitions=2), records_per_batch=1)
    async with copying(source, target, {topic: 2}) as slot:
        assert (await slot.copied(topic)).exact


async def test_a_follower_in_our_rack_is_read(
    start_cluster: StartCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    source = await asyncio.to_thread(
        start_cluster,
        "racks",
        brokers=3,
        properties={"replica.selector.class": selector},
        properties_of={number: {"broker.rack": f"rack-{number}"} for number in (1, 2, 3)},
    )
    topic = unique("rack")
    source.create_topic(topic, partitions=6)
    write(source.bootstrap, topic, plain(6_000, partitions=6))
    async with copying(source, cluster_b, {topic: 6}, fetch=FetchSettings(client_rack="rack-2")) as slot:
        assert (await slot.copied(topic)).exact
        pipeline = slot.runner._pipeline
        assert pipeline is not None
        homes = pipeline.fetching._homes
        await until(lambda: {home.node_id for home in homes.values()} == {2}, COPIED, "all are fetched in rack 2")
        write(source.bootstrap, topic, plain(6_000, partitions=6, first=6_000))
        assert (await slot.copied(topic)).exact
        await asyncio.to_thread(source.broker(2).stop)
        write(source.bootstrap, topic, plain(600, partitions=6, first=12_000))
        assert (await slot.copied(topic)).exact


async def test_records_from_before_kafka_0_11_are_refused_with_a_sentence(
    start_cluster: StartCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    source = await asyncio.to_thread(start_cluster, "ancient")
    topic, present = unique("ancient"), unique("present")
    source.create_topic(topic)
    source.create_topic(present)
    write(source.bootstrap, present, plain(10))
    await asyncio.to_thread(source.broker(1).stop)
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1 << 20)
    for number in range(5):
        builder.append(number, 1_400_000_000_000, b"key", b"value %d" % number)
    log_of(source, topic).write_bytes(bytes(builder.build()))
    await asyncio.to_thread(source.broker(1).start)
    await asyncio.to_thread(source.broker(1).wait_ready)
    async with copying(source, cluster_b, {topic: 1, present: 1}) as slot:
        assert (await slot.copied(present)).exact
        await until(lambda: slot.partition(topic).state is TaskState.FAILED, COPIED, "the old topic is FAILED")
        words = slot.partition(topic).error
        assert words is not None
        assert words.startswith(f"fetch {topic}-0: offset 0 is stored in message format v1, from before Kafka 0.11")


def log_of(cluster: KafkaCluster, topic: str) -> Path:
    """The first segment of partition 0, as the broker keeps it."""
    (segment,) = cluster.broker(1).directory.glob(f"**/{topic}-0/00000000000000000000.log")
    return segment
