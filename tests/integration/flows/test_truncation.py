"""A source partition that loses its end (KIP-320): its new records are copied, and what it lost is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from mm2.core.lanes.losses import LossKind
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import Segment, segment_text
from mm2.core.offsets.exact_offsets import Found, FoundKind
from mm2.core.offsets.leader_epochs import EpochStart
from mm2.core.settings.client import FetchSettings, OffsetReset
from mm2.kafka.protocol.fetch_request import FetchRequest
from tests.integration.flows.lane import COPIED, RunningSourceTask, client, copying
from tests.lab import verify
from tests.lab.cable import CUT_OFF, Cable, listener_behind
from tests.lab.cluster import KafkaCluster
from tests.lab.exact_map import fold, read_segments
from tests.lab.fixtures import ClusterOf
from tests.lab.history import Content, read_topic
from tests.lab.jars import KAFKA_3, KAFKA_4, VERSIONS
from tests.lab.records import plain, write
from tests.lab.truncated_log import truncate_log
from tests.lab.waiting import until

Unique = Callable[[str], str]

BATCH = 100  # records; a log is cut between batches
NO_RESET = FetchSettings(auto_offset_reset=OffsetReset.NONE)


# an older broker is another cluster; what it is asked differently: test_older_fetch_versions
RELEASES = [KAFKA_4, pytest.param(KAFKA_3, marks=pytest.mark.long)]


@pytest.fixture
def exact_topic(cluster_b: KafkaCluster, unique: Unique) -> str:
    return cluster_b.create_topic(unique("mm2-exact-offsets"), config={"cleanup.policy": "compact"})


class Sources:
    """A source of one broker for each release, which can also be reached through a cable."""

    def __init__(self, ends: ExitStack) -> None:
        self._of_version: dict[str, tuple[KafkaCluster, Cable]] = {}
        for version in VERSIONS:
            cable = ends.enter_context(Cable("source"))
            source = KafkaCluster("truncated", version=version, listeners=(listener_behind(cable),))
            self._of_version[version] = ends.enter_context(source), cable
            cable.plug(source.broker(1).address(CUT_OFF))

    def behind_cable(self, version: str) -> tuple[KafkaCluster, Cable]:
        """Return the source and its cable, both intact. Name topics with `unique`."""
        source, cable = self._of_version[version]
        cable.heal()
        return source.heal(), cable

    def of(self, version: str) -> KafkaCluster:
        """Return the source alone."""
        return self.behind_cable(version)[0]


@pytest.fixture(scope="module")
def sources() -> Iterator[Sources]:
    with ExitStack() as ends:
        yield Sources(ends)


def contents(cluster: KafkaCluster, topic: str) -> list[Content]:
    return [record.content for record in read_topic(cluster.bootstrap, topic)[0]]


async def cut_off_the_end(source: KafkaCluster, topic: str, end: int) -> None:
    """Truncate the topic's log at offset ``end`` and start the broker again."""
    await asyncio.to_thread(truncate_log, source.broker(1), topic, end)
    await asyncio.to_thread(source.broker(1).start)
    await asyncio.to_thread(source.broker(1).wait_ready)


def append(source: KafkaCluster, topic: str, count: int) -> None:
    """Append records that the log did not have before."""
    write(source.bootstrap, topic, plain(count, first=5_000), records_per_batch=BATCH)


async def remote_is(source_task: RunningSourceTask, topic: str, expected: list[Content]) -> None:
    """Wait until the remote topic contains exactly ``expected``, offset by offset, and nothing is left to copy."""
    remote = source_task.remote[topic]
    await until(
        lambda: len(contents(source_task.target, remote)) >= len(expected), COPIED, f"{remote} has the new records"
    )
    await source_task.caught_up(topic)
    assert contents(source_task.target, remote) == expected


def losses(source_task: RunningSourceTask) -> list[tuple[int, int, str]]:
    return [(loss.first, loss.until, loss.kind) for loss in source_task.runner.progress().losses]


def newest_segment(cluster: KafkaCluster, exact_topic: str, topic: str) -> Segment:
    return read_segments(cluster.bootstrap, exact_topic)[TopicPartition(topic, 0)][-1]


