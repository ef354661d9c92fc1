"""Losses in a running source task: what is recorded before which source offset is stored, and what stops."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition as ClientPartition

from flows.partition.timeouts import Timeouts
from mm2.core.lanes.lease import TransactionsLease
from mm2.core.lanes.losses import Loss, LossKind, OnDataLoss, decode_loss
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from tests.integration.flows.lane import COPIED, RunningSourceTask, copying
from tests.integration.flows.test_progress import stored_offsets
from tests.lab.cluster import KafkaCluster
from tests.lab.history import count, read_topic
from tests.lab.records import plain, write
from tests.lab.topic_configs import alter
from tests.lab.waiting import until

Unique = Callable[[str], str]

REFUSED = ("max.message.bytes", "40")
"""Config of a topic on the target that accepts no record."""


TIMEOUTS = Timeouts(failed_retry_s=1.0)
"""Fetch again one second after the target rejected a record, instead of half a minute."""


def delete_before(cluster: KafkaCluster, topic: str, offset: int) -> None:
    """Delete records as retention does."""
    for future in cluster.admin.delete_records([ClientPartition(topic, 0, offset)]).values():
        future.result(30)


def recorded(source_task: RunningSourceTask) -> list[dict[str, Any]]:
    """Return the values of all records in the losses topic."""
    assert source_task.lease.losses is not None
    read = read_topic(source_task.target.bootstrap, source_task.lease.losses.topic)
    return [json.loads(record.content[1] or b"") for record in read.get(0, ())]


@asynccontextmanager
async def falling_behind(
    source: KafkaCluster, target: KafkaCluster, topic: str, on_data_loss: OnDataLoss = OnDataLoss.CONTINUE
) -> AsyncIterator[RunningSourceTask]:
    """Run a source task that has copied 100 records; the target rejects 300 more."""
    source.create_topic(topic)
    write(source.bootstrap, topic, plain(100))
    async with copying(source, target, {topic: 1}, on_data_loss=on_data_loss, timeouts=TIMEOUTS) as source_task:
        await source_task.caught_up(topic)
        await until(lambda: source_task.partition(topic).stored == 100, COPIED, "the offset is stored")
        await asyncio.to_thread(alter, target, f"A.{topic}", *REFUSED)
        write(source.bootstrap, topic, plain(300))
        await until(lambda: source_task.partition(topic).error is not None, COPIED, "the target rejects the records")
        yield source_task


async def test_retention_overtakes_a_running_partition(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("overtaken")
    async with falling_behind(cluster_a, cluster_b, topic) as source_task:
        before = int(time.time() * 1000)
        await asyncio.to_thread(delete_before, cluster_a, topic, 350)
        await asyncio.to_thread(alter, cluster_b, f"A.{topic}", "max.message.bytes", None)
        await until(lambda: source_task.partition(topic).stored == 400, COPIED, "the rest is copied and stored")
        (loss,) = source_task.runner.progress().losses
        assert loss.kind == LossKind.RETENTION
        assert 100 <= loss.first < loss.until == 350
        assert loss.time is not None
        assert before <= loss.time <= time.time() * 1000
        (record,) = recorded(source_task)
        assert (record["topic"], record["partition"], record["first"], record["last"], record["time"]) == (
            topic,
            0,
            loss.first,
            349,
            loss.time,
        )
        assert (record["kind"], record["reason"]) == ("retention", loss.reason)
        copied = count(read_topic(cluster_b.bootstrap, f"A.{topic}"))
        assert copied == loss.first + 50, "each record was either copied or reported"


async def test_recreation_before_all_was_copied(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("recreated")
    async with falling_behind(cluster_a, cluster_b, topic) as source_task:
        await asyncio.to_thread(cluster_a.delete_topic, topic)
        await asyncio.to_thread(cluster_a.create_topic, topic)
        write(cluster_a.bootstrap, topic, plain(10, first=9_000))
        await asyncio.to_thread(alter, cluster_b, f"A.{topic}", "max.message.bytes", None)
        await until(lambda: source_task.partition(topic).stored == 10, COPIED, "the new topic is copied")
        (loss,) = source_task.runner.progress().losses
        assert loss.kind == LossKind.TOPIC_RECREATED
        copied = count(read_topic(cluster_b.bootstrap, f"A.{topic}")) - 10
        assert (loss.first, loss.until) == (copied, 400)
        (record,) = recorded(source_task)
        assert (record["first"], record["last"], record["kind"]) == (copied, 399, "topic-recreated")


async def test_deletion_before_all_was_copied(cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique) -> None:
    topic = unique("deleted")
    async with falling_behind(cluster_a, cluster_b, topic) as source_task:
        await asyncio.to_thread(cluster_a.delete_topic, topic)
        await asyncio.to_thread(alter, cluster_b, f"A.{topic}", "max.message.bytes", None)
        source_task.runner.apply(replace(source_task.lease, partitions=()))  # as when the leader misses the topic
        await until(
            lambda: source_task.partition(topic).state is TaskState.STOPPED, COPIED, "the partition has stopped"
        )
        (loss,) = source_task.runner.progress().losses
        assert loss.kind == LossKind.TOPIC_DELETED
        copied = count(read_topic(cluster_b.bootstrap, f"A.{topic}"))
        assert (loss.first, loss.until) == (copied, 400)
        assert [record["last"] for record in recorded(source_task)] == [399]


async def test_a_partition_that_moves_away_has_no_loss(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("moved")
    async with falling_behind(cluster_a, cluster_b, topic) as source_task:
        source_task.runner.apply(replace(source_task.lease, partitions=()))
        await asyncio.to_thread(alter, cluster_b, f"A.{topic}", "max.message.bytes", None)
        await until(
            lambda: source_task.partition(topic).state is TaskState.STOPPED, COPIED, "the partition has stopped"
        )
        assert source_task.partition(topic).position < 400
        assert source_task.runner.progress().losses == ()


async def test_compaction_markers_and_aborted_records_are_no_losses(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    from confluent_kafka import Producer  # noqa: PLC0415

    topic = unique("gaps")
    cluster_a.create_topic(topic)
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(topic, key=b"k", value=b"v", partition=0)
        producer.flush(30)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)
    async with copying(
        cluster_a, cluster_b, {topic: 1}, on_data_loss=OnDataLoss.STOP_PARTITION, timeouts=TIMEOUTS
    ) as source_task:
        await source_task.caught_up(topic)
        assert source_task.partition(topic).position == 36
        assert source_task.runner.progress().losses == ()
        assert recorded(source_task) == []


def accepting(source_task: RunningSourceTask, loss: Loss) -> None:
    """Give the source task a lease with the acceptance, as its node does."""
    (partition,) = source_task.lease.partitions
    lease = replace(source_task.lease, partitions=(replace(partition, accepted_loss=replace(loss, accepted=True)),))
    source_task.runner.apply(lease)


async def test_a_stopped_partition_continues_after_acceptance(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("stopped")
    async with falling_behind(cluster_a, cluster_b, topic, OnDataLoss.STOP_PARTITION) as source_task:
        await asyncio.to_thread(delete_before, cluster_a, topic, 350)
        await asyncio.to_thread(alter, cluster_b, f"A.{topic}", "max.message.bytes", None)
        await until(lambda: bool(source_task.runner.progress().losses), COPIED, "the loss is reported")
        (loss,) = source_task.runner.progress().losses
        assert (loss.stops, loss.accepted) == ("partition", False)
        await until(lambda: source_task.partition(topic).stored == loss.first, COPIED, "what precedes it is stored")
        partition = source_task.partition(topic)
        assert partition.state is TaskState.FAILED
        assert partition.error is not None
        assert f"mm2 accept-loss FILE --flow 'A->B' --topic {topic} --partition 0" in partition.error
        write(cluster_a.bootstrap, topic, plain(1, first=50_000))
        await asyncio.sleep(1)  # several flush intervals: nothing after the loss is copied or stored
        assert source_task.partition(topic).stored == loss.first
        assert count(read_topic(cluster_b.bootstrap, f"A.{topic}")) == loss.first
        assert [record["stops"] for record in recorded(source_task)] == ["partition"]

        accepting(source_task, loss)
        await until(lambda: source_task.partition(topic).stored == 401, COPIED, "copying continues after the loss")
        assert count(read_topic(cluster_b.bootstrap, f"A.{topic}")) == loss.first + 51
        assert recorded(source_task)[-1]["accepted"] is True
        assert source_task.partition(topic).state is TaskState.RUNNING
        assert len(source_task.runner.progress().losses) == 1


async def test_a_recreated_topic_is_not_copied_before_acceptance(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("stopped")
    async with falling_behind(cluster_a, cluster_b, topic, OnDataLoss.STOP_FLOW) as source_task:
        await asyncio.to_thread(cluster_a.delete_topic, topic)
        await asyncio.to_thread(cluster_a.create_topic, topic)
        write(cluster_a.bootstrap, topic, plain(10, first=9_000))
        await asyncio.to_thread(alter, cluster_b, f"A.{topic}", "max.message.bytes", None)
        await until(lambda: bool(source_task.runner.progress().losses), COPIED, "the loss is reported")
        await until(lambda: source_task.partition(topic).state is TaskState.FAILED, COPIED, "the partition is stopped")
        (loss,) = source_task.runner.progress().losses
        await asyncio.sleep(1)  # several flush intervals
        last = f'["MirrorSourceConnector",{{"cluster":"A","partition":0,"topic":"{topic}"}}]'
        assert stored_offsets(source_task)[TopicPartition(topic, 0)] == loss.first - 1, f"nothing is stored for {last}"
        assert recorded(source_task)[-1]["stops"] == "flow"
        accepting(source_task, loss)
        await until(lambda: source_task.partition(topic).stored == 10, COPIED, "the new topic is copied")
        assert count(read_topic(cluster_b.bootstrap, f"A.{topic}")) == loss.first + 10


@pytest.mark.parametrize("on_data_loss", [OnDataLoss.CONTINUE, OnDataLoss.STOP_PARTITION])
async def test_no_offset_after_a_loss_is_stored_before_it_is_recorded(
    cluster_a: KafkaCluster,
    cluster_b: KafkaCluster,
    unique: Unique,
    on_data_loss: OnDataLoss,
) -> None:
    """Under ``continue`` the wait ends; a loss that an operator has accepted must be recorded before copying counts."""
    timeouts = replace(TIMEOUTS, loss_patience_s=5.0)
    topic = unique("unrecorded")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(1_000), records_per_batch=100)
    await asyncio.to_thread(delete_before, cluster_a, topic, 700)
    starts: Mapping[TopicPartition, int | None] = {TopicPartition(topic, 0): 200}
    async with copying(
        cluster_a,
        cluster_b,
        {topic: 1},
        starts=starts,
        on_data_loss=on_data_loss,
        losses_config=dict([REFUSED]),
        timeouts=timeouts,
    ) as source_task:
        assert source_task.lease.losses is not None
        losses = source_task.lease.losses.topic
        if on_data_loss is OnDataLoss.STOP_PARTITION:
            await until(lambda: bool(source_task.runner.progress().losses), COPIED, "the loss is reported")
            accepting(source_task, source_task.runner.progress().losses[0])
        await until(lambda: source_task.partition(topic).position == 1_000, COPIED, "copying continues")
        assert source_task.partition(topic).stored == 200
        if on_data_loss is OnDataLoss.CONTINUE:
            await until(lambda: source_task.partition(topic).stored == 1_000, COPIED, "the wait for the topic ends")
        else:
            await asyncio.sleep(3)  # longer than the wait under continue
            assert source_task.partition(topic).stored == 200
        (warning,) = source_task.runner.progress().warnings
        assert warning.startswith(f"cannot record losses in {losses}: ")
        await asyncio.to_thread(alter, cluster_b, losses, "max.message.bytes", None)
        await until(lambda: source_task.partition(topic).stored == 1_000, COPIED, "the offset is stored")
        await until(lambda: not source_task.runner.progress().warnings, COPIED, "the warning ends")
        found = read_topic(cluster_b.bootstrap, losses)[0]
        assert {decode_loss(*record.content[:2]).first for record in found} == {200}  # type: ignore[union-attr]


async def test_a_partition_waits_outside_transactions_until_its_loss_is_recorded(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """With exactly-once nothing can be copied without its offset; other partitions are copied."""
    overtaken, other = unique("unrecorded"), unique("other")
    for topic in (overtaken, other):
        cluster_a.create_topic(topic)
        write(cluster_a.bootstrap, topic, plain(1_000), records_per_batch=100)
    await asyncio.to_thread(delete_before, cluster_a, overtaken, 700)
    starts: Mapping[TopicPartition, int | None] = {TopicPartition(overtaken, 0): 200}
    async with copying(
        cluster_a,
        cluster_b,
        {overtaken: 1, other: 1},
        starts=starts,
        on_data_loss=OnDataLoss.CONTINUE,
        losses_config=dict([REFUSED]),
        transactions=TransactionsLease(),
    ) as source_task:
        assert source_task.lease.losses is not None
        await until(lambda: source_task.partition(other).stored == 1_000, COPIED, "the other partition is copied")
        assert source_task.partition(overtaken).stored == 200
        assert not any(read_topic(cluster_b.bootstrap, source_task.remote[overtaken]).values())
        await asyncio.to_thread(alter, cluster_b, source_task.lease.losses.topic, "max.message.bytes", None)
        await until(lambda: source_task.partition(overtaken).stored == 1_000, COPIED, "the rest is copied")
        assert len(read_topic(cluster_b.bootstrap, source_task.remote[overtaken])[0]) == 300
        assert [record["last"] for record in recorded(source_task)] == [699]


async def test_a_successor_is_stopped_by_what_was_recorded(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("successor")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(1_000), records_per_batch=100)
    await asyncio.to_thread(delete_before, cluster_a, topic, 700)
    starts: Mapping[TopicPartition, int | None] = {TopicPartition(topic, 0): 200}
    async with copying(
        cluster_a, cluster_b, {topic: 1}, starts=starts, on_data_loss=OnDataLoss.STOP_PARTITION
    ) as source_task:
        await until(lambda: bool(recorded(source_task)), COPIED, "the loss is recorded")
        (loss,) = source_task.runner.progress().losses
        (partition,) = source_task.lease.partitions
        source_task.runner.apply(replace(source_task.lease, partitions=()))
        await until(
            lambda: source_task.partition(topic).state is TaskState.STOPPED, COPIED, "the partition has stopped"
        )
        source_task.runner.apply(replace(source_task.lease, partitions=(replace(partition, stopped_by=loss),)))
        await until(lambda: source_task.partition(topic).state is TaskState.FAILED, COPIED, "it is stopped again")
        await asyncio.sleep(0.5)
        assert source_task.partition(topic).stored == 200
        assert len(recorded(source_task)) == 1, "it is not noticed again"
        accepting(source_task, loss)
        await until(lambda: source_task.partition(topic).stored == 1_000, COPIED, "copying continues after the loss")
