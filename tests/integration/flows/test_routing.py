"""Records that are written one by one: to the partition of their key, or as a message handler says."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from flows.lane.byte_budget import ByteBudget
from flows.partition import rejection_state, retry_state
from flows.routing import partition_router, record_sender
from flows.source_task.source_task import SourceTask
from mm2.core.lanes.lease import DeadLettersLease, PartitionLease, RecordRouting
from mm2.core.lanes.task_states import TaskState
from mm2.core.mirror1.user_class import MessageHandler, SourceRecord, TargetRecord, UserClass
from mm2.core.settings.client import ProduceSettings
from mm2.core.wire.murmur2 import partition_of
from tests.integration.flows.lane import BUFFER, COPIED, RunningSourceTask, lease_of, unlimited
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.history import Record, count, read_topic
from tests.lab.records import Outgoing, plain, write
from tests.lab.topic_configs import alter
from tests.lab.waiting import GaveUp, until

RECORDS = 5_000
HALF = 600  # records of 500 bytes: more than a frame (`flows.partition.frames_in_query`)
STAYS = 3.0  # seconds in which something that must wait would have happened


class Handler(MessageHandler):
    """Drops every third record, and copies every fifth to another topic, too."""

    def __init__(self, other: str) -> None:
        self._other = other

    def handle(self, record: SourceRecord) -> Sequence[TargetRecord]:
        number = int(record.key or b"0")
        if number % 3 == 0:
            return []
        if number == 7:
            raise RuntimeError("seven")
        value = (record.value or b"").upper()
        copies = [TargetRecord(topic=record.topic, key=record.key, value=value, headers=record.headers)]
        if number % 5 == 0:
            copies.append(TargetRecord(topic=self._other, key=record.key, value=value, partition=0))
        return copies


class FirstHalf(MessageHandler):
    """Copies records before the source offset in its arguments to partition 0, and others to partition 1 of a topic."""

    def __init__(self, arguments: str) -> None:
        first, self._other = arguments.split()
        self._first = int(first)

    def handle(self, record: SourceRecord) -> Sequence[TargetRecord]:
        topic, number = (record.topic, 0) if record.offset < self._first else (self._other, 1)
        return [TargetRecord(topic=topic, key=record.key, value=record.value, partition=number)]


class LastPartition(MessageHandler):
    """Copies records of partition 5, and others to the topic that is its argument."""

    def __init__(self, other: str) -> None:
        self._other = other

    def handle(self, record: SourceRecord) -> Sequence[TargetRecord]:
        topic = record.topic if record.partition == 5 else self._other
        return [TargetRecord(topic=topic, key=record.key, value=record.value)]


@asynccontextmanager
async def routing(
    source: KafkaCluster,
    target: KafkaCluster,
    topic: str,
    partitions: int,
    *,
    handler: UserClass | None = None,
    produce: ProduceSettings | None = None,
    dead_letters: str | None = None,
) -> AsyncIterator[RunningSourceTask]:
    """Run a source task that routes the records of a topic to the topic of the same name."""
    leases = tuple(
        PartitionLease(topic=topic, partition=number, remote_topic=topic, start_offset=None)
        for number in range(partitions)
    )
    lease = replace(
        lease_of(source, target, leases, produce=produce),
        offsets=None,
        offset_syncs=None,
        routing=RecordRouting(handler=handler),
        dead_letters=None if dead_letters is None else DeadLettersLease(topic=dead_letters),
    )
    budget = ByteBudget(BUFFER)
    runner = SourceTask(lease, budget, unlimited())
    runner.start()
    try:
        yield RunningSourceTask(source, target, lease, budget, runner, {topic: topic})
    finally:
        await runner.close()
    assert budget.used == 0


def by_key(topic: dict[int, list[Record]]) -> dict[bytes | None, list[bytes | None]]:
    found: defaultdict[bytes | None, list[bytes | None]] = defaultdict(list)
    for records in topic.values():
        for record in records:
            found[record.key].append(record.value)
    return dict(found)


@pytest.mark.parametrize("codec", [None, "lz4"])
async def test_records_go_to_the_partition_of_their_key(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, codec: str | None
) -> None:
    topic = unique_name("orders")
    cluster_a.create_topic(topic, 3)
    cluster_b.create_topic(topic, 5)
    keys = [b"%d" % (number % 97) if number % 10 else None for number in range(RECORDS)]
    records = [
        Outgoing(key=key, value=b"%d" % number, partition=partition_of(key or b"", 3), headers=(("n", None),))
        for number, key in enumerate(keys)
    ]
    write(cluster_a.bootstrap, topic, records, codec="zstd")
    async with routing(cluster_a, cluster_b, topic, 3, produce=ProduceSettings(compression_type=codec)) as task:
        await task.caught_up(topic)
        assert sum(one.records_total for one in task.reported().partitions) == RECORDS
        assert set((await task.drained()).values()) == {one.position for one in task.reported().partitions}
    copied = await asyncio.to_thread(read_topic, cluster_b.bootstrap, topic)
    for number, rows in copied.items():
        assert {partition_of(row.key, 5) for row in rows if row.key is not None} <= {number}
        assert all(row.headers == (("n", None),) for row in rows)
    expected = by_key(read_topic(cluster_a.bootstrap, topic))
    found = by_key(copied)
    assert sorted(found.pop(None), key=bytes) == sorted(expected.pop(None), key=bytes)  # type: ignore[arg-type]
    assert found == expected
    assert len([rows for rows in copied.values() if any(row.key is None for row in rows)]) == 5


async def test_a_message_handler(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    topic, other, letters = (unique_name(name) for name in ("orders", "copies", "letters"))
    cluster_a.create_topic(topic, 2)
    for name, partitions in ((topic, 2), (other, 1), (letters, 1)):
        cluster_b.create_topic(name, partitions)
    write(cluster_a.bootstrap, topic, [Outgoing(key=b"%d" % n, value=b"v%d" % n, partition=n % 2) for n in range(100)])
    handler = UserClass(name=f"{__name__}:Handler", arguments=other)
    async with routing(cluster_a, cluster_b, topic, 2, handler=handler, dead_letters=letters) as task:
        await task.caught_up(topic)
        assert sum(one.dead_letters_total for one in task.reported().partitions) == 1
    numbers = [n for n in range(100) if n % 3 and n != 7]
    copied, copies, rejected = (read_topic(cluster_b.bootstrap, name) for name in (topic, other, letters))
    assert sorted(row.value or b"" for rows in copied.values() for row in rows) == sorted(b"V%d" % n for n in numbers)
    assert [row.key for row in copies[0]] != []
    assert {row.key for row in copies[0]} == {b"%d" % n for n in numbers if n % 5 == 0}
    assert [row.key for row in rejected[0]] == [b"7"]


async def test_a_failing_handler_stops_its_partition(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    topic = unique_name("orders")
    for cluster in (cluster_a, cluster_b):
        cluster.create_topic(topic, 1)
    write(cluster_a.bootstrap, topic, plain(20, partitions=1))
    handler = UserClass(name=f"{__name__}:Handler", arguments=topic)
    async with routing(cluster_a, cluster_b, topic, 1, handler=handler) as task:
        await until(lambda: task.partition(topic).stopped_at is not None, COPIED, "the partition has stopped")
        stopped = task.partition(topic)
        assert stopped.stopped_at == stopped.position == 7
        assert "raised RuntimeError: seven" in (stopped.error or "")


async def test_a_record_that_the_target_rejects(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """It is found in its batch; what follows is written again, in order."""
    topic, letters = unique_name("orders"), unique_name("letters")
    cluster_a.create_topic(topic, 1)
    cluster_b.create_topic(topic, 2, config={"max.message.bytes": "2000"})
    cluster_b.create_topic(letters, 1)
    values = [b"x" * (5_000 if number == 40 else 100) for number in range(100)]
    write(
        cluster_a.bootstrap,
        topic,
        [Outgoing(key=b"%d" % number, value=value, partition=0) for number, value in enumerate(values)],
    )
    async with routing(cluster_a, cluster_b, topic, 1, dead_letters=letters) as task:
        await task.caught_up(topic)
        assert task.partition(topic).dead_letters_total == 1
    assert [row.key for row in read_topic(cluster_b.bootstrap, letters)[0]] == [b"40"]
    for rows in read_topic(cluster_b.bootstrap, topic).values():
        last_copies = list(dict.fromkeys(int(row.key or b"") for row in reversed(rows)))[::-1]
        assert last_copies == sorted(last_copies)
        assert 40 not in last_copies
    copied = {row.key for rows in read_topic(cluster_b.bootstrap, topic).values() for row in rows}
    assert copied == {b"%d" % number for number in range(100) if number != 40}


async def test_a_partition_drains_until_nothing_is_queued(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """After a dead letter, records that follow it are still being retried: the next owner would write before them."""
    topic, other, letters = (unique_name(name) for name in ("orders", "other", "letters"))
    cluster_a.create_topic(topic, 1)
    for name in (topic, other, letters):
        cluster_b.create_topic(name, 1)
    alter(cluster_b, topic, "max.message.bytes", "2000")
    values = [b"x" * (5_000 if number == 0 else 500) for number in range(2 * HALF)]
    for part in (values[:HALF], values[HALF:]):  # two batches, which are two frames
        write(cluster_a.bootstrap, topic, [Outgoing(key=b"k", value=value, partition=0) for value in part])
    handler = UserClass(name=f"{__name__}:FirstHalf", arguments=f"{HALF} {other}")
    async with routing(cluster_a, cluster_b, topic, 1, handler=handler, dead_letters=letters) as task:
        await until(lambda: task.partition(topic).end_offset > HALF, COPIED, "fetching has begun")
        task.runner.drain()
        await until(lambda: task.partition(topic).dead_letters_total == 1, COPIED, "the first record is rejected")
        with pytest.raises(GaveUp):
            await until(lambda: task.reported().drained, STAYS, "the source task is drained")
        cluster_b.grow_topic(other, 2)  # from now on the partition of the second half exists
        stored = await task.drained()
        written = {name: count(read_topic(cluster_b.bootstrap, name)) for name in (topic, other)}
    assert written[other] > 0, "the second half was queued"
    assert list(stored.values()) == [1]
    assert {name: count(read_topic(cluster_b.bootstrap, name)) for name in (topic, other)} == written


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of waiting and retries, in seconds instead of minutes."""
    monkeypatch.setattr(partition_router, "UNANSWERED_REPORT_S", 1.0)
    monkeypatch.setattr(retry_state, "MISSING_TOPIC_TIMEOUT_S", 3.0)
    monkeypatch.setattr(record_sender, "MISSING_TOPIC_TIMEOUT_S", 3.0)
    monkeypatch.setattr(rejection_state, "FAILED_RETRY_S", 1.0)