@pytest.mark.parametrize("version", RELEASES)
async def test_log_truncated_and_regrown_between_two_fetches(
    sources: Sources, cluster_b: KafkaCluster, unique: Unique, version: str, exact_topic: str
) -> None:
    topic = unique("regrown")
    source, cable = await asyncio.to_thread(sources.behind_cable, version)
    source.create_topic(topic)
    write(source.bootstrap, topic, plain(1_000), records_per_batch=BATCH)
    through = replace(client(source, "A"), bootstrap_servers=(cable.address,))
    async with copying(
        source,
        cluster_b,
        {topic: 1},
        starts={TopicPartition(topic, 0): 0},
        source_client=through,
        exact_offsets=exact_topic,
        fetch=NO_RESET,
    ) as source_task:
        await source_task.caught_up(topic)
        before = contents(source, topic)
        cable.cut()
        await cut_off_the_end(source, topic, 900)
        append(source, topic, 350)
        after = contents(source, topic)
        assert (after[:900], len(after)) == (before[:900], 1_250)
        cable.heal()
        await remote_is(source_task, topic, before + after[900:])
        assert losses(source_task) == [(900, 1_000, LossKind.TRUNCATED)]
        assert await source_task.drained() == {TopicPartition(topic, 0): 1_250}
    segment = newest_segment(cluster_b, exact_topic, topic)
    assert (segment.truncated, [start.offset for start in segment.epochs]) == (900, [0, 900])
    offsets = fold(read_segments(cluster_b.bootstrap, exact_topic)[TopicPartition(topic, 0)])
    positions = {899: 899, 900: 1_000, 950: 1_050, 1_249: 1_349}
    assert {upstream: offsets.look_up(upstream) for upstream in positions} == {
        upstream: Found(downstream) for upstream, downstream in positions.items()
    }
    assert offsets.look_up(1_250) == Found(1_350, FoundKind.END)


@pytest.mark.parametrize(
    ("version", "regrown"),
    [
        (KAFKA_4, True),
        (KAFKA_4, False),
        pytest.param(KAFKA_3, False, marks=pytest.mark.long),
        pytest.param(KAFKA_3, True, marks=pytest.mark.long),
    ],
)
async def test_log_truncated_while_no_source_task_runs(
    sources: Sources, cluster_b: KafkaCluster, unique: Unique, version: str, regrown: bool, exact_topic: str
) -> None:
    topic = unique("restarted")
    source = await asyncio.to_thread(sources.of, version)
    source.create_topic(topic)
    place = TopicPartition(topic, 0)
    write(source.bootstrap, topic, plain(1_000), records_per_batch=BATCH)
    async with copying(source, cluster_b, {topic: 1}, exact_offsets=exact_topic) as first:
        await first.caught_up(topic)
        stored = await first.drained()
    before = contents(source, topic)
    await cut_off_the_end(source, topic, 900)
    if regrown:
        append(source, topic, 350)
    segment = newest_segment(cluster_b, exact_topic, topic)
    async with copying(
        source,
        cluster_b,
        {topic: 1},
        starts=stored,
        predecessor=first,
        exact_offsets=exact_topic,
        segments={place: segment_text(segment.key(), segment.value())},
        epochs={place: segment.epochs},
        fetch=NO_RESET,
    ) as second:
        await until(lambda: bool(losses(second)), COPIED, "the truncation is reported")
        if not regrown:
            append(source, topic, 50)
        await remote_is(second, topic, before + contents(source, topic)[900:])
        assert losses(second) == [(900, 1_000, LossKind.TRUNCATED)]
        assert await second.drained() == {place: 1_250 if regrown else 950}
    segment = newest_segment(cluster_b, exact_topic, topic)
    assert (segment.truncated, [start.offset for start in segment.epochs]) == (900, [0, 900])


