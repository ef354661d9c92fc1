"""Exact offsets that a lane records on real brokers, checked against the contents of both topics."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from flows.commit.exact_offset_writer import ExactOffsetWriter
from flows.partition.state import OffsetRange
from mm2.core.lanes.lease import ExactOffsetsLease, PartitionLease
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import UNKNOWN_IDS, Segment, segment_text
from mm2.core.settings.client import ClientSettings, FetchSettings, IsolationLevel, OffsetReset
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.control_producer import ControlProducer
from tests.integration.flows.lane import COPIED, RunningSourceTask, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.exact_map import TranslationCoverage, judge, read_segments
from tests.lab.fixtures import StartCluster
from tests.lab.history import end_offset_sum, read_topic
from tests.lab.judged_positions import TwoTopics, read_map, summary
from tests.lab.quotas import set_quota
from tests.lab.records import plain, write, write_transactions
from tests.lab.waiting import until
from tests.unit.flows.replicators import partition

Unique = Callable[[str], str]

TRANSACTIONS = 1_000

COMMITTED = FetchSettings(isolation_level=IsolationLevel.READ_COMMITTED)


@pytest.fixture
def exact_topic(cluster_b: KafkaCluster, unique: Unique) -> str:
    return cluster_b.create_topic(unique("mm2-exact-offsets"), config={"cleanup.policy": "compact"})


async def coverage_of(
    source_task: RunningSourceTask, exact_topic: str, topic: str, partition: int = 0
) -> TranslationCoverage:
    """Return the coverage of a partition's exact offsets after draining the source task, and judge all positions."""

    def read() -> TranslationCoverage:
        source = read_topic(source_task.source.bootstrap, topic)[partition]
        remote = read_topic(source_task.target.bootstrap, source_task.remote[topic])[partition]
        one, positions = TopicPartition(topic, partition), read_map(source_task.target.bootstrap, exact_topic)
        both = TwoTopics(one, source, remote)
        for direction, counts in (
            ("to the target", both.judge_to_target(range(source[-1].offset + 3), partial(positions.on_target, one))),
            ("to the source", both.judge_to_source(range(remote[-1].offset + 3), partial(positions.on_source, one))),
        ):
            print(summary(f"{topic}-{partition} {direction}", counts))
        return judge(read_segments(source_task.target.bootstrap, exact_topic).get(one, []), source, remote)

    return await asyncio.to_thread(read)


async def test_all_offsets_of_all_shapes_are_exact(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, exact_topic: str
) -> None:
    """Unchanged batches, merged tiny batches, several partitions, and transactions of which a third is aborted."""
    whole, tiny, ledger = unique("whole"), unique("tiny"), unique("ledger")
    for topic, partitions in ((whole, 2), (tiny, 1), (ledger, 1)):
        cluster_a.create_topic(topic, partitions)
    write(cluster_a.bootstrap, whole, plain(2_000, partitions=2), codec="lz4")
    write(cluster_a.bootstrap, tiny, plain(500), records_per_batch=2)
    transactions = [(list(plain(7, first=7 * number)), number % 3 != 1) for number in range(30)]
    write_transactions(cluster_a.bootstrap, ledger, transactions, transactional_id=unique("tx"))
    topics = {whole: 2, tiny: 1, ledger: 1}
    async with copying(cluster_a, cluster_b, topics, fetch=COMMITTED, exact_offsets=exact_topic) as source_task:
        for topic in topics:
            await source_task.caught_up(topic)
        await source_task.drained()
        for topic, partition in ((whole, 0), (whole, 1), (tiny, 0), (ledger, 0)):
            assert (await coverage_of(source_task, exact_topic, topic, partition)).conservative == frozenset()
    segments = read_segments(cluster_b.bootstrap, exact_topic)
    assert segments[TopicPartition(whole, 1)][-1].ranges == (CopiedRange(0, 0, 1_000),), (
        "one range, regardless of its size"
    )
    assert all(None not in written[-1].topic_ids for written in segments.values())
    assert all(len(written[-1].producers) == 1 for written in segments.values())


