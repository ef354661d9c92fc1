"""Statuses in the status topic: Java's records to the byte, and no node hides what another one runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mm2.core.lease import TaskState
from mm2.core.names import Flow
from mm2.core.status_records import ConnectState, connector_key, encode_status, task_key
from mm2.kafka.cluster import Cluster
from mm2.kafka.compacted_log import CompactedLog
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, ClusterClosed
from mm2.node.status_book import StatusBook
from mm2.node.status_topic import TOPICS_A_CALL, StatusWriter
from tests.golden.vectors import java_vectors
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.waiting import until

SOON = 60.0  # seconds
FLOW = Flow("A", "B")
PARTITIONS = 5
JAVA = java_vectors("internal-topics")["topics"]["B:mm2-status.A.internal"]["records"]
ZERO, ONE = "MirrorSourceConnector-0", "MirrorSourceConnector-1"
RUNNING = (TaskState.RUNNING, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A node's writer, with a book of its own that follows the topic."""

    writer: StatusWriter
    book: StatusBook
    producer: ControlProducer

    async def flush(self) -> None:
        assert await self.producer.flush(SOON)
        await asyncio.sleep(0)  # what waits for the last record hears of it

    async def sees(self, task: str, text: str | None) -> None:
        """Until its book says so of the task: state, worker and generation."""

        def seen() -> bool:
            found = self.book.tasks().get(task)
            return text == (None if found is None else f"{found.state} {found.worker_id} {found.generation}")

        await until(seen, SOON, f"{task} is seen as {text}")

    async def reads_all(self, kafka: KafkaCluster, topic: str) -> None:
        """Until its book has the newest of every task."""
        newest = {key: value for key, value, _, _ in raw(kafka, topic)}

        def seen() -> bool:
            return all(entry is not None for entry in map(self.book.entry, newest)) and all(
                _newest(self.book, key) == value for key, value in newest.items()
            )

        await until(seen, SOON, "the book is up to date")


def _newest(book: StatusBook, key: bytes) -> bytes | None:
    entry = book.entry(key)
    return None if entry is None or entry.newest is None else encode_status(entry.newest)


async def _follow(book: StatusBook, cluster: Cluster, topic: str) -> None:
    async for record in CompactedLog(cluster, topic, purpose="statuses").follow():
        book.take(record)


@asynccontextmanager
async def worker(cluster: Cluster, topic: str, name: str) -> AsyncIterator[Worker]:
    book = StatusBook(FLOW, topic)
    following = asyncio.create_task(_follow(book, cluster, topic))
    try:
        async with ControlProducer(cluster) as producer:
            writer = StatusWriter(FLOW, producer, book, topic=topic, partitions=PARTITIONS, worker_id=name, version="1")
            yield Worker(writer=writer, book=book, producer=producer)
    finally:
        following.cancel()
        await asyncio.wait([following])


