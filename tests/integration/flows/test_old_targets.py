"""A target that does not know zstd, which came with Kafka 2.1 (KIP-110)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

import pytest

from flows.batch.blob import batches
from mm2.kafka.decompression import Codec
from tests.integration.flows.lane import copying
from tests.lab.cluster import KafkaCluster
from tests.lab.records import every_shape, write
from tests.lab.zookeeper import ZooKeeperServer
from tests.lab.zookeeper_mode import ZooKeeperModeCluster


@pytest.fixture
def before_zstd() -> Iterator[KafkaCluster]:
    """A broker of 3.9 with the protocol of 2.0: it rejects zstd with UNSUPPORTED_COMPRESSION_TYPE."""
    with ZooKeeperServer() as zookeeper, ZooKeeperModeCluster("before-zstd", zookeeper, protocol="2.0") as cluster:
        yield cluster


async def test_zstd_is_re_batched_for_a_target_that_does_not_know_it(
    cluster_a: KafkaCluster, before_zstd: KafkaCluster, unique: Callable[[str], str], rng: random.Random
) -> None:
    topic = unique("modern")
    cluster_a.create_topic(topic)
    for codec in ("zstd", "gzip", "zstd"):
        write(cluster_a.bootstrap, topic, every_shape(rng, 2_000, value_bytes=500), codec=codec)
    async with copying(cluster_a, before_zstd, {topic: 1}) as source_task:
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)
        assert source_task.partition(topic).error is None
        assert source_task.batches["codec"] > 0
    (segment,) = before_zstd.broker(1).directory.glob(f"**/A.{topic}-0/*.log")
    stored = await asyncio.to_thread(segment.read_bytes)
    assert {header.codec for header, _ in batches(stored, check_crcs=True)} == {Codec.GZIP, Codec.LZ4}