async def test_thousands_of_source_transactions_are_exact(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random, exact_topic: str
) -> None:
    """Every marker of the source is a hole; more of them than fit into one segment."""
    topic = unique("markers")
    cluster_a.create_topic(topic)
    transactions = []
    first = 0
    for number in range(TRANSACTIONS):
        records = rng.randint(1, 9)
        transactions.append((list(plain(records, first=first)), number % 50 != 1))
        first += records
    write_transactions(cluster_a.bootstrap, topic, transactions, transactional_id=unique("tx"))
    async with copying(cluster_a, cluster_b, {topic: 1}, fetch=COMMITTED, exact_offsets=exact_topic) as source_task:
        await source_task.caught_up(topic)
        await source_task.drained()
        coverage = await coverage_of(source_task, exact_topic, topic)
    assert coverage.conservative == frozenset()
    assert len(coverage.exact) > 5 * TRANSACTIONS
    (written,) = (await asyncio.to_thread(read_segments, cluster_b.bootstrap, exact_topic)).values()
    assert written[-1].packed is not None
    assert max(len(segment.value()) for segment in written) < 1_600
    assert written[-1].sequence < 8, "a segment has far more than 32 ranges"


async def test_successor_continues_the_range(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, exact_topic: str
) -> None:
    topic = unique("resumed")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(600))
    async with copying(cluster_a, cluster_b, {topic: 1}, exact_offsets=exact_topic) as first:
        await first.caught_up(topic)
        stored = await first.drained()
    write(cluster_a.bootstrap, topic, plain(600, first=600))
    (known,) = read_segments(cluster_b.bootstrap, exact_topic).values()
    segments = {TopicPartition(topic, 0): segment_text(known[-1].key(), known[-1].value())}
    async with copying(
        cluster_a, cluster_b, {topic: 1}, starts=stored, predecessor=first, exact_offsets=exact_topic, segments=segments
    ) as second:
        assert (await second.copied(topic)).exact
        await second.drained()
        assert (await coverage_of(second, exact_topic, topic)).conservative == frozenset()
    (written,) = read_segments(cluster_b.bootstrap, exact_topic).values()
    assert written[-1].ranges == (CopiedRange(0, 0, 1_200),)
    assert {segment.sequence for segment in written} == {0}


async def test_killed_and_repeating_source_tasks(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random, exact_topic: str
) -> None:
    """Four runs, each killed at a random time and resuming from the stored offsets."""
    topic = unique("crashed")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(6_000), records_per_batch=40)
    starts: dict[TopicPartition, int | None] = {}
    segments: dict[TopicPartition, str] = {}
    before: RunningSourceTask | None = None
    fetch = FetchSettings(max_partition_bytes=10_000)
    for _ in range(4):
        async with copying(
            cluster_a,
            cluster_b,
            {topic: 1},
            starts=starts,
            predecessor=before,
            fetch=fetch,
            exact_offsets=exact_topic,
            segments=segments,
            flush_interval_ms=20,  # so that some offsets are stored before it stops
        ) as source_task:
            start = starts.get(TopicPartition(topic, 0)) or 0
            goal = min(6_000, start + rng.randrange(500, 2_500))
            reached = partial(has_copied, source_task, topic, goal, stored=min(6_000, start + 1))
            await until(reached, COPIED, "some records are copied and stored")
            before, starts = source_task, {TopicPartition(topic, 0): source_task.partition(topic).stored}
        known = read_segments(cluster_b.bootstrap, exact_topic).get(TopicPartition(topic, 0))
        segments = {TopicPartition(topic, 0): segment_text(known[-1].key(), known[-1].value())} if known else {}
    async with copying(
        cluster_a,
        cluster_b,
        {topic: 1},
        starts=starts,
        predecessor=before,
        exact_offsets=exact_topic,
        segments=segments,
    ) as source_task:
        assert (await source_task.copied(topic, repeats_allowed=True)).complete
        write(cluster_a.bootstrap, topic, plain(6_000, first=6_000))  # more than any run left unrecorded
        await until(lambda: source_task.partition(topic).position == 12_000, COPIED, "more records are copied")
        await source_task.drained()
        coverage = await coverage_of(source_task, exact_topic, topic)
        assert set(range(6_000, 12_001)) <= coverage.exact