@pytest.fixture
def topic(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> str:
    return cluster_b.create_topic(unique("mm2-status"), PARTITIONS, config={"cleanup.policy": "compact"})


def raw(kafka: KafkaCluster, topic: str) -> list[tuple[bytes, bytes | None, int, int]]:
    """Key, value, partition and offset of all records."""
    found = read_topic(kafka.bootstrap, topic)
    return [
        (one.content[0] or b"", one.content[1], number, one.offset) for number, some in found.items() for one in some
    ]


def told(kafka: KafkaCluster, topic: str, key: bytes) -> list[str]:
    """What was written of a task or connector, in order: state, worker and generation."""
    values = [value for one, value, _, _ in raw(kafka, topic) if one == key]
    parsed = [json.loads(value) if value is not None else None for value in values]
    return ["gone" if one is None else f"{one['state']} {one['worker_id']} {one['generation']}" for one in parsed]


async def test_every_status_of_java_is_written_as_java_writes_it(cluster_b: KafkaCluster, topic: str) -> None:
    """Keys, values and partitions."""
    wanted: dict[bytes, tuple[bytes, int]] = {}
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        for record in JAVA:
            key, value = record["key"]["text"], record["value"]["text"]
            wanted[key.encode()] = (value.encode(), record["partition"])
            says = json.loads(value)
            writer = StatusWriter(
                FLOW,
                producer,
                StatusBook(FLOW, topic),
                topic=topic,
                partitions=PARTITIONS,
                worker_id=says.get("worker_id", ""),
                version=says.get("version"),
                clock=partial(_discovered, says),
            )
            if use := says.get("topic"):
                writer.topics([(use["name"], use["connector"], use["task"])])
            elif name := key.partition("status-task-")[2]:
                writer.tasks({name: RUNNING}, says["generation"])
            else:
                writer.connectors({key.removeprefix("status-connector-"): TaskState.RUNNING}, says["generation"])
        assert await producer.flush(SOON)
    assert {key: (value, partition) for key, value, partition, _ in raw(cluster_b, topic)} == wanted


def _discovered(says: dict[str, Any]) -> float:
    return float(says["topic"]["discoverTimestamp"]) / 1000


async def test_what_changes_is_written_once_and_read_back(cluster_b: KafkaCluster, topic: str) -> None:
    failed = (TaskState.FAILED, 'topic "orders": no')
    async with connected(cluster_b) as cluster, worker(cluster, topic, "one") as one:
        for states in ({ZERO: RUNNING, ONE: RUNNING},) * 2 + ({ZERO: failed, ONE: RUNNING},) * 2:
            one.writer.tasks(states, 3)
        one.writer.tasks({ZERO: (TaskState.FAILED, "another reason"), ONE: (TaskState.PAUSED, None)}, 4)
        one.writer.tasks({ONE: (TaskState.DRAINING, None)}, 5)
        one.writer.tasks({}, 6)
        await one.flush()
        await one.sees(ZERO, "UNASSIGNED one 5")
        await one.sees(ONE, "UNASSIGNED one 5")
        assert one.writer.trouble is None
    wanted = ["RUNNING one 3", "FAILED one 3", "FAILED one 4", "UNASSIGNED one 5"]
    assert told(cluster_b, topic, task_key(ZERO)) == wanted
    assert told(cluster_b, topic, task_key(ONE)) == ["RUNNING one 3", "PAUSED one 4", "UNASSIGNED one 5"]
    values = [value or b"" for key, value, _, _ in raw(cluster_b, topic) if key == task_key(ZERO)]
    assert [json.loads(value)["trace"] for value in values] == [None, failed[1], "another reason", None]


async def test_who_let_a_task_go_does_not_hide_who_runs_it_now(cluster_b: KafkaCluster, topic: str) -> None:
    """In the same generation, and long after."""
    async with (
        connected(cluster_b) as cluster,
        worker(cluster, topic, "old") as old,
        worker(cluster, topic, "new") as new,
    ):
        old.writer.tasks({ZERO: RUNNING, ONE: RUNNING}, 3)
        await old.flush()
        await new.sees(ZERO, "RUNNING old 3")
        new.writer.tasks({ZERO: RUNNING}, 4)
        await new.flush()
        await old.sees(ZERO, "RUNNING new 4")
        for generation in (3, 4, 5):
            old.writer.tasks({}, generation)
        old.writer.tasks({}, 9)
        await old.flush()
    assert told(cluster_b, topic, task_key(ZERO)) == ["RUNNING old 3", "RUNNING new 4"]
    assert told(cluster_b, topic, task_key(ONE)) == ["RUNNING old 3", "UNASSIGNED old 3"]


async def test_a_failure_of_a_worker_that_lost_the_task_is_not_told(cluster_b: KafkaCluster, topic: str) -> None:
    async with (
        connected(cluster_b) as cluster,
        worker(cluster, topic, "old") as old,
        worker(cluster, topic, "new") as new,
    ):
        new.writer.tasks({ZERO: RUNNING}, 4)
        await new.flush()
        await old.sees(ZERO, "RUNNING new 4")
        old.writer.tasks({ZERO: (TaskState.FAILED, "the broker is away")}, 3)
        await old.flush()
        assert told(cluster_b, topic, task_key(ZERO)) == ["RUNNING new 4"]
        old.writer.tasks({ZERO: (TaskState.FAILED, "the broker is away")}, 5)
        await old.flush()
    assert told(cluster_b, topic, task_key(ZERO)) == ["RUNNING new 4", "FAILED old 5"], "it has the task again"


async def test_what_a_worker_of_the_past_overwrote_is_written_again(cluster_b: KafkaCluster, topic: str) -> None:
    """The one that slept does not know: its book is as old as it is."""
    async with connected(cluster_b) as cluster, worker(cluster, topic, "new") as new:
        new.writer.tasks({ZERO: RUNNING}, 4)
        await new.flush()
        async with ControlProducer(cluster) as producer:
            asleep = StatusWriter(
                FLOW,
                producer,
                StatusBook(FLOW, topic),
                topic=topic,
                partitions=PARTITIONS,
                worker_id="asleep",
                version="1",
            )
            asleep.tasks({ZERO: (TaskState.FAILED, "stale")}, 3)
            assert await producer.flush(SOON)
            await new.sees(ZERO, "FAILED asleep 3")
            new.writer.tasks({ZERO: RUNNING}, 5)
            await new.flush()
            await new.sees(ZERO, "RUNNING new 5")
            asleep.tasks({}, 3)
            assert await producer.flush(SOON)
        await new.reads_all(cluster_b, topic)
        await new.sees(ZERO, "RUNNING new 5")
        for generation in (5, 6, 7):
            new.writer.tasks({ZERO: RUNNING}, generation)
        await new.flush()
    assert told(cluster_b, topic, task_key(ZERO)) == [
        "RUNNING new 4",
        "FAILED asleep 3",
        "RUNNING new 5",
        "UNASSIGNED asleep 3",
        "RUNNING new 5",
    ], "it stands last, also after compaction"


async def test_the_leaders_connectors(cluster_b: KafkaCluster, topic: str) -> None:
    key = connector_key("MirrorSourceConnector")
    async with (
        connected(cluster_b) as cluster,
        worker(cluster, topic, "old") as old,
        worker(cluster, topic, "new") as new,
    ):
        old.writer.connectors({"MirrorSourceConnector": TaskState.RUNNING}, 3)
        old.writer.connectors({"MirrorSourceConnector": TaskState.PAUSED}, 3)
        await old.flush()
        new.writer.connectors({"MirrorSourceConnector": TaskState.RUNNING}, 4)
        await new.flush()
        await until(lambda: _is(old.book, key, ConnectState.RUNNING), SOON, "the old leader sees the new one's")
        old.writer.connectors({}, 4)
        await old.flush()
        new.writer.connectors({}, 5)
        await new.flush()
    wanted = ["RUNNING old 3", "PAUSED old 3", "RUNNING new 4", "UNASSIGNED new 5"]
    assert told(cluster_b, topic, key) == wanted


def _is(book: StatusBook, key: bytes, state: ConnectState) -> bool:
    entry = book.entry(key)
    return entry is not None and entry.status is not None and entry.status.state is state


async def test_tasks_that_there_are_no_longer_are_removed(cluster_b: KafkaCluster, topic: str) -> None:
    """By the leader, also those of others and of former lives; one that comes back, too, when it goes again."""
    async with (
        connected(cluster_b) as cluster,
        worker(cluster, topic, "leader") as leader,
        worker(cluster, topic, "other") as other,
    ):
        leader.writer.tasks({ZERO: RUNNING}, 3)
        other.writer.tasks({ONE: RUNNING}, 3)
        await leader.flush()
        await other.flush()
        await leader.sees(ONE, "RUNNING other 3")
        for _ in range(2):
            leader.writer.gone([ZERO, ONE, "MirrorSourceConnector-2"])
        leader.writer.tasks({}, 4)
        await leader.flush()
        await leader.sees(ONE, None)
        await leader.sees(ZERO, None)
        leader.writer.gone([ZERO, ONE])
        other.writer.tasks({}, 4)
        await other.flush()
        await leader.sees(ONE, "UNASSIGNED other 4")
        for _ in range(2):
            leader.writer.gone([ZERO, ONE])
        leader.writer.tasks({ZERO: RUNNING}, 5)
        await leader.flush()
        await leader.sees(ZERO, "RUNNING leader 5")
        assert set(leader.book.tasks()) == {ZERO}
    assert told(cluster_b, topic, task_key(ZERO)) == ["RUNNING leader 3", "gone", "RUNNING leader 5"]
    assert told(cluster_b, topic, task_key(ONE)) == ["RUNNING other 3", "gone", "UNASSIGNED other 4", "gone"]
    assert {key for key, *_ in raw(cluster_b, topic)} == {task_key(ZERO), task_key(ONE)}


async def test_topics_are_written_down_once_and_not_all_in_one_go(cluster_b: KafkaCluster, topic: str) -> None:
    uses = [(f"A.orders-{number}", "MirrorSourceConnector", number % 3) for number in range(TOPICS_A_CALL + 50)]
    async with connected(cluster_b) as cluster:
        async with worker(cluster, topic, "one") as one:
            one.writer.topics(uses)
            await one.flush()
            assert len(raw(cluster_b, topic)) == TOPICS_A_CALL
            for _ in range(3):
                one.writer.topics(uses)
            await one.flush()
        async with worker(cluster, topic, "another") as another:
            await until(lambda: another.book.uses(*uses[-1][:2]), SOON, "it is known")
            await until(lambda: all(another.book.uses(*use[:2]) for use in uses), SOON, "all are known")
            another.writer.topics(uses)
            await another.flush()
    assert len(raw(cluster_b, topic)) == len(uses)


async def test_what_could_not_be_stored_is_tried_again(cluster_b: KafkaCluster, topic: str) -> None:
    small = {"max.message.bytes": "100"}
    use = ("A.orders", "MirrorSourceConnector", 0)
    async with connected(cluster_b) as cluster, worker(cluster, topic, "one") as one:
        one.writer.tasks({ONE: RUNNING}, 3)
        await one.flush()
        _alter(cluster_b, topic, small)
        for _ in range(2):
            one.writer.tasks({ZERO: RUNNING}, 4)
            one.writer.topics([use])
            one.writer.gone([ONE])
            await one.flush()
            assert isinstance(one.writer.trouble, BrokerError)
            assert one.writer.trouble.code == ErrorCode.MESSAGE_TOO_LARGE
        _alter(cluster_b, topic, {"max.message.bytes": "100000"})
        for _ in range(2):
            one.writer.tasks({ZERO: RUNNING}, 5)
            one.writer.topics([use])
            one.writer.gone([ONE])
            await one.flush()
            assert one.writer.trouble is None
        await one.sees(ZERO, "RUNNING one 5")
        await until(lambda: one.book.uses(*use[:2]), SOON, "the topic is known")
        await one.producer.__aexit__(None, None, None)
        one.writer.tasks({ZERO: (TaskState.FAILED, "closed")}, 5)
        assert isinstance(one.writer.trouble, ClusterClosed)
    assert told(cluster_b, topic, task_key(ZERO)) == ["RUNNING one 5"]
    assert told(cluster_b, topic, task_key(ONE)) == ["RUNNING one 3", "gone"]


async def test_what_could_not_be_stored_in_time_is_told_as_of_then(cluster_b: KafkaCluster, topic: str) -> None:
    """The task was let go under generation 4, whatever ours is by the time that it can be said."""
    async with (
        connected(cluster_b) as cluster,
        worker(cluster, topic, "old") as old,
        worker(cluster, topic, "new") as new,
    ):
        old.writer.tasks({ZERO: RUNNING, ONE: RUNNING}, 3)
        await old.flush()
        _alter(cluster_b, topic, {"max.message.bytes": "100"})
        old.writer.tasks({}, 4)
        await old.flush()
        assert old.writer.trouble is not None
        _alter(cluster_b, topic, {"max.message.bytes": "100000"})
        new.writer.tasks({ZERO: RUNNING}, 5)
        await new.flush()
        await old.sees(ZERO, "RUNNING new 5")
        old.writer.tasks({}, 9)
        await old.flush()
    assert told(cluster_b, topic, task_key(ZERO)) == ["RUNNING old 3", "RUNNING new 5"]
    assert told(cluster_b, topic, task_key(ONE)) == ["RUNNING old 3", "UNASSIGNED old 4"]


def _alter(kafka: KafkaCluster, topic: str, configs: dict[str, str]) -> None:
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for future in kafka.admin.incremental_alter_configs([resource]).values():
        future.result(30)
