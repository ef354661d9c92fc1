"""Other brokers: an older release, and fetching from followers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from mm2.core.settings.client import FetchSettings
from tests.integration.flows.lane import COPIED, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.records import every_shape, plain, write
from tests.lab.waiting import until

Unique = Callable[[str], str]


@pytest.mark.parametrize("old", ["source", "target"])
async def test_kafka_3_9(
    cluster_a: KafkaCluster,
    cluster_b: KafkaCluster,
    cluster_3: KafkaCluster,
    unique: Unique,
    rng: random.Random,
    old: str,
) -> None:
    source, target = (cluster_3, cluster_b) if old == "source" else (cluster_a, cluster_3)
    topic = unique("older")
    source.create_topic(topic, partitions=2)
    write(source.bootstrap, topic, every_shape(rng, 2_000, partitions=2, value_bytes=500), codec="zstd")
    write(source.bootstrap, topic, every_shape(rng, 300, partitions=2), records_per_batch=1)
    async with copying(source, target, {topic: 2}) as source_task:
        assert (await source_task.copied(topic)).exact


async def test_follower_in_the_same_rack_is_read(
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
    async with copying(source, cluster_b, {topic: 6}, fetch=FetchSettings(client_rack="rack-2")) as source_task:
        assert (await source_task.copied(topic)).exact
        pipeline = source_task.runner._pipeline
        assert pipeline is not None
        assigned = pipeline._fetcher._assigned
        await until(
            lambda: {broker.node_id for broker in assigned.values()} == {2},
            COPIED,
            "all partitions are fetched in rack 2",
        )
        write(source.bootstrap, topic, plain(6_000, partitions=6, first=6_000))
        assert (await source_task.copied(topic)).exact
        await asyncio.to_thread(source.broker(2).stop)
        write(source.bootstrap, topic, plain(600, partitions=6, first=12_000))
        assert (await source_task.copied(topic)).exact