@pytest.mark.parametrize("exact_offsets", ["not a topic name!", "mm2-exact-offsets-nowhere"])
async def test_failure_to_write_exact_offsets_does_not_stop_replication(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, exact_offsets: str
) -> None:
    topic = unique("unwritten")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(100))
    async with copying(cluster_a, cluster_b, {topic: 1}, exact_offsets=exact_offsets) as source_task:
        assert (await source_task.copied(topic)).exact
        await until(lambda: source_task.partition(topic).stored == 100, COPIED, "the offset is stored")
        (warning,) = source_task.runner.progress().warnings
        assert warning.startswith(f"cannot write exact offsets to {exact_offsets}: ")
        assert "replication continues" in warning
        assert source_task.runner.progress().error is None
        assert await source_task.drained() == {TopicPartition(topic, 0): 100}


async def test_warning_ends_when_the_topic_is_recreated(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """Even if no new records are copied."""
    topic, exact_topic = unique("healed"), unique("mm2-exact-offsets")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(100))
    async with copying(cluster_a, cluster_b, {topic: 1}, exact_offsets=exact_topic) as source_task:
        await until(lambda: source_task.runner.progress().warnings, COPIED, "the lane has a warning")
        await asyncio.to_thread(cluster_b.create_topic, exact_topic)
        await until(lambda: not source_task.runner.progress().warnings, COPIED, "the lane has no warning any more")
        await until(lambda: read_segments(cluster_b.bootstrap, exact_topic), COPIED, "the segments are written")


async def test_warning_ends_when_the_partition_is_revoked(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    gone, stays = unique("gone"), unique("stays")
    for topic in (gone, stays):
        cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, gone, plain(100))
    async with copying(cluster_a, cluster_b, {gone: 1, stays: 1}, exact_offsets="not a topic name!") as source_task:
        await until(lambda: source_task.runner.progress().warnings, COPIED, "the lane has a warning")
        left = tuple(one for one in source_task.lease.partitions if one.topic == stays)
        source_task.runner.apply(replace(source_task.lease, partitions=left))
        await until(lambda: source_task.partition(gone).state is TaskState.STOPPED, COPIED, "the partition has stopped")
        await until(lambda: not source_task.runner.progress().warnings, COPIED, "the lane has no warning any more")


@pytest.mark.long  # the throttled producer itself: tests/integration/kafka/test_control_producer.py
async def test_throttling_is_an_error_only_after_a_while(start_cluster: StartCluster) -> None:
    target = start_cluster()
    topic, other = target.create_topic("mm2-exact-offsets"), target.create_topic("other")
    settings = ClientSettings(bootstrap_servers=tuple(target.bootstrap.split(",")), alias="B")
    replicator, _ = partition()
    last = Segment(
        topic_partition=replicator.source,
        sequence=0,
        era=0,
        topic_ids=UNKNOWN_IDS,
        before=CopiedUpTo(),
        through=-1,
        ranges=(CopiedRange(0, 0, 10),),
    )
    lease = PartitionLease(
        topic=replicator.source.topic,
        partition=replicator.source.partition,
        remote_topic=replicator.target.topic,
        start_offset=10,
        last_segment=segment_text(last.key(), last.value()),
    )
    async with Cluster(settings) as cluster, ControlProducer(cluster) as producer:
        exact = ExactOffsetWriter(producer, ExactOffsetsLease(client=settings, topic=topic))
        exact.add(replicator, lease)
        with set_quota(target, "producer_byte_rate", 10_000):
            await producer.send(other, 0, b"k", bytes(170_000))  # throttled for six seconds
            exact.skipped(replicator, OffsetRange(10, 20))
            exact.write()
            await exact.wait(0.1)
            assert exact.error is None
            await exact.wait(COPIED)
            await producer.send(other, 0, b"k", bytes(900_000))  # throttled for a minute or more
            exact.skipped(replicator, OffsetRange(20, 30))
            exact.write()
            await exact.wait(0.1)
            assert exact.error is not None
            assert "throttled by the target's quota for " in exact.error
    (written,) = (await asyncio.to_thread(read_segments, target.bootstrap, topic)).values()
    assert [one.through for one in written] == [20], "the later segment was not written yet"


