"""Routed records that the target does not acknowledge: what is reported, what is retried, and how a drain ends."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flows.partition.timeouts import Timeouts
from mm2.core.lanes.task_states import TaskState
from mm2.core.mirror1.user_class import MessageHandler, SourceRecord, TargetRecord, UserClass
from tests.integration.flows.lane import COPIED
from tests.integration.flows.routed import routing
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.history import count, read_topic
from tests.lab.records import Outgoing, plain, write
from tests.lab.topic_configs import alter
from tests.lab.waiting import GaveUp, until

HALF = 600  # records of 500 bytes: more than a frame (`flows.partition.frames_in_query`)
STAYS = 3.0  # seconds in which something that must wait would have happened


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
        await until(lambda: task.partition(topic).end_offset > HALF, COPIED, "fetching has started")
        task.runner.drain()
        await until(lambda: task.partition(topic).counters.dead_letters == 1, COPIED, "the first record is rejected")
        with pytest.raises(GaveUp):
            await until(lambda: task.reported().drained, STAYS, "the source task is drained")
        cluster_b.grow_topic(other, 2)  # from now on the partition of the second half exists
        stored = await task.drained()
        written = {name: count(read_topic(cluster_b.bootstrap, name)) for name in (topic, other)}
    assert written[other] > 0, "the second half was queued"
    assert list(stored.values()) == [1]
    assert {name: count(read_topic(cluster_b.bootstrap, name)) for name in (topic, other)} == written


IMPATIENT = Timeouts(unanswered_report_s=1.0, missing_topic_s=3.0, failed_retry_s=1.0)
"""The limits of waiting and retries, in seconds instead of minutes."""


async def test_a_partition_that_the_target_does_not_have(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """The source partition waits, then stops at the record, and continues once the partition exists."""
    topic, other, letters = (unique_name(name) for name in ("orders", "other", "letters"))
    cluster_a.create_topic(topic, 1)
    for name in (topic, other, letters):
        cluster_b.create_topic(name, 1)
    write(cluster_a.bootstrap, topic, plain(20, partitions=1))
    handler = UserClass(name=f"{__name__}:FirstHalf", arguments=f"10 {other}")
    async with routing(
        cluster_a, cluster_b, topic, 1, handler=handler, dead_letters=letters, timeouts=IMPATIENT
    ) as task:
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


async def test_a_target_that_is_down_is_reported(cluster_a: KafkaCluster, breakable: KafkaCluster) -> None:
    target, topic = breakable, unique_name("orders")
    cluster_a.create_topic(topic, 1)
    target.create_topic(topic, 2)
    write(cluster_a.bootstrap, topic, plain(20, partitions=1))
    async with routing(cluster_a, target, topic, 1, timeouts=IMPATIENT) as task:
        await task.caught_up(topic)
        target.broker(1).kill()
        write(cluster_a.bootstrap, topic, plain(20, partitions=1))
        await until(lambda: task.partition(topic).state is TaskState.WAITING, COPIED, "the partition waits")
        assert "connection refused" in (task.partition(topic).error or "")
        target.broker(1).start()
        await task.caught_up(topic)
        assert (task.partition(topic).state, task.partition(topic).error) == (TaskState.RUNNING, None)
    assert count(read_topic(target.bootstrap, topic)) == 40


async def test_a_topic_that_cannot_be_created_stops_only_partitions_that_need_it(
    cluster_a: KafkaCluster, start_cluster: StartCluster
) -> None:
    """A topic that a handler names can be created later by someone else; no record is repeated or a dead letter."""
    target = start_cluster("target", properties={"default.replication.factor": "3"})  # of one broker
    topic, other, letters = (unique_name(name) for name in ("orders", "other", "letters"))
    cluster_a.create_topic(topic, 6)
    target.create_topic(topic, 6)
    target.create_topic(letters, 1)
    write(cluster_a.bootstrap, topic, plain(60, partitions=6))
    handler = UserClass(name=f"{__name__}:LastPartition", arguments=other)
    async with routing(cluster_a, target, topic, 6, handler=handler, dead_letters=letters, timeouts=IMPATIENT) as task:
        await until(lambda: task.partition(topic, 5).position == 10, COPIED, "the last partition is copied")
        await until(lambda: task.partition(topic, 0).stopped_at == 0, COPIED, "the first one has stopped")
        assert f"cannot create topic {other}: " in (task.partition(topic, 0).error or "")
        target.create_topic(other, 2)
        await task.caught_up(topic)
        assert sum(one.counters.dead_letters for one in task.reported().partitions) == 0
    assert [count(read_topic(target.bootstrap, name)) for name in (topic, other)] == [10, 50]


async def test_a_topic_that_the_target_does_not_have(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """Without a handler it is not created here. It stops the partition, and makes no dead letters."""
    topic, letters = unique_name("orders"), unique_name("letters")
    cluster_a.create_topic(topic, 1)
    cluster_b.create_topic(letters, 1)
    write(cluster_a.bootstrap, topic, plain(20, partitions=1))
    async with routing(cluster_a, cluster_b, topic, 1, dead_letters=letters, timeouts=IMPATIENT) as task:
        await until(lambda: task.partition(topic).error is not None, COPIED, "the partition waits")
        waiting = task.partition(topic)
        assert f"cannot find topic {topic} on the target: UNKNOWN_TOPIC_OR_PARTITION" in (waiting.error or "")
        await until(lambda: task.partition(topic).stopped_at == 0, COPIED, "the partition has stopped")
        cluster_b.create_topic(topic, 1)
        await task.caught_up(topic)
        assert task.partition(topic).counters.dead_letters == 0
    assert count(read_topic(cluster_b.bootstrap, topic)) == 20
