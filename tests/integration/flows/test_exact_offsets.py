"""What a lane writes down of its acknowledgements, on real brokers, judged by both topics' contents."""

from __future__ import annotations

import asyncio
import random
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace

import pytest

from flows.exact_offsets import ExactOffsets
from flows.surroundings import Seen
from mm2.core.client_settings import ClientSettings, FetchSettings, IsolationLevel, OffsetReset
from mm2.core.exact_offset_records import UNKNOWN_IDS, CopiedRange, Reach, Segment
from mm2.core.lease import ExactOffsetsLease, PartitionLease, TaskState
from mm2.core.names import TopicPartition
from mm2.kafka.cluster import Cluster
from mm2.kafka.control_producer import ControlProducer
from tests.faults.quotas import set_quota
from tests.integration.flows.lane import COPIED, Slot, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.exact_map import Coverage, judge, read_segments
from tests.lab.fixtures import StartCluster
from tests.lab.history import end_offset_sum, read_topic
from tests.lab.records import plain, write, write_transactions
from tests.lab.waiting import until
from tests.unit.flows.copies import partition

Unique = Callable[[str], str]

COMMITTED = FetchSettings(isolation_level=IsolationLevel.READ_COMMITTED)


@pytest.fixture
def exact_topic(cluster_b: KafkaCluster, unique: Unique) -> str:
    return cluster_b.create_topic(unique("mm2-exact-offsets"), config={"cleanup.policy": "compact"})


async def judged(slot: Slot, exact_topic: str, topic: str, partition: int = 0) -> Coverage:
    """After the slot was drained."""

    def read() -> Coverage:
        source = read_topic(slot.source.bootstrap, topic)[partition]
        remote = read_topic(slot.target.bootstrap, slot.remote[topic])[partition]
        segments = read_segments(slot.target.bootstrap, exact_topic)
        return judge(segments.get(TopicPartition(topic, partition), []), source, remote)

    return await asyncio.to_thread(read)


async def test_every_offset_of_every_shape_is_exact(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, exact_topic: str
) -> None:
    """Batches as they are, tiny ones merged, several partitions, and transactions of which a third is aborted."""
    whole, tiny, ledger = unique("whole"), unique("tiny"), unique("ledger")
    for topic, partitions in ((whole, 2), (tiny, 1), (ledger, 1)):
        cluster_a.create_topic(topic, partitions)
    write(cluster_a.bootstrap, whole, plain(2_000, partitions=2), codec="lz4")
    write(cluster_a.bootstrap, tiny, plain(500), records_per_batch=2)
    transactions = [(list(plain(7, first=7 * number)), number % 3 != 1) for number in range(30)]
    write_transactions(cluster_a.bootstrap, ledger, transactions, transactional_id=unique("tx"))
    topics = {whole: 2, tiny: 1, ledger: 1}
    async with copying(cluster_a, cluster_b, topics, fetch=COMMITTED, exact_offsets=exact_topic) as slot:
        for topic in topics:
            await slot.caught_up(topic)
        await slot.drained()
        for topic, partition in ((whole, 0), (whole, 1), (tiny, 0), (ledger, 0)):
            assert (await judged(slot, exact_topic, topic, partition)).conservative == frozenset()
    segments = read_segments(cluster_b.bootstrap, exact_topic)
    assert segments[TopicPartition(whole, 1)][-1].ranges == (CopiedRange(0, 0, 1_000),), "one range, whatever its size"
    assert all(None not in written[-1].topic_ids for written in segments.values())