@pytest.mark.parametrize("reset", [OffsetReset.EARLIEST, OffsetReset.LATEST])
async def test_source_topic_recreated_between_fetches(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, exact_topic: str, reset: OffsetReset
) -> None:
    """The new topic soon has more records than were copied from the old one, so offsets alone do not reveal it."""
    topic = unique("recreated")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(500))
    fetch = FetchSettings(auto_offset_reset=reset)
    starts: dict[TopicPartition, int | None] = {TopicPartition(topic, 0): 0}
    async with copying(
        cluster_a, cluster_b, {topic: 1}, fetch=fetch, exact_offsets=exact_topic, starts=starts
    ) as source_task:
        await source_task.caught_up(topic)
        await asyncio.to_thread(recreate, cluster_a, topic, 800)
        await until(
            lambda: source_task.partition(topic).counters.records >= 1_300, COPIED, "the new records are copied"
        )
        await until(lambda: source_task.partition(topic).stored == 800, COPIED, "the offset is stored")
        progress = source_task.runner.progress()
        expected = f"topic {topic} was deleted and recreated on A; replicating it from the beginning, the remote topic"
        assert any(warning.startswith(expected) for warning in progress.warnings)
        assert progress.losses == (), "nothing was left to copy"
        await source_task.drained()
        source = read_topic(cluster_a.bootstrap, topic)[0]
        remote = read_topic(cluster_b.bootstrap, f"A.{topic}")[0]
        assert [one.content for one in remote[500:]] == [one.content for one in source], (
            "each record of the new topic is copied once"
        )
        written = read_segments(cluster_b.bootstrap, exact_topic)[TopicPartition(topic, 0)]
        assert judge(written, source, remote[500:]).conservative == frozenset()
        assert written[-1].era > written[0].era


async def test_remote_topic_recreated(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, exact_topic: str
) -> None:
    topic = unique("remote-recreated")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(500))
    async with copying(cluster_a, cluster_b, {topic: 1}, exact_offsets=exact_topic) as source_task:
        # the topic ids are compared when offsets are stored: the lease of this test contains none
        await until(lambda: source_task.partition(topic).stored == 500, COPIED, "the offset is stored")
        await asyncio.to_thread(recreate, cluster_b, f"A.{topic}", 0)
        write(cluster_a.bootstrap, topic, plain(300, first=500))
        await until(lambda: end_offset_sum(cluster_b.bootstrap, f"A.{topic}") == 300, COPIED, "the rest is copied")

        def reported() -> bool:
            return any("remote topic" in warning for warning in source_task.runner.progress().warnings)

        await until(reported, COPIED, "the new topic is reported")
        write(cluster_a.bootstrap, topic, plain(100, first=800))
        await until(lambda: source_task.partition(topic).position == 900, COPIED, "more records are copied")
        await source_task.drained()
        coverage = await coverage_of(source_task, exact_topic, topic)
        assert coverage.exact == set(range(500, 901)), "deleted records have no offsets"


def has_copied(source_task: RunningSourceTask, topic: str, records: int, *, stored: int) -> bool:
    progress = source_task.partition(topic)
    return progress.position >= records and (progress.stored or 0) >= stored


def recreate(cluster: KafkaCluster, topic: str, records: int) -> None:
    """Delete the topic and recreate it immediately, with ``records`` records starting at number 10,000."""
    cluster.delete_topic(topic)
    cluster.create_topic(topic)
    write(cluster.bootstrap, topic, plain(records, first=10_000))
