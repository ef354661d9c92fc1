"""Batches of a few kilobytes that decompress to many megabytes do not take a lane's memory."""

from __future__ import annotations

from collections.abc import Callable

from mm2.core.lanes.task_states import TaskState
from tests.integration.flows.lane import COPIED, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.records import Outgoing, plain, write
from tests.lab.waiting import until

Unique = Callable[[str], str]
BOMB_BYTES = 40_000_000
LARGE = {"message.max.bytes": 50_000_000, "batch.size": 50_000_000}  # librdkafka's, before compression


def bombs(count: int) -> list[Outgoing]:
    return [Outgoing(key=b"%d" % number, value=bytes(BOMB_BYTES)) for number in range(count)]


async def test_bombs_are_passed_through_or_fail_their_partition(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic, rebuilt = unique("bombs"), unique("rebuilt")
    cluster_a.create_topic(topic)
    cluster_a.create_topic(rebuilt, config={"message.timestamp.type": "LogAppendTime"})
    write(cluster_a.bootstrap, topic, bombs(2), codec="zstd", records_per_batch=1, settings=LARGE)
    write(cluster_a.bootstrap, topic, plain(10), records_per_batch=1)
    write(cluster_a.bootstrap, rebuilt, bombs(1), codec="zstd", settings=LARGE)
    async with copying(cluster_a, cluster_b, {topic: 1, rebuilt: 1}) as source_task:
        await until(lambda: source_task.partition(topic).position == 12, COPIED, "everything but one bomb is copied")
        assert source_task.batches[""] == 2, "the bombs were passed through, though they are tiny"
        assert source_task.batches["tiny"] == 10
        assert source_task.partition(topic).counters.bytes < 20_000, "they were counted as stored"
        await until(lambda: source_task.partition(rebuilt).state is TaskState.FAILED, COPIED, f"{rebuilt} is FAILED")
        error = source_task.partition(rebuilt).error or ""
        assert f"cannot copy {rebuilt}-0 offset 0 to A.{rebuilt}-0: batch at offset 0 is too large to rebuild" in error
        assert "bytes (zstd) decompress to more than the limit of 16777216 bytes" in error
        assert source_task.partition(topic).state is TaskState.RUNNING
        assert (await source_task.copied(topic)).exact
        assert source_task.budget.used <= source_task.budget.limit
