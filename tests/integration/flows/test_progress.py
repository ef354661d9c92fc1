"""What a slot stores and tells: source offsets and offset syncs in Java's bytes, losses; partitions come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition as ClientPartition

from mm2.core.client_settings import FetchSettings, OffsetReset
from mm2.core.connect_offsets import SourceKey, decode_key, decode_offset, encode_key
from mm2.core.formats import OffsetSync
from mm2.core.lease import TaskState
from mm2.core.murmur2 import partition_of
from mm2.core.names import TopicPartition
from tests.integration.flows.lane import COPIED, OFFSETS_PARTITIONS, Slot, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.history import count, read_topic
from tests.lab.records import plain, write
from tests.lab.waiting import until

Unique = Callable[[str], str]


def stored_offsets(slot: Slot) -> dict[TopicPartition, int | None]:
    """The last offset done of each source partition, as the offsets topic has it."""
    stored: dict[TopicPartition, int | None] = {}
    for partition, records in read_topic(slot.target.bootstrap, slot.lease.offsets.topic).items():
        for record in records:
            key, value, _, _ = record.content
            assert key is not None
            assert partition_of(key, OFFSETS_PARTITIONS) == partition
            source = decode_key(key)
            assert isinstance(source, SourceKey)
            assert encode_key(source) == key
            stored[TopicPartition(source.topic, source.partition)] = decode_offset(value)
    return stored


def syncs(slot: Slot) -> list[OffsetSync]:
    assert slot.lease.offset_syncs is not None
    read = read_topic(slot.source.bootstrap, slot.lease.offset_syncs.topic)
    return [OffsetSync.decode(record.content[0], record.content[1]) for record in read[0]]


async def test_offsets_and_syncs_and_a_restart_that_repeats_nothing(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("resume")
    cluster_a.create_topic(topic, partitions=2)
    write(cluster_a.bootstrap, topic, plain(1_000, partitions=2))
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    async with copying(cluster_a, cluster_b, {topic: 2}) as first:
        assert (await first.copied(topic)).exact
        await until(lambda: first.partition(topic).stored == 500, COPIED, "offsets are stored while it runs")
        write(cluster_a.bootstrap, topic, plain(1_000, partitions=2, first=1_000))
        assert (await first.copied(topic)).exact
        stored = await first.drained()
        assert stored == dict.fromkeys(both, 1_000)
        assert all(one.state is TaskState.STOPPED for one in first.runner.progress().partitions)
    assert stored_offsets(first) == dict.fromkeys(both, 999)
    last = {sync.topic_partition: (sync.upstream_offset, sync.downstream_offset) for sync in syncs(first)}
    assert last == dict.fromkeys(both, (999, 999)), "the drain's commit sends what was held back"
    write(cluster_a.bootstrap, topic, plain(500, partitions=2, first=2_000))
    async with copying(cluster_a, cluster_b, {topic: 2}, starts=stored, again=first) as second:
        assert (await second.copied(topic)).exact
        await second.caught_up(topic)  # the target has a record before the lane knows
        assert second.partition(topic).records_total == 250


async def test_a_slot_that_dies_loses_nothing(cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique) -> None:
    topic = unique("dies")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(30_000), records_per_batch=50)
    async with copying(cluster_a, cluster_b, {topic: 1}) as first:
        await until(lambda: first.partition(topic).records_total > 0, COPIED, "something is copied")
    stored = stored_offsets(first).get(TopicPartition(topic, 0))
    start = {TopicPartition(topic, 0): 0 if stored is None else stored + 1}
    async with copying(cluster_a, cluster_b, {topic: 1}, starts=start, again=first) as second:
        assert (await second.copied(topic, repeats_allowed=True)).complete


async def test_records_that_retention_took_are_reported_as_lost(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("loss")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(1_000), records_per_batch=100)
    cluster_a.admin.delete_records([ClientPartition(topic, 0, 700)])[ClientPartition(topic, 0)].result(30)
    async with copying(cluster_a, cluster_b, {topic: 1}, starts={TopicPartition(topic, 0): 200}) as slot:
        assert (await slot.copied(topic)).exact
        await slot.caught_up(topic)
        (loss,) = slot.runner.progress().losses
        assert (loss.topic, loss.partition, loss.first, loss.until) == (topic, 0, 200, 700)
        assert "retention" in loss.reason


async def test_a_topic_made_anew_is_copied_from_its_beginning(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("anew")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(1_000))
    async with copying(cluster_a, cluster_b, {topic: 1}) as slot:
        assert (await slot.copied(topic)).exact
        await asyncio.to_thread(lambda: cluster_a.admin.delete_topics([topic])[topic].result(30))
        await until(lambda: slot.partition(topic).error is not None, COPIED, "the missing topic is told")
        await asyncio.to_thread(cluster_a.create_topic, topic)
        write(cluster_a.bootstrap, topic, plain(10, first=5_000))
        await until(lambda: slot.partition(topic).records_total == 1_010, COPIED, "the new records are copied")
        await slot.caught_up(topic)
        (loss,) = slot.runner.progress().losses
        assert loss.first == 1_000
        assert "made anew" in loss.reason
        assert count(read_topic(cluster_b.bootstrap, f"A.{topic}")) == 1_010


@pytest.mark.parametrize(("policy", "copied"), [(OffsetReset.EARLIEST, 120), (OffsetReset.LATEST, 20)])
async def test_where_a_partition_without_offset_begins(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, policy: OffsetReset, copied: int
) -> None:
    topic = unique("begin")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(100))
    async with copying(cluster_a, cluster_b, {topic: 1}, fetch=FetchSettings(auto_offset_reset=policy)) as slot:
        await until(lambda: slot.partition(topic).end_offset == 100, COPIED, "it has begun")
        write(cluster_a.bootstrap, topic, plain(20))
        await until(lambda: slot.partition(topic).records_total == copied, COPIED, "it has copied")
        assert slot.runner.progress().losses == ()


async def test_no_offset_and_no_policy_fails_the_partition(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("none")
    cluster_a.create_topic(topic)
    settings = FetchSettings(auto_offset_reset=OffsetReset.NONE)
    async with copying(cluster_a, cluster_b, {topic: 1}, fetch=settings) as slot:
        await until(lambda: slot.partition(topic).state is TaskState.FAILED, COPIED, "it is FAILED")
        words = "no offset is stored and auto.offset.reset is none"
        assert slot.partition(topic).error == f"fetch {topic}-0: {words}"


async def test_partitions_leave_and_come_while_others_are_copied(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("moving")
    cluster_a.create_topic(topic, partitions=3)
    write(cluster_a.bootstrap, topic, plain(3_000, partitions=3))
    async with copying(cluster_a, cluster_b, {topic: 3}) as slot:
        await slot.caught_up(topic)
        every = slot.lease.partitions
        await slot.runner.apply(replace(slot.lease, partitions=every[:2]))
        await until(lambda: slot.partition(topic, 2).state is TaskState.STOPPED, COPIED, "partition 2 is given up")
        assert slot.partition(topic, 2).stored == 1_000
        write(cluster_a.bootstrap, topic, plain(3_000, partitions=3, first=3_000))
        await until(lambda: slot.partition(topic, 1).position == 2_000, COPIED, "the others go on")
        assert slot.partition(topic, 2).position == 1_000
        back = replace(every[2], start_offset=1_000)
        await slot.runner.apply(replace(slot.lease, partitions=(every[0], back)))
        await until(lambda: slot.partition(topic, 2).position == 2_000, COPIED, "partition 2 is back")
        await until(lambda: slot.partition(topic, 1).state is TaskState.STOPPED, COPIED, "partition 1 is given up")
        assert (await slot.copied(topic)).exact
        await slot.drained()


async def test_idle_partitions_that_all_leave_and_come_back_run_again(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """As when an idle flow is paused and resumed: nothing is fetched in between, and nothing is new afterwards."""
    topic = unique("paused")
    cluster_a.create_topic(topic, partitions=2)
    write(cluster_a.bootstrap, topic, plain(20, partitions=2))
    async with copying(cluster_a, cluster_b, {topic: 2}) as slot:
        await slot.caught_up(topic)
        await slot.runner.apply(replace(slot.lease, partitions=()))
        await until(lambda: all_are(slot, TaskState.STOPPED), COPIED, "both are given up")
        back = tuple(replace(one, start_offset=10) for one in slot.lease.partitions)
        await slot.runner.apply(replace(slot.lease, partitions=back))
        await until(lambda: all_are(slot, TaskState.RUNNING), COPIED, "both run, though nothing is written")
        await slot.caught_up(topic)


def all_are(slot: Slot, state: TaskState) -> bool:
    return {one.state for one in slot.told().partitions} == {state}


async def test_what_the_node_knows_is_not_told_again(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("idle")
    cluster_a.create_topic(topic, partitions=3)
    write(cluster_a.bootstrap, topic, plain(30, partitions=3))
    async with copying(cluster_a, cluster_b, {topic: 3}) as slot:
        await slot.caught_up(topic)
        await until(lambda: all(one.stored == 10 for one in slot.told().partitions), COPIED, "all is stored")
        assert slot.runner.news().partitions == ()
        write(cluster_a.bootstrap, topic, (replace(record, partition=1) for record in plain(5)))
        await until(lambda: slot.partition(topic, 1).stored == 15, COPIED, "its records are stored")
        assert slot.runner.news().partitions == ()
        word = slot.told()
        assert (word.partitions, word.whole) == (slot.runner.progress().partitions, True)