async def test_a_successor_goes_on_in_the_same_range(
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
    segments = {TopicPartition(topic, 0): b64encode(known[-1].value()).decode()}
    async with copying(
        cluster_a, cluster_b, {topic: 1}, starts=stored, again=first, exact_offsets=exact_topic, segments=segments
    ) as second:
        assert (await second.copied(topic)).exact
        await second.drained()
        assert (await judged(second, exact_topic, topic)).conservative == frozenset()
    (written,) = read_segments(cluster_b.bootstrap, exact_topic).values()
    assert written[-1].ranges == (CopiedRange(0, 0, 1_200),)
    assert {segment.sequence for segment in written} == {0}


async def test_a_copier_that_dies_and_one_that_repeats(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random, exact_topic: str
) -> None:
    """Four lives, each ended at a moment of chance; each goes on from what had been stored by then."""
    topic = unique("crashed")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(6_000), records_per_batch=40)
    starts: dict[TopicPartition, int | None] = {}
    segments: dict[TopicPartition, str] = {}
    before: Slot | None = None
    fetch = FetchSettings(max_partition_bytes=10_000)
    for _ in range(4):
        async with copying(
            cluster_a,
            cluster_b,
            {topic: 1},
            starts=starts,
            again=before,
            fetch=fetch,
            exact_offsets=exact_topic,
            segments=segments,
            flush_interval_ms=20,  # so that some is stored before it ends
        ) as slot:
            goal = min(6_000, (starts.get(TopicPartition(topic, 0)) or 0) + rng.randrange(500, 2_500))
            await until(lambda slot=slot, goal=goal: slot.partition(topic).position >= goal, COPIED, "some is copied")  # type: ignore[misc]
            before, starts = slot, {TopicPartition(topic, 0): slot.partition(topic).stored}
        known = read_segments(cluster_b.bootstrap, exact_topic).get(TopicPartition(topic, 0))
        segments = {TopicPartition(topic, 0): b64encode(known[-1].value()).decode()} if known else {}
    async with copying(
        cluster_a, cluster_b, {topic: 1}, starts=starts, again=before, exact_offsets=exact_topic, segments=segments
    ) as slot:
        assert (await slot.copied(topic, repeats_allowed=True)).complete
        write(cluster_a.bootstrap, topic, plain(6_000, first=6_000))  # more than any life left unaccounted for
        await until(lambda: slot.partition(topic).position == 12_000, COPIED, "more is copied")
        await slot.drained()
        coverage = await judged(slot, exact_topic, topic)
        assert set(range(6_000, 12_001)) <= coverage.exact


@pytest.mark.parametrize("exact_offsets", ["not a topic name!", "mm2-exact-offsets-nowhere"])
async def test_what_cannot_be_written_holds_nothing_up(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, exact_offsets: str
) -> None:
    topic = unique("unwritten")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(100))
    async with copying(cluster_a, cluster_b, {topic: 1}, exact_offsets=exact_offsets) as slot:
        assert (await slot.copied(topic)).exact
        await until(lambda: slot.partition(topic).stored == 100, COPIED, "its offset is stored")
        (warning,) = slot.runner.progress().warnings
        assert warning.startswith(f"write exact offsets to {exact_offsets}: ")
        assert "copying goes on" in warning
        assert slot.runner.progress().error is None
        assert await slot.drained() == {TopicPartition(topic, 0): 100}


async def test_a_topic_that_comes_back_ends_the_trouble(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """Though nothing new is copied."""
    topic, exact_topic = unique("healed"), unique("mm2-exact-offsets")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(100))
    async with copying(cluster_a, cluster_b, {topic: 1}, exact_offsets=exact_topic) as slot:
        await until(lambda: slot.runner.progress().warnings, COPIED, "the lane warns")
        await asyncio.to_thread(cluster_b.create_topic, exact_topic)
        await until(lambda: not slot.runner.progress().warnings, COPIED, "the lane warns no more")
        await until(lambda: read_segments(cluster_b.bootstrap, exact_topic), COPIED, "they are written")


async def test_nobody_warns_of_what_nobody_writes_any_more(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    gone, stays = unique("gone"), unique("stays")
    for topic in (gone, stays):
        cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, gone, plain(100))
    async with copying(cluster_a, cluster_b, {gone: 1, stays: 1}, exact_offsets="not a topic name!") as slot:
        await until(lambda: slot.runner.progress().warnings, COPIED, "the lane warns")
        left = tuple(one for one in slot.lease.partitions if one.topic == stays)
        await slot.runner.apply(replace(slot.lease, partitions=left))
        await until(lambda: slot.partition(gone).state is TaskState.STOPPED, COPIED, "the partition has left")
        await until(lambda: not slot.runner.progress().warnings, COPIED, "the lane warns no more")


