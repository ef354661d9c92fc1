"""What a source task stores and reports: source offsets and offset syncs in Java's format, and lost records.

Partitions are assigned and revoked meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition as ClientPartition

from flows.partition.replicator import PartitionReplicator
from flows.partition.steps import InvariantError
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import SourceKey, decode_key, decode_offset, encode_key
from mm2.core.settings.client import FetchSettings, OffsetReset
from mm2.core.wire.formats import OffsetSync
from mm2.core.wire.murmur2 import partition_of
from tests.integration.flows.lane import COPIED, OFFSETS_PARTITIONS, RunningSourceTask, copying
from tests.lab import verify
from tests.lab.cluster import KafkaCluster
from tests.lab.history import count, read_topic
from tests.lab.records import Outgoing, plain, write
from tests.lab.waiting import until

Unique = Callable[[str], str]
FIRST_MS = int(time.time() * 1000) - 3_600_000


def stored_offsets(source_task: RunningSourceTask) -> dict[TopicPartition, int | None]:
    """Return the stored offset of each source partition in the offsets topic."""
    stored: dict[TopicPartition, int | None] = {}
    for partition, records in read_topic(source_task.target.bootstrap, source_task.offsets_topic).items():
        for record in records:
            key, value, _, _ = record.content
            assert key is not None
            assert partition_of(key, OFFSETS_PARTITIONS) == partition
            source = decode_key(key)
            assert isinstance(source, SourceKey)
            assert encode_key(source) == key
            stored[TopicPartition(source.topic, source.partition)] = decode_offset(value)
    return stored


def syncs(source_task: RunningSourceTask) -> list[OffsetSync]:
    assert source_task.lease.offset_syncs is not None
    read = read_topic(source_task.source.bootstrap, source_task.lease.offset_syncs.topic)
    return [OffsetSync.decode(record.content[0], record.content[1]) for record in read[0]]


async def test_offsets_syncs_and_restart_without_repeats(
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
    assert last == dict.fromkeys(both, (999, 999)), "the commit of the drain sends the pending syncs"
    write(cluster_a.bootstrap, topic, plain(500, partitions=2, first=2_000))
    async with copying(cluster_a, cluster_b, {topic: 2}, starts=stored, predecessor=first) as second:
        assert (await second.copied(topic)).exact
        await second.caught_up(topic)  # the target has a record before the lane has its acknowledgement
        assert second.partition(topic).counters.records == 250


async def test_killed_source_task_loses_nothing(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("dies")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(30_000), records_per_batch=50)
    async with copying(cluster_a, cluster_b, {topic: 1}) as first:
        await until(lambda: first.partition(topic).counters.records > 0, COPIED, "some records are copied")
    stored = stored_offsets(first).get(TopicPartition(topic, 0))
    start = {TopicPartition(topic, 0): 0 if stored is None else stored + 1}
    async with copying(cluster_a, cluster_b, {topic: 1}, starts=start, predecessor=first) as second:
        assert (await second.copied(topic, repeats_allowed=True)).complete


async def test_records_deleted_by_retention_are_reported_as_lost(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("loss")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(1_000), records_per_batch=100)
    cluster_a.admin.delete_records([ClientPartition(topic, 0, 700)])[ClientPartition(topic, 0)].result(30)
    async with copying(cluster_a, cluster_b, {topic: 1}, starts={TopicPartition(topic, 0): 200}) as source_task:
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)
        (loss,) = source_task.runner.progress().losses
        assert (loss.topic, loss.partition, loss.first, loss.until) == (topic, 0, 200, 700)
        assert "was deleted on the source before it was copied" in loss.reason


async def test_recreated_topic_is_copied_from_its_beginning(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("recreated")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(1_000))
    async with copying(cluster_a, cluster_b, {topic: 1}) as source_task:
        assert (await source_task.copied(topic)).exact
        verify.forget()  # from here on the remote topic has records that the source does not have
        await asyncio.to_thread(lambda: cluster_a.admin.delete_topics([topic])[topic].result(30))
        await until(lambda: source_task.partition(topic).error is not None, COPIED, "the missing topic is reported")
        await asyncio.to_thread(cluster_a.create_topic, topic)
        write(cluster_a.bootstrap, topic, plain(10, first=5_000))
        await until(
            lambda: source_task.partition(topic).counters.records == 1_010, COPIED, "the new records are copied"
        )
        await source_task.caught_up(topic)
        assert source_task.runner.progress().losses == (), "nothing was left to copy"
        assert count(read_topic(cluster_b.bootstrap, f"A.{topic}")) == 1_010


@pytest.mark.parametrize(("policy", "copied"), [(OffsetReset.EARLIEST, 120), (OffsetReset.LATEST, 20)])
async def test_auto_offset_reset_of_a_partition_without_offset(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, policy: OffsetReset, copied: int
) -> None:
    topic = unique("begin")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(100))
    async with copying(cluster_a, cluster_b, {topic: 1}, fetch=FetchSettings(auto_offset_reset=policy)) as source_task:
        await until(lambda: source_task.partition(topic).end_offset == 100, COPIED, "the partition has started")
        write(cluster_a.bootstrap, topic, plain(20))
        await until(lambda: source_task.partition(topic).counters.records == copied, COPIED, "the records are copied")
        assert source_task.runner.progress().losses == ()


@pytest.mark.parametrize(
    ("start", "policy", "position"),
    [
        (OffsetReset.EARLIEST, OffsetReset.LATEST, 0),
        (OffsetReset.LATEST, OffsetReset.EARLIEST, 100),
        (29_500, OffsetReset.NONE, 30),
        (-1, OffsetReset.LATEST, 0),
        (100_000, OffsetReset.EARLIEST, 100),
    ],
)
async def test_mm2_start_of_a_partition_without_offset(
    cluster_a: KafkaCluster,
    cluster_b: KafkaCluster,
    unique: Unique,
    start: OffsetReset | int,
    policy: OffsetReset,
    position: int,
) -> None:
    """Times, here since the first record: there is one a second.

    An offset that is stored, and gone, is a case for auto.offset.reset.
    """
    topic, lost = unique("at"), unique("lost")
    for one in (topic, lost):
        cluster_a.create_topic(one)
        write(cluster_a.bootstrap, one, [Outgoing(timestamp_ms=FIRST_MS + 1_000 * number) for number in range(100)])
    cluster_a.admin.delete_records([ClientPartition(lost, 0, 70)])[ClientPartition(lost, 0)].result(30)
    fetch = FetchSettings(auto_offset_reset=policy, start=start if isinstance(start, OffsetReset) else FIRST_MS + start)
    starts = {TopicPartition(lost, 0): 10}
    async with copying(cluster_a, cluster_b, {topic: 1, lost: 1}, fetch=fetch, starts=starts) as source_task:
        await until(lambda: source_task.partition(topic).stored == 100, COPIED, "the partition is copied")
        assert source_task.partition(topic).counters.records == 100 - position
        copied = {OffsetReset.EARLIEST: 30, OffsetReset.LATEST: 0, OffsetReset.NONE: 0}[policy]
        if policy is OffsetReset.NONE:
            await until(
                lambda: source_task.partition(lost).state is TaskState.FAILED, COPIED, "the other one is FAILED"
            )
        else:
            await until(lambda: source_task.partition(lost).position == 100, COPIED, "the other one is reset")
        assert source_task.partition(lost).counters.records == copied


@pytest.mark.parametrize("records", [0, 100])
async def test_chosen_start_is_stored_at_once(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, records: int
) -> None:
    """A restart before the first copied record does not choose again: what was written meanwhile is copied."""
    topic = unique("chosen")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(records))
    latest = FetchSettings(auto_offset_reset=OffsetReset.LATEST)
    place = TopicPartition(topic, 0)
    async with copying(cluster_a, cluster_b, {topic: 1}, fetch=latest, flush_interval_ms=3_600_000) as first:
        await until(lambda: first.partition(topic).position == records, COPIED, "the start is chosen")
        await until(lambda: first.partition(topic).stored == records, COPIED, "the start is stored, before any flush")
    assert stored_offsets(first) == {place: records - 1}
    write(cluster_a.bootstrap, topic, plain(20, first=records))
    async with copying(
        cluster_a, cluster_b, {topic: 1}, fetch=latest, starts={place: records}, predecessor=first
    ) as second:
        await until(lambda: second.partition(topic).counters.records == 20, COPIED, "the records are copied")


async def test_partition_that_left_before_its_first_record_returns(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """Its new lease may have been built before its start was stored."""
    topic = unique("returning")
    cluster_a.create_topic(topic)
    latest = FetchSettings(auto_offset_reset=OffsetReset.LATEST)
    async with copying(cluster_a, cluster_b, {topic: 1}, fetch=latest) as source_task:
        await until(lambda: source_task.partition(topic).position == 0, COPIED, "the start is chosen")
        source_task.runner.apply(replace(source_task.lease, partitions=()))
        await until(lambda: all_are(source_task, TaskState.STOPPED), COPIED, "it is revoked")
        write(cluster_a.bootstrap, topic, plain(20))
        source_task.runner.apply(source_task.lease)
        assert (await source_task.copied(topic)).exact
        await until(lambda: source_task.partition(topic).counters.records == 20, COPIED, "the records are copied")


async def test_no_offset_and_reset_none_fails_the_partition(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("none")
    cluster_a.create_topic(topic)
    settings = FetchSettings(auto_offset_reset=OffsetReset.NONE)
    async with copying(cluster_a, cluster_b, {topic: 1}, fetch=settings) as source_task:
        await until(lambda: source_task.partition(topic).state is TaskState.FAILED, COPIED, "the partition is FAILED")
        reason = "no offset is stored and auto.offset.reset is none"
        assert source_task.partition(topic).error == f"cannot fetch {topic}-0: {reason}"


async def test_partitions_are_revoked_and_assigned_while_others_continue(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("moving")
    cluster_a.create_topic(topic, partitions=3)
    write(cluster_a.bootstrap, topic, plain(3_000, partitions=3))
    async with copying(cluster_a, cluster_b, {topic: 3}) as source_task:
        await source_task.caught_up(topic)
        every = source_task.lease.partitions
        source_task.runner.apply(replace(source_task.lease, partitions=every[:2]))
        await until(
            lambda: source_task.partition(topic, 2).state is TaskState.STOPPED, COPIED, "partition 2 is revoked"
        )
        assert source_task.partition(topic, 2).stored == 1_000
        write(cluster_a.bootstrap, topic, plain(3_000, partitions=3, first=3_000))
        await until(lambda: source_task.partition(topic, 1).position == 2_000, COPIED, "the others continue")
        assert source_task.partition(topic, 2).position == 1_000
        back = replace(every[2], start_offset=1_000)
        source_task.runner.apply(replace(source_task.lease, partitions=(every[0], back)))
        await until(lambda: source_task.partition(topic, 2).position == 2_000, COPIED, "partition 2 continues")
        await until(
            lambda: source_task.partition(topic, 1).state is TaskState.STOPPED, COPIED, "partition 1 is revoked"
        )
        assert (await source_task.copied(topic)).exact
        await source_task.drained()


async def test_idle_partitions_run_again_after_revocation(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """As when an idle flow is paused and resumed: nothing is fetched in between, and there are no new records."""
    topic = unique("paused")
    cluster_a.create_topic(topic, partitions=2)
    write(cluster_a.bootstrap, topic, plain(20, partitions=2))
    async with copying(cluster_a, cluster_b, {topic: 2}) as source_task:
        await source_task.caught_up(topic)
        source_task.runner.apply(replace(source_task.lease, partitions=()))
        await until(lambda: all_are(source_task, TaskState.STOPPED), COPIED, "both are revoked")
        back = tuple(replace(one, start_offset=10) for one in source_task.lease.partitions)
        source_task.runner.apply(replace(source_task.lease, partitions=back))
        await until(lambda: all_are(source_task, TaskState.RUNNING), COPIED, "both run, although nothing is written")
        await source_task.caught_up(topic)


def all_are(source_task: RunningSourceTask, state: TaskState) -> bool:
    return {one.state for one in source_task.reported().partitions} == {state}


async def test_only_changes_are_reported(cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique) -> None:
    topic = unique("idle")
    cluster_a.create_topic(topic, partitions=3)
    write(cluster_a.bootstrap, topic, plain(30, partitions=3))
    async with copying(cluster_a, cluster_b, {topic: 3}) as source_task:
        await source_task.caught_up(topic)
        await until(
            lambda: all(one.stored == 10 for one in source_task.reported().partitions), COPIED, "all offsets are stored"
        )
        assert source_task.runner.news().partitions == ()
        write(cluster_a.bootstrap, topic, (replace(record, partition=1) for record in plain(5)))
        await until(
            lambda: source_task.partition(topic, 1).stored == 15, COPIED, "the offsets of its records are stored"
        )
        assert source_task.runner.news().partitions == ()
        merged = source_task.reported()
        assert (merged.partitions, merged.whole) == (source_task.runner.progress().partitions, True)


async def test_a_broken_invariant_ends_the_source_task(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_invariant(_: PartitionReplicator) -> None:
        raise InvariantError("(H) does not hold")

    topic = unique("broken")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(10))
    async with copying(cluster_a, cluster_b, {topic: 1}) as source_task:
        assert (await source_task.copied(topic)).exact
        monkeypatch.setattr(PartitionReplicator, "validate", break_invariant)
        await until(
            lambda: source_task.reported().state is TaskState.FAILED, COPIED, "the source task has failed at its defect"
        )
        assert "(H) does not hold" in str(source_task.reported().error)
