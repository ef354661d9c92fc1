"""Exactly once: records, source offsets and exact offsets in the same transaction, on real brokers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from mm2.core.lanes.lease import PartitionLease, TransactionsLease
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import SourceKey, decode_key, decode_offset
from mm2.core.settings.client import FetchSettings, IsolationLevel
from tests.integration.flows.lane import COPIED, RunningSourceTask, acquired, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.exact_map import judge, read_segments
from tests.lab.freezing import frozen
from tests.lab.history import Record, read_topic
from tests.lab.load import mixed_batches_load
from tests.lab.records import Outgoing, plain, write, write_transactions
from tests.lab.verify import compare
from tests.lab.waiting import until

Unique = Callable[[str], str]

OPEN = TransactionsLease(interval_ms=600_000, timeout_ms=600_000)  # is not committed before the test ends


def committed(cluster: KafkaCluster, topic: str) -> list[Record]:
    """Return what a read_committed consumer sees of partition 0."""
    return list(read_topic(cluster.bootstrap, topic, isolation="read_committed")[0])


def uncommitted(cluster: KafkaCluster, topic: str) -> list[Record]:
    return list(read_topic(cluster.bootstrap, topic, isolation="read_uncommitted")[0])


def stored(source_task: RunningSourceTask) -> dict[TopicPartition, int]:
    """Return the source offsets that a read_committed reader of the offsets topic finds."""
    found: dict[TopicPartition, int] = {}
    topic = read_topic(source_task.target.bootstrap, source_task.offsets_topic, isolation="read_committed")
    for record in itertools.chain.from_iterable(topic.values()):
        assert record.key is not None
        key, offset = decode_key(record.key), decode_offset(record.value)
        assert key is not None
        assert offset is not None
        assert isinstance(key, SourceKey)
        found[TopicPartition(key.topic, key.partition)] = offset
    return found


async def test_records_are_committed_with_their_offsets(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = cluster_a.create_topic(unique("eos"), 3)
    write(cluster_a.bootstrap, topic, plain(300, partitions=3))
    exact = cluster_b.create_topic(unique("exact"), config={"cleanup.policy": "compact"})
    async with copying(
        cluster_a, cluster_b, {topic: 3}, transactions=TransactionsLease(), exact_offsets=exact
    ) as source_task:
        assert (await source_task.copied(topic)).exact
        for first in range(300, 900, 100):
            write(cluster_a.bootstrap, topic, plain(100, partitions=3, first=first))
            await asyncio.sleep(0.15)
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)
        assert await source_task.drained() == {TopicPartition(topic, number): 300 for number in range(3)}
        assert stored(source_task) == {TopicPartition(topic, number): 299 for number in range(3)}
    remote = read_topic(cluster_b.bootstrap, f"A.{topic}")
    assert len({record.offset - number for number, record in enumerate(remote[0])}) > 1, "commits leave markers"
    source, segments = read_topic(cluster_a.bootstrap, topic), read_segments(cluster_b.bootstrap, exact)
    for number in range(3):
        coverage = judge(segments[TopicPartition(topic, number)], source[number], remote[number])
        assert not coverage.conservative, f"partition {number}: {sorted(coverage.conservative)[:10]}"


async def test_nothing_is_visible_before_the_commit_and_a_successor_repeats_nothing(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """The lane is killed with an open transaction; its successor acquires the transactional id first."""
    topic, transactional_id = cluster_a.create_topic(unique("killed")), unique("id")
    producer = await acquired(cluster_b, transactional_id)
    async with copying(cluster_a, cluster_b, {topic: 1}, producer=producer, transactions=OPEN) as killed:
        remote, start = killed.remote[topic], {TopicPartition(topic, 0): -1}
        await until(lambda: stored(killed) == start, COPIED, "the chosen start is stored, in a transaction before")
        write(cluster_a.bootstrap, topic, plain(100))

        def all_are_written() -> bool:
            return len(uncommitted(cluster_b, remote)) == 100

        await until(all_are_written, COPIED, "the records are on the target, in an open transaction")
        assert committed(cluster_b, remote) == []
        assert stored(killed) == start
        one = killed.partition(topic)
        assert (one.position, one.counters.records) == (0, 0), "reports are about committed records"
    producer = await acquired(cluster_b, transactional_id)
    async with copying(
        cluster_a,
        cluster_b,
        {topic: 1},
        predecessor=killed,
        producer=producer,
        transactions=TransactionsLease(),
        starts={TopicPartition(topic, 0): 0},
    ) as successor:
        assert (await successor.copied(topic)).exact
    assert len(uncommitted(cluster_b, remote)) == 200, "a read_uncommitted consumer sees the aborted records too"


async def test_a_transaction_is_committed_when_it_has_enough_bytes(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = cluster_a.create_topic(unique("bytes"))
    async with copying(cluster_a, cluster_b, {topic: 1}, transactions=replace(OPEN, max_bytes=50_000)) as source_task:
        write(cluster_a.bootstrap, topic, plain(1_000, value_bytes=1_000))
        remote = source_task.remote[topic]
        await until(lambda: len(committed(cluster_b, remote)) > 800, COPIED, "full transactions are committed")
        await until(lambda: len(uncommitted(cluster_b, remote)) == 1_000, COPIED, "all is on the target")
        await source_task.drained()
        assert len(committed(cluster_b, remote)) == 1_000, "a drain commits at once"


async def test_a_fenced_source_task_ends_and_commits_nothing_more(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic, transactional_id = cluster_a.create_topic(unique("fenced")), unique("id")
    producer = await acquired(cluster_b, transactional_id)
    async with copying(
        cluster_a, cluster_b, {topic: 1}, producer=producer, transactions=TransactionsLease()
    ) as source_task:
        write(cluster_a.bootstrap, topic, plain(10))
        assert (await source_task.copied(topic)).exact
        await acquired(cluster_b, transactional_id)
        write(cluster_a.bootstrap, topic, plain(10, first=10))
        await until(lambda: source_task.reported().state is TaskState.FAILED, COPIED, "the source task has ended")
        assert "fenced by a newer writer" in str(source_task.reported().error)
        assert len(committed(cluster_b, source_task.remote[topic])) == 10
        assert stored(source_task) == {TopicPartition(topic, 0): 9}


@pytest.mark.parametrize(
    "outage",
    [  # a kill: tests/faults/test_each_kind.py
        pytest.param("kill", marks=pytest.mark.long),
        pytest.param("restart", marks=pytest.mark.long),
        "freeze",
    ],
)
async def test_target_broker_is_gone_for_a_while(
    cluster_a: KafkaCluster, breakable: KafkaCluster, unique: Unique, outage: str
) -> None:
    """Batches in flight have an unknown result: the transaction is aborted, and its records are fetched again."""
    target = breakable
    topic = cluster_a.create_topic(unique("outage"), 3)
    async with copying(cluster_a, target, {topic: 3}, transactions=TransactionsLease()) as source_task:
        load = mixed_batches_load(cluster_a, topic, partitions=3, codec="lz4")
        load.start()
        for _ in range(2):
            await asyncio.sleep(1)
            if outage == "freeze":
                with frozen(target.broker(1).process):
                    await asyncio.sleep(4)
            else:
                if outage == "kill":
                    await asyncio.to_thread(target.broker(1).kill)
                    await asyncio.sleep(1)
                await asyncio.to_thread(target.broker(1).restart)
        await asyncio.to_thread(load.stop)
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)
        assert source_task.reported().error is None


async def test_a_returned_partition_gets_the_next_epoch_between_transactions(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    moving, staying = cluster_a.create_topic(unique("moving")), cluster_a.create_topic(unique("staying"))
    topics = {moving: 1, staying: 1}
    async with copying(cluster_a, cluster_b, topics, transactions=TransactionsLease()) as source_task:
        lease = source_task.lease
        for first in range(0, 90, 30):
            for topic in topics:
                write(cluster_a.bootstrap, topic, plain(30, first=first))
            assert (await source_task.copied(moving)).exact
            only = tuple(one for one in lease.partitions if one.topic == staying)
            source_task.runner.apply(replace(lease, partitions=only))
            await until(lambda: is_stopped(source_task, moving), COPIED, "the partition has left")
            source_task.runner.apply(lease)
        assert (await source_task.copied(moving)).exact
        assert (await source_task.copied(staying)).exact


def is_stopped(source_task: RunningSourceTask, topic: str) -> bool:
    return source_task.partition(topic).state is TaskState.STOPPED


async def test_a_rejected_record_stops_its_partition_and_the_rest_is_committed(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    bad, good = cluster_a.create_topic(unique("bad")), cluster_a.create_topic(unique("good"))
    for topic in (bad, good):
        write(cluster_a.bootstrap, topic, plain(20))
    write(cluster_a.bootstrap, bad, [Outgoing(key=b"big", value=bytes(30_000))])
    for topic in (bad, good):
        write(cluster_a.bootstrap, topic, plain(20, first=20))
    async with copying(
        cluster_a,
        cluster_b,
        {bad: 1, good: 1},
        remote_config={"max.message.bytes": "20000"},
        transactions=TransactionsLease(),
    ) as source_task:
        assert (await source_task.copied(good)).exact
        await until(lambda: source_task.partition(bad).state is TaskState.FAILED, COPIED, "the partition has stopped")
        await until(lambda: source_task.partition(bad).position == 20, COPIED, "what is before is committed")
        assert len(committed(cluster_b, source_task.remote[bad])) == 20
        source_task.skip(20)
        await until(lambda: source_task.partition(bad).position == 41, COPIED, "the rest is committed")
    source, remote = (list(read_topic(c.bootstrap, t)[0]) for c, t in ((cluster_a, bad), (cluster_b, f"A.{bad}")))
    assert compare({0: [one for one in source if one.offset != 20]}, {0: remote}).exact


async def test_transactions_of_the_source_are_not_those_of_the_target(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = cluster_a.create_topic(unique("nested"))
    transactions = [(plain(7, first=7 * number), number % 3 != 0) for number in range(20)]
    write_transactions(cluster_a.bootstrap, topic, transactions, transactional_id=unique("writer"))
    fetch = FetchSettings(isolation_level=IsolationLevel.READ_COMMITTED)
    async with copying(cluster_a, cluster_b, {topic: 1}, fetch=fetch, transactions=TransactionsLease()) as source_task:
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)


async def test_a_partition_without_a_remote_topic_does_not_stop_the_others(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    good, missing = cluster_a.create_topic(unique("good")), cluster_a.create_topic(unique("missing"))
    async with copying(cluster_a, cluster_b, {good: 1}, transactions=TransactionsLease()) as source_task:
        lease = PartitionLease(topic=missing, partition=0, remote_topic=f"A.{missing}", start_offset=0)
        source_task.runner.apply(replace(source_task.lease, partitions=(*source_task.lease.partitions, lease)))
        for topic in (good, missing):
            write(cluster_a.bootstrap, topic, plain(50))
        assert (await source_task.copied(good)).exact
        await until(lambda: bool(source_task.partition(missing).error), COPIED, "the missing topic is reported")
        cluster_b.create_topic(f"A.{missing}")
        source_task.remote[missing] = f"A.{missing}"
        assert (await source_task.copied(missing)).exact