async def test_what_a_quota_holds_up_is_no_trouble_unless_for_long(start_cluster: StartCluster) -> None:
    target = start_cluster()
    topic, other = target.create_topic("mm2-exact-offsets"), target.create_topic("other")
    settings = ClientSettings(bootstrap_servers=tuple(target.bootstrap.split(",")), alias="B")
    copy, _ = partition()
    last = Segment(
        topic_partition=copy.source,
        slot=0,
        sequence=0,
        era=0,
        topic_ids=UNKNOWN_IDS,
        before=Reach(),
        through=-1,
        ranges=(CopiedRange(0, 0, 10),),
    )
    lease = PartitionLease(
        topic=copy.source.topic,
        partition=copy.source.partition,
        remote_topic=copy.target.topic,
        start_offset=10,
        last_segment=b64encode(last.value()).decode(),
    )
    async with Cluster(settings) as cluster, ControlProducer(cluster) as producer:
        exact = ExactOffsets(producer, ExactOffsetsLease(client=settings, topic=topic, slots=32))
        exact.begin(copy, lease)
        with set_quota(target, "producer_byte_rate", 10_000):
            await producer.send(other, 0, b"k", bytes(170_000))  # throttled for six seconds
            exact.passed(copy, Seen(10, 20))
            exact.write()
            await exact.settle(0.1)
            assert exact.trouble is None
            await exact.settle(COPIED)
            await producer.send(other, 0, b"k", bytes(900_000))  # for a minute or more
            exact.passed(copy, Seen(20, 30))
            exact.write()
            await exact.settle(0.1)
            assert exact.trouble is not None
            assert "throttled by the target's quota for " in exact.trouble
    (written,) = (await asyncio.to_thread(read_segments, target.bootstrap, topic)).values()
    assert [one.through for one in written] == [20], "the later one was still to come"


@pytest.mark.parametrize("reset", [OffsetReset.EARLIEST, OffsetReset.LATEST])
async def test_a_source_topic_made_anew_between_two_fetches(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, exact_topic: str, reset: OffsetReset
) -> None:
    """The new one soon has more records than were copied of the old: by offsets alone nobody would notice."""
    topic = unique("anew")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(500))
    fetch = FetchSettings(auto_offset_reset=reset)
    starts: dict[TopicPartition, int | None] = {TopicPartition(topic, 0): 0}
    async with copying(cluster_a, cluster_b, {topic: 1}, fetch=fetch, exact_offsets=exact_topic, starts=starts) as slot:
        await slot.caught_up(topic)
        await asyncio.to_thread(make_anew, cluster_a, topic, 800)
        await until(lambda: slot.partition(topic).records_total >= 1_300, COPIED, "the new records are copied")
        await until(lambda: slot.partition(topic).stored == 800, COPIED, "its offset is stored")
        progress = slot.runner.progress()
        sentence = (
            f"topic {topic} was deleted and made anew on A: it is copied from its beginning, and its remote topic"
        )
        assert any(warning.startswith(sentence) for warning in progress.warnings)
        (loss,) = progress.losses
        assert (loss.first, loss.until) == (500, 500)
        assert "made anew" in loss.reason
        await slot.drained()
        source = read_topic(cluster_a.bootstrap, topic)[0]
        remote = read_topic(cluster_b.bootstrap, f"A.{topic}")[0]
        assert [one.content for one in remote[500:]] == [one.content for one in source], "whole and once"
        written = read_segments(cluster_b.bootstrap, exact_topic)[TopicPartition(topic, 0)]
        assert judge(written, source, remote[500:]).conservative == frozenset()
        assert written[-1].era > written[0].era


async def test_a_remote_topic_made_anew(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, exact_topic: str
) -> None:
    topic = unique("remote-anew")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(500))
    async with copying(cluster_a, cluster_b, {topic: 1}, exact_offsets=exact_topic) as slot:
        await slot.caught_up(topic)
        await asyncio.to_thread(make_anew, cluster_b, f"A.{topic}", 0)
        write(cluster_a.bootstrap, topic, plain(300, first=500))
        await until(lambda: end_offset_sum(cluster_b.bootstrap, f"A.{topic}") == 300, COPIED, "the rest is copied")

        def told() -> bool:
            return any("remote topic" in warning for warning in slot.runner.progress().warnings)

        await until(told, COPIED, "it is told")
        write(cluster_a.bootstrap, topic, plain(100, first=800))
        await until(lambda: slot.partition(topic).position == 900, COPIED, "more is copied")
        await slot.drained()
        coverage = await judged(slot, exact_topic, topic)
        assert coverage.exact == set(range(500, 901)), "nothing is said of what is not there any more"


def make_anew(cluster: KafkaCluster, topic: str, records: int) -> None:
    """Delete it and make one of the same name at once, with so many records from number 10,000 on."""
    cluster.admin.delete_topics([topic])[topic].result(30)
    cluster.create_topic(topic)
    write(cluster.bootstrap, topic, plain(records, first=10_000))
