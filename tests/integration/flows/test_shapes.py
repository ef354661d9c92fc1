"""Every shape a source can have arrives as it was: judged by an independent client."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from mm2.core.client_settings import FetchSettings, IsolationLevel, ProduceSettings
from mm2.core.names import TopicPartition
from tests.integration.flows.lane import copying
from tests.lab.cluster import KafkaCluster
from tests.lab.records import CODECS, Outgoing, every_shape, plain, write, write_transactions

Unique = Callable[[str], str]


@pytest.mark.parametrize("codec", CODECS)
async def test_every_codec_passes_through(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random, codec: str
) -> None:
    topic = unique("codec")
    cluster_a.create_topic(topic, partitions=2)
    now = int(time.time() * 1000)
    write(cluster_a.bootstrap, topic, every_shape(rng, 3_000, partitions=2, value_bytes=300, now_ms=now), codec=codec)
    async with copying(cluster_a, cluster_b, {topic: 2}) as slot:
        assert (await slot.copied(topic)).exact
        await slot.caught_up(topic)
        assert set(slot.batches) == {""}
        copied = [slot.partition(topic, number) for number in range(2)]
        assert sum(one.records_total for one in copied) == 3_000
        assert all(one.latency_count > 0 and one.age_count > 0 and one.bytes_total > 0 for one in copied)


@pytest.mark.parametrize("codec", CODECS)
async def test_tiny_batches_are_merged(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random, codec: str
) -> None:
    topic = unique("tiny")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, every_shape(rng, 2_000), codec=codec, records_per_batch=2)
    async with copying(cluster_a, cluster_b, {topic: 1}) as slot:
        assert (await slot.copied(topic)).exact
        assert slot.batches["tiny"] > 900


@pytest.mark.parametrize("codec", CODECS)
async def test_an_explicit_codec_is_used(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random, codec: str
) -> None:
    topic = unique("recode")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, every_shape(rng, 2_000, value_bytes=500), codec="gzip")
    write(cluster_a.bootstrap, topic, every_shape(rng, 2_000, value_bytes=500), codec="none")
    async with copying(cluster_a, cluster_b, {topic: 1}, produce=ProduceSettings(compression_type=codec)) as slot:
        assert (await slot.copied(topic)).exact
        assert slot.batches["codec"] > 0


async def test_a_broker_that_compresses_anew_accepts_ours(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random
) -> None:
    topic = unique("broker-recodes")
    cluster_a.create_topic(topic)
    for codec in CODECS:
        write(cluster_a.bootstrap, topic, every_shape(rng, 200, value_bytes=500), codec=codec)
        write(cluster_a.bootstrap, topic, every_shape(rng, 50), codec=codec, records_per_batch=1)
    async with copying(cluster_a, cluster_b, {topic: 1}, remote_config={"compression.type": "zstd"}) as slot:
        assert (await slot.copied(topic)).exact


@pytest.mark.parametrize("acks", [0, 1])
async def test_fewer_acknowledgements(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random, acks: int
) -> None:
    topic = unique("acks")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, every_shape(rng, 2_000), records_per_batch=200)
    produce = ProduceSettings(acks=acks, idempotent=False)
    async with copying(cluster_a, cluster_b, {topic: 1}, produce=produce) as slot:
        assert (await slot.copied(topic)).exact
        await slot.caught_up(topic)
        assert set((await slot.drained()).values()) == {2_000}


async def test_append_time_of_the_source_becomes_the_records_timestamp(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random
) -> None:
    topic = unique("append-time")
    cluster_a.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    for codec in CODECS:
        write(cluster_a.bootstrap, topic, every_shape(rng, 500), codec=codec)
    async with copying(cluster_a, cluster_b, {topic: 1}) as slot:
        assert (await slot.copied(topic)).exact
        assert set(slot.batches) == {"log-append-time"}


async def test_transactions_read_committed(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random
) -> None:
    topic = unique("committed")
    cluster_a.create_topic(topic, partitions=2)
    plan = [(every_shape(rng, 30, partitions=2), number % 3 != 1) for number in range(30)]
    write_transactions(cluster_a.bootstrap, topic, plan, transactional_id=unique("tx"), codec="lz4")
    write(cluster_a.bootstrap, topic, plain(100, partitions=2))
    committed = FetchSettings(isolation_level=IsolationLevel.READ_COMMITTED)
    async with copying(cluster_a, cluster_b, {topic: 2}, fetch=committed) as slot:
        verdict = await slot.copied(topic)
        assert verdict.exact
        assert verdict.records == 20 * 30 + 100
        await slot.caught_up(topic)


async def test_transactions_read_uncommitted(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random
) -> None:
    topic = unique("uncommitted")
    cluster_a.create_topic(topic)
    plan = [(every_shape(rng, 30), number % 3 != 1) for number in range(12)]
    write_transactions(cluster_a.bootstrap, topic, plan, transactional_id=unique("tx"))
    async with copying(cluster_a, cluster_b, {topic: 1}) as slot:
        verdict = await slot.copied(topic, isolation="read_uncommitted")
        assert verdict.exact
        assert verdict.records == 12 * 30
        await slot.caught_up(topic)  # the markers at the end are no lag


async def test_an_open_transaction_is_waited_for(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("open")
    cluster_a.create_topic(topic)
    writer = Producer({"bootstrap.servers": cluster_a.bootstrap, "transactional.id": unique("tx")})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(topic, value=b"undecided")
    writer.flush()
    write(cluster_a.bootstrap, topic, plain(10))
    committed = FetchSettings(isolation_level=IsolationLevel.READ_COMMITTED)
    async with copying(cluster_a, cluster_b, {topic: 1}, fetch=committed) as slot:
        await slot.caught_up(topic)
        assert slot.partition(topic).end_offset == 0
        writer.commit_transaction(30)
        verdict = await slot.copied(topic)
        assert verdict.records == 11


async def test_a_batch_that_begins_before_the_wanted_offset(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("middle")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(1_000), codec="lz4")
    start = {TopicPartition(topic, 0): 617}
    async with copying(cluster_a, cluster_b, {topic: 1}, starts=start) as slot:
        await slot.caught_up(topic)
        assert slot.partition(topic).records_total == 1_000 - 617
        assert slot.batches["before-start"] == 1


async def test_empty_partitions_and_those_that_fill_later(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("empty")
    cluster_a.create_topic(topic, partitions=20)
    async with copying(cluster_a, cluster_b, {topic: 20}) as slot:
        await slot.caught_up(topic)
        assert all(slot.partition(topic, number).position == 0 for number in range(20))
        write(cluster_a.bootstrap, topic, [Outgoing(value=b"late", partition=7)])
        assert (await slot.copied(topic)).records == 1