async def test_log_truncated_twice_while_no_source_task_runs(
    sources: Sources, cluster_b: KafkaCluster, unique: Unique, exact_topic: str
) -> None:
    """The logs part in an epoch before the last one: the source task goes back in steps."""
    topic = unique("twice")
    source = await asyncio.to_thread(sources.of, KAFKA_4)
    source.create_topic(topic)
    place = TopicPartition(topic, 0)
    write(source.bootstrap, topic, plain(500), records_per_batch=BATCH)
    await asyncio.to_thread(source.broker(1).restart)
    write(source.bootstrap, topic, plain(500, first=500), records_per_batch=BATCH)
    async with copying(source, cluster_b, {topic: 1}, exact_offsets=exact_topic) as first:
        await first.caught_up(topic)
        stored = await first.drained()
    before = contents(source, topic)
    epochs = newest_segment(cluster_b, exact_topic, topic).epochs
    assert [start.offset for start in epochs] == [0, 500]
    await cut_off_the_end(source, topic, 300)
    append(source, topic, 1_200)
    await cut_off_the_end(source, topic, 1_100)
    async with copying(
        source, cluster_b, {topic: 1}, starts=stored, predecessor=first, epochs={place: epochs}, fetch=NO_RESET
    ) as second:
        await remote_is(second, topic, before + contents(source, topic)[300:])
        assert losses(second) == [(300, 1_000, LossKind.TRUNCATED)]


@pytest.mark.parametrize("version", RELEASES)
async def test_offset_that_the_source_has_is_kept_if_it_does_not_know_the_epoch(
    cluster_of: ClusterOf, cluster_b: KafkaCluster, unique: Unique, version: str
) -> None:
    """The broker answers that the offset is out of range; it did not lose anything."""
    source = cluster_of(version)
    topic = source.create_topic(unique("unknown"))
    place = TopicPartition(topic, 0)
    write(source.bootstrap, topic, plain(1_000), records_per_batch=BATCH)
    epochs = (EpochStart(98, 0), EpochStart(99, 400))
    async with copying(
        source, cluster_b, {topic: 1}, starts={place: 700}, epochs={place: epochs}, fetch=NO_RESET
    ) as source_task:
        await remote_is(source_task, topic, contents(source, topic)[700:])
        write(source.bootstrap, topic, plain(100, first=1_000))
        await remote_is(source_task, topic, contents(source, topic)[700:])
        assert losses(source_task) == []
    verify.forget()


async def test_offset_is_out_of_range_after_a_truncation_without_known_epochs(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = cluster_a.create_topic(unique("outside"))
    place = TopicPartition(topic, 0)
    write(cluster_a.bootstrap, topic, plain(100))
    async with copying(cluster_a, cluster_b, {topic: 1}, starts={place: 700}, fetch=NO_RESET) as source_task:
        await until(lambda: source_task.partition(topic).state is TaskState.FAILED, COPIED, "the partition fails")
        message = source_task.partition(topic).error
        assert message is not None
        assert "offset 700 is beyond the source's end offset 100" in message


@pytest.mark.parametrize(
    ("version", "regrown"),
    [(11, True), pytest.param(11, False, marks=pytest.mark.long), pytest.param(12, True, marks=pytest.mark.long)],
)
async def test_older_fetch_versions(
    sources: Sources,
    cluster_b: KafkaCluster,
    unique: Unique,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    regrown: bool,
) -> None:
    """Before Kafka 2.7, Fetch ends at version 11: the position is checked in each new leader epoch. Version 12, of
    brokers without topic ids, checks it with every fetch."""
    monkeypatch.setattr(FetchRequest, "usable_versions", lambda _: range(4, version + 1))
    topic = unique("ancient")
    source, cable = await asyncio.to_thread(sources.behind_cable, KAFKA_3)
    source.create_topic(topic)
    write(source.bootstrap, topic, plain(1_000), records_per_batch=BATCH)
    through = replace(client(source, "A"), bootstrap_servers=(cable.address,))
    async with copying(
        source,
        cluster_b,
        {topic: 1},
        starts={TopicPartition(topic, 0): 0},
        source_client=through,
        fetch=NO_RESET,
    ) as source_task:
        await source_task.caught_up(topic)
        before = contents(source, topic)
        cable.cut()
        await cut_off_the_end(source, topic, 900)
        append(source, topic, 350 if regrown else 50)
        cable.heal()
        await remote_is(source_task, topic, before + contents(source, topic)[900:])
        assert losses(source_task) == [(900, 1_000, LossKind.TRUNCATED)]