@pytest.mark.usefixtures("impatient")
async def test_a_partition_that_the_target_does_not_have(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """The source partition waits, then stops at the record, and continues once the partition exists."""
    topic, other, letters = (unique_name(name) for name in ("orders", "other", "letters"))
    cluster_a.create_topic(topic, 1)
    for name in (topic, other, letters):
        cluster_b.create_topic(name, 1)
    write(cluster_a.bootstrap, topic, plain(20, partitions=1))
    handler = UserClass(name=f"{__name__}:FirstHalf", arguments=f"10 {other}")
    async with routing(cluster_a, cluster_b, topic, 1, handler=handler, dead_letters=letters) as task:
        await until(lambda: task.partition(topic).error is not None, COPIED, "the partition waits")
        assert task.partition(topic).state is TaskState.WAITING
        assert f"cannot copy {topic}-0: " in (task.partition(topic).error or "")
        assert f"{other}-1: UNKNOWN_TOPIC_OR_PARTITION" in (task.partition(topic).error or "")
        await until(lambda: task.partition(topic).stopped_at == 10, COPIED, "the partition has stopped")
        stopped = task.partition(topic)
        assert (stopped.state, stopped.position) == (TaskState.FAILED, 10)
        assert f"{other}-1: UNKNOWN_TOPIC_OR_PARTITION" in (stopped.error or "")
        cluster_b.grow_topic(other, 2)
        await task.caught_up(topic)
        assert (task.partition(topic).state, task.partition(topic).error) == (TaskState.RUNNING, None)
    assert [count(read_topic(cluster_b.bootstrap, name)) for name in (topic, other, letters)] == [10, 10, 0]


@pytest.mark.usefixtures("impatient")
async def test_a_target_that_is_down_is_reported(cluster_a: KafkaCluster, start_cluster: StartCluster) -> None:
    target, topic = start_cluster(), unique_name("orders")
    cluster_a.create_topic(topic, 1)
    target.create_topic(topic, 2)
    write(cluster_a.bootstrap, topic, plain(20, partitions=1))
    async with routing(cluster_a, target, topic, 1) as task:
        await task.caught_up(topic)
        target.broker(1).kill()
        write(cluster_a.bootstrap, topic, plain(20, partitions=1))
        await until(lambda: task.partition(topic).state is TaskState.WAITING, COPIED, "the partition waits")
        assert "connection refused" in (task.partition(topic).error or "")
        target.broker(1).start()
        await task.caught_up(topic)
        assert (task.partition(topic).state, task.partition(topic).error) == (TaskState.RUNNING, None)
    assert count(read_topic(target.bootstrap, topic)) == 40


async def test_partitions_that_wait_for_a_topic_let_the_others_continue(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics that a handler names can be created later; no record is repeated."""
    monkeypatch.setattr(partition_router, "UNANSWERED_REPORT_S", 1.0)
    topic, other = (unique_name(name) for name in ("orders", "other"))
    cluster_a.create_topic(topic, 6)
    cluster_b.create_topic(topic, 6)
    write(cluster_a.bootstrap, topic, plain(60, partitions=6))
    handler = UserClass(name=f"{__name__}:LastPartition", arguments=other)
    async with routing(cluster_a, cluster_b, topic, 6, handler=handler) as task:
        await until(lambda: task.partition(topic, 5).position == 10, COPIED, "the last partition is copied")
        await until(lambda: task.partition(topic, 0).error is not None, COPIED, "the first one waits")
        waiting = task.partition(topic, 0)
        assert (waiting.state, waiting.position) == (TaskState.WAITING, 0)
        assert f"cannot find topic {other} on the target: UNKNOWN_TOPIC_OR_PARTITION" in (waiting.error or "")
        cluster_b.create_topic(other, 2)
        await task.caught_up(topic)
    assert [count(read_topic(cluster_b.bootstrap, name)) for name in (topic, other)] == [10, 50]


@pytest.mark.usefixtures("impatient")
async def test_a_topic_that_the_target_does_not_have(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """It stops the partition, and makes no dead letters."""
    topic, other, letters = (unique_name(name) for name in ("orders", "other", "letters"))
    cluster_a.create_topic(topic, 1)
    cluster_b.create_topic(letters, 1)
    write(cluster_a.bootstrap, topic, plain(20, partitions=1))
    handler = UserClass(name=f"{__name__}:LastPartition", arguments=other)
    async with routing(cluster_a, cluster_b, topic, 1, handler=handler, dead_letters=letters) as task:
        await until(lambda: task.partition(topic).stopped_at == 0, COPIED, "the partition has stopped")
        assert f"find topic {other} on the target" in (task.partition(topic).error or "")
        cluster_b.create_topic(other, 1)
        await task.caught_up(topic)
        assert task.partition(topic).dead_letters_total == 0
    assert count(read_topic(cluster_b.bootstrap, other)) == 20
