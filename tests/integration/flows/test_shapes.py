"""Records of every shape arrive unchanged, checked by an independent client."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable

import pytest
from _pytest.mark import ParameterSet
from confluent_kafka import Producer

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import FetchSettings, IsolationLevel, ProduceSettings
from mm2.kafka.protocol.produce_request import ProduceRequest
from tests.integration.flows.lane import COPIED, copying
from tests.integration.kafka.clients import connected, led
from tests.lab.batches import HEADER, Batch, Record, sealed
from tests.lab.cluster import KafkaCluster
from tests.lab.records import CODECS, Outgoing, every_shape, plain, wait_for_markers, write, write_transactions
from tests.lab.waiting import until

Unique = Callable[[str], str]

WHOLE = {
    "linger.ms": 60_000
}  # librdkafka's: batches are sent when they are full or at the end, however slow the test is


def but_one(codecs: Iterable[str], short: str) -> list[str | ParameterSet]:
    """Return the codecs, all long but one: `test_all_codecs_pass_through` reads and writes the others."""
    return [codec if codec == short else pytest.param(codec, marks=pytest.mark.long) for codec in codecs]


@pytest.mark.parametrize("codec", CODECS)
async def test_all_codecs_pass_through(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random, codec: str
) -> None:
    topic = unique("codec")
    cluster_a.create_topic(topic, partitions=2)
    now = int(time.time() * 1000)
    records = every_shape(rng, 3_000, partitions=2, value_bytes=300, now_ms=now)
    write(cluster_a.bootstrap, topic, records, codec=codec, settings=WHOLE)
    async with copying(cluster_a, cluster_b, {topic: 2}) as source_task:
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)
        assert set(source_task.batches) == {""}
        copied = [source_task.partition(topic, number) for number in range(2)]
        assert sum(one.counters.records for one in copied) == 3_000
        assert all(
            one.counters.latency_count > 0 and one.counters.age_count > 0 and one.counters.bytes > 0 for one in copied
        )


@pytest.mark.parametrize("codec", but_one(CODECS, "lz4"))
async def test_tiny_batches_are_merged(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random, codec: str
) -> None:
    topic = unique("tiny")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, every_shape(rng, 2_000), codec=codec, records_per_batch=2)
    async with copying(cluster_a, cluster_b, {topic: 1}) as source_task:
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)
        assert source_task.batches["tiny"] > 900


@pytest.mark.parametrize("codec", but_one(CODECS, "zstd"))
async def test_explicit_codec_is_used(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random, codec: str
) -> None:
    topic = unique("recode")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, every_shape(rng, 2_000, value_bytes=500), codec="gzip")
    write(cluster_a.bootstrap, topic, every_shape(rng, 2_000, value_bytes=500), codec="none")
    async with copying(
        cluster_a, cluster_b, {topic: 1}, produce=ProduceSettings(compression_type=codec)
    ) as source_task:
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)
        assert source_task.batches["codec"] > 0


async def test_broker_that_recompresses_accepts_batches(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random
) -> None:
    topic = unique("broker-recodes")
    cluster_a.create_topic(topic)
    for codec in CODECS:
        write(cluster_a.bootstrap, topic, every_shape(rng, 200, value_bytes=500), codec=codec)
        write(cluster_a.bootstrap, topic, every_shape(rng, 50), codec=codec, records_per_batch=1)
    async with copying(cluster_a, cluster_b, {topic: 1}, remote_config={"compression.type": "zstd"}) as source_task:
        assert (await source_task.copied(topic)).exact


@pytest.mark.parametrize("acks", [0, 1])
async def test_fewer_acknowledgements(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random, acks: int
) -> None:
    topic = unique("acks")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, every_shape(rng, 2_000), records_per_batch=200)
    produce = ProduceSettings(acks=acks, idempotent=False)
    async with copying(cluster_a, cluster_b, {topic: 1}, produce=produce) as source_task:
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)
        assert set((await source_task.drained()).values()) == {2_000}


async def test_log_append_time_becomes_the_record_timestamp(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random
) -> None:
    topic = unique("append-time")
    cluster_a.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    for codec in CODECS:
        write(cluster_a.bootstrap, topic, every_shape(rng, 500), codec=codec)
    async with copying(cluster_a, cluster_b, {topic: 1}) as source_task:
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)
        assert set(source_task.batches) == {"log-append-time"}


async def test_transactions_read_committed(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random
) -> None:
    topic = unique("committed")
    cluster_a.create_topic(topic, partitions=2)
    plan = [(every_shape(rng, 30, partitions=2), number % 3 != 1) for number in range(30)]
    write_transactions(cluster_a.bootstrap, topic, plan, transactional_id=unique("tx"), codec="lz4")
    write(cluster_a.bootstrap, topic, plain(100, partitions=2))
    committed = FetchSettings(isolation_level=IsolationLevel.READ_COMMITTED)
    async with copying(cluster_a, cluster_b, {topic: 2}, fetch=committed) as source_task:
        verdict = await source_task.copied(topic)
        assert verdict.exact
        assert verdict.records == 20 * 30 + 100
        await source_task.caught_up(topic)


async def test_transactions_read_uncommitted(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random
) -> None:
    topic = unique("uncommitted")
    cluster_a.create_topic(topic)
    plan = [(every_shape(rng, 30), number % 3 != 1) for number in range(12)]
    write_transactions(cluster_a.bootstrap, topic, plan, transactional_id=unique("tx"))
    async with copying(cluster_a, cluster_b, {topic: 1}) as source_task:
        verdict = await source_task.copied(topic, isolation="read_uncommitted")
        assert verdict.exact
        assert verdict.records == 12 * 30
        await source_task.caught_up(topic)  # transaction markers at the end do not count as lag


async def test_open_transaction_is_not_copied_until_committed(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("open")
    cluster_a.create_topic(topic)
    own = unique("tx")
    writer = Producer({"bootstrap.servers": cluster_a.bootstrap, "transactional.id": own})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(topic, value=b"undecided")
    writer.flush()
    write(cluster_a.bootstrap, topic, plain(10))
    committed = FetchSettings(isolation_level=IsolationLevel.READ_COMMITTED)
    async with copying(cluster_a, cluster_b, {topic: 1}, fetch=committed) as source_task:
        await source_task.caught_up(topic)
        assert source_task.partition(topic).end_offset == 0
        writer.commit_transaction(30)
        await asyncio.to_thread(wait_for_markers, cluster_a.bootstrap, own)
        verdict = await source_task.copied(topic)
        assert verdict.records == 11


async def test_batch_that_starts_before_the_requested_offset(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("middle")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(1_000), codec="lz4", settings=WHOLE)
    start = {TopicPartition(topic, 0): 617}
    async with copying(cluster_a, cluster_b, {topic: 1}, starts=start) as source_task:
        await source_task.caught_up(topic)
        assert source_task.partition(topic).counters.records == 1_000 - 617
        assert source_task.batches["before-start"] == 1


async def test_empty_partitions_and_later_records(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("empty")
    cluster_a.create_topic(topic, partitions=20)
    async with copying(cluster_a, cluster_b, {topic: 20}) as source_task:
        await source_task.caught_up(topic)
        assert all(source_task.partition(topic, number).position == 0 for number in range(20))
        write(cluster_a.bootstrap, topic, [Outgoing(value=b"late", partition=7)])
        assert (await source_task.copied(topic)).records == 1


def wrapping() -> bytes:
    """A batch with the timestamps 2**63 - 1 and, beyond 64 bits, -2**62 - 1."""
    raw = bytearray(Batch(records=[Record(0, 0, b"k", b"v"), Record(1, 2**62, b"k", b"w")]).encode())
    fields = HEADER.unpack_from(raw)
    return sealed(raw, [*fields[:7], 2**63 - 1, 2**63 - 1, *fields[9:]])


async def test_a_timestamp_that_wraps_is_copied_and_other_partitions_go_on(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """Its batch is among those that are too small, and is rebuilt with them."""
    limits = {f"message.timestamp.{which}.max.ms": str(2**63 - 1) for which in ("before", "after")}
    topic = cluster_a.create_topic(unique("wrapping"), 3, config=limits)
    wraps = TopicPartition(topic, 1)
    write(cluster_a.bootstrap, topic, plain(30, partitions=3), records_per_batch=1)
    async with connected(cluster_a) as cluster:
        await led(cluster, wraps)
        leader = await cluster.leader(wraps)
        request = ProduceRequest(acks=-1, timeout_ms=10_000, batches={wraps: [wrapping()]})
        answer = await cluster.send(leader.node_id, request, purpose="test", timeout_ms=20_000)
        assert answer.partitions[0].error == 0, "the broker accepts it"
    write(cluster_a.bootstrap, topic, plain(30, partitions=3, first=30), records_per_batch=1)
    async with copying(cluster_a, cluster_b, {topic: 3}, remote_config=limits) as source_task:
        assert (await source_task.copied(topic)).exact
        assert source_task.batches["tiny"] > 0
        await asyncio.to_thread(write, cluster_a.bootstrap, topic, plain(30, partitions=3, first=60))
        ends = {0: 30, 1: 32, 2: 30}

        def all_go_on() -> bool:
            return {number: source_task.partition(topic, number).position for number in ends} == ends

        await until(all_go_on, COPIED, "all partitions go on")
        assert [source_task.partition(topic, number).error for number in ends] == [None] * 3
