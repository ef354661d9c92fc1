"""Batches that the target rejects are split if that helps; otherwise only their partition fails, with the message."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mm2.core.lanes.task_states import TaskState
from tests.integration.flows.lane import COPIED, RunningSourceTask, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.records import Outgoing, plain, write
from tests.lab.waiting import until

Unique = Callable[[str], str]
DAY_MS = 24 * 3600 * 1000
BIG = {"message.max.bytes": 3_000_000, "batch.size": 2_000_000}  # librdkafka's


async def failed(source_task: RunningSourceTask, topic: str, partition: int = 0) -> str:
    """Wait until the partition is FAILED and return its error."""

    def is_failed() -> bool:
        return source_task.partition(topic, partition).state is TaskState.FAILED

    await until(is_failed, COPIED, f"{topic}-{partition} is FAILED")
    error = source_task.partition(topic, partition).error
    assert error is not None
    return error


@pytest.mark.parametrize("codec", ["none", "lz4"])
async def test_batches_above_the_target_limit_are_split(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, codec: str
) -> None:
    topic = unique("split")
    cluster_a.create_topic(topic, config={"max.message.bytes": "3000000"})
    write(cluster_a.bootstrap, topic, plain(4_000, value_bytes=1_000), codec=codec, settings=BIG)
    async with copying(cluster_a, cluster_b, {topic: 1}, remote_config={"max.message.bytes": "10000"}) as source_task:
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)
        assert source_task.batches["too-large"] > 0


async def test_records_near_the_limit(cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique) -> None:
    topic = unique("near")
    limit = 1_048_588  # Kafka's default of max.message.bytes, for a whole batch
    cluster_a.create_topic(topic)
    sizes = [limit - 100, 10, limit - 1_000, limit // 2, limit // 2, 10]
    records = [Outgoing(value=bytes(size)) for size in sizes]
    write(cluster_a.bootstrap, topic, records, records_per_batch=1, settings=BIG)
    async with copying(cluster_a, cluster_b, {topic: 1}) as source_task:
        assert (await source_task.copied(topic)).exact


async def test_too_large_record_fails_its_partition_until_the_limit_is_raised(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("large")
    cluster_a.create_topic(topic, partitions=2)
    write(cluster_a.bootstrap, topic, plain(100, partitions=2))
    write(cluster_a.bootstrap, topic, [Outgoing(value=bytes(50_000), partition=0)])
    write(cluster_a.bootstrap, topic, plain(100, partitions=2))
    async with copying(cluster_a, cluster_b, {topic: 2}, remote_config={"max.message.bytes": "20000"}) as source_task:
        error = await failed(source_task, topic)
        assert f"cannot copy {topic}-0 offset 50 to A.{topic}-0: " in error
        assert "MESSAGE_TOO_LARGE" in error
        assert "raise max.message.bytes" in error
        assert source_task.partition(topic, 0).position == 50
        await until(lambda: source_task.partition(topic, 1).position == 100, COPIED, "the other partition continues")
        assert source_task.partition(topic, 1).state is TaskState.RUNNING
        resource = ConfigResource(
            ResourceType.TOPIC,
            f"A.{topic}",
            incremental_configs=[
                ConfigEntry("max.message.bytes", "100000", incremental_operation=AlterConfigOpType.SET)
            ],
        )
        cluster_b.admin.incremental_alter_configs([resource])[resource].result(30)
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)  # the target has a record before the lane has its acknowledgement
        assert source_task.partition(topic).state is TaskState.RUNNING
        assert source_task.partition(topic).error is None


async def test_timestamp_rejected_by_the_target(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("future")
    far = int(time.time() * 1000) + 10 * DAY_MS
    cluster_a.create_topic(topic, config={"message.timestamp.after.max.ms": str(20 * DAY_MS)})
    write(cluster_a.bootstrap, topic, [*plain(10), Outgoing(value=b"from the future", timestamp_ms=far), *plain(5)])
    async with copying(cluster_a, cluster_b, {topic: 1}) as source_task:
        error = await failed(source_task, topic)
        assert f"cannot copy {topic}-0 offset 10 to A.{topic}-0: " in error
        assert "INVALID_TIMESTAMP" in error
        stored = await source_task.drained()
        assert set(stored.values()) == {10}, "everything before the record is copied"


async def test_null_key_on_a_compacted_target(cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique) -> None:
    topic = unique("keyless")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(20), records_per_batch=1)
    write(cluster_a.bootstrap, topic, [Outgoing(key=None, value=b"no key")], records_per_batch=1)
    async with copying(cluster_a, cluster_b, {topic: 1}, remote_config={"cleanup.policy": "compact"}) as source_task:
        error = await failed(source_task, topic)
        assert f"cannot copy {topic}-0 offset 20 to A.{topic}-0: " in error
        assert "INVALID_RECORD" in error


async def test_missing_remote_topic_is_retried(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    there, missing = unique("there"), unique("missing")
    cluster_a.create_topic(there)
    cluster_a.create_topic(missing)
    write(cluster_a.bootstrap, there, plain(100))
    write(cluster_a.bootstrap, missing, plain(100))
    cluster_b.create_topic(f"A.{there}")
    async with copying(cluster_a, cluster_b, {there: 1, missing: 1}, create=False) as source_task:
        assert (await source_task.copied(there)).exact
        await until(lambda: bool(source_task.partition(missing).error), COPIED, "the missing topic is reported")
        assert f"A.{missing}" in (source_task.partition(missing).error or "")
        assert source_task.partition(missing).state is TaskState.RUNNING
        await asyncio.to_thread(cluster_b.create_topic, f"A.{missing}")
        assert (await source_task.copied(missing)).exact
        await until(lambda: source_task.partition(missing).error is None, COPIED, "the error is resolved")
