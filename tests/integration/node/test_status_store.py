"""Statuses in the status topic: Java's record format, and no node overwrites the status of a task another one runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow
from mm2.core.wire.status_records import ConnectState, connector_key, encode_status, task_key
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterClosed
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.store.status_store import StatusStore
from mm2.node.store.status_writer import TOPICS_A_CALL, StatusWriter
from tests.golden.vectors import java_vectors
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.waiting import until, wait_until

SOON = 60.0  # seconds
FLOW = Flow("A", "B")
PARTITIONS = 5
PROBE_BYTES = 1_000
JAVA = java_vectors("internal-topics")["topics"]["B:mm2-status.A.internal"]["records"]
ZERO, ONE = "MirrorSourceConnector-0", "MirrorSourceConnector-1"
RUNNING = (TaskState.RUNNING, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A node's status writer, with its own store that follows the topic."""

    writer: StatusWriter
    store: StatusStore
    producer: ControlProducer

    async def flush(self) -> None:
        assert await self.producer.flush(SOON)
        await asyncio.sleep(0)  # lets callbacks of the last record run

    async def sees(self, task: str, text: str | None) -> None:
        """Wait until the store has this state, worker and generation of the task."""

        def seen() -> bool:
            found = self.store.tasks().get(task)
            return text == (None if found is None else f"{found.state} {found.worker_id} {found.generation}")

        await until(seen, SOON, f"{task} is seen as {text}")

    async def reads_all(self, kafka: KafkaCluster, topic: str) -> None:
        """Wait until the store has the newest record of every key."""
        newest = {key: value for key, value, _, _ in raw(kafka, topic)}

        def seen() -> bool:
            return all(entry is not None for entry in map(self.store.entry, newest)) and all(
                _newest(self.store, key) == value for key, value in newest.items()
            )

        await until(seen, SOON, "the store is up to date")


def _newest(store: StatusStore, key: bytes) -> bytes | None:
    entry = store.entry(key)
    return None if entry is None or entry.newest is None else encode_status(entry.newest)


@asynccontextmanager
async def worker(cluster: Cluster, topic: str, name: str) -> AsyncIterator[Worker]:
    store = StatusStore(FLOW, topic)
    following = asyncio.create_task(store.follow(cluster))
    try:
        async with ControlProducer(cluster) as producer:
            writer = StatusWriter(FLOW, producer, store, partitions=PARTITIONS, worker_id=name, version="1")
            yield Worker(writer=writer, store=store, producer=producer)
    finally:
        following.cancel()
        await asyncio.wait([following])


@pytest.fixture
def topic(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> str:
    return cluster_b.create_topic(unique("mm2-status"), PARTITIONS, config={"cleanup.policy": "compact"})


def raw(kafka: KafkaCluster, topic: str) -> list[tuple[bytes, bytes | None, int, int]]:
    """Return key, value, partition and offset of all records."""
    found = read_topic(kafka.bootstrap, topic)
    return [
        (one.content[0] or b"", one.content[1], number, one.offset) for number, some in found.items() for one in some
    ]


def history(kafka: KafkaCluster, topic: str, key: bytes) -> list[str]:
    """Return state, worker and generation of all records of a task or connector, in order."""
    values = [value for one, value, _, _ in raw(kafka, topic) if one == key]
    parsed = [json.loads(value) if value is not None else None for value in values]
    return ["deleted" if one is None else f"{one['state']} {one['worker_id']} {one['generation']}" for one in parsed]


async def test_statuses_have_javas_format(cluster_b: KafkaCluster, topic: str) -> None:
    """Keys, values and partitions."""
    wanted: dict[bytes, tuple[bytes, int]] = {}
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        for record in JAVA:
            key, value = record["key"]["text"], record["value"]["text"]
            wanted[key.encode()] = (value.encode(), record["partition"])
            content = json.loads(value)
            writer = StatusWriter(
                FLOW,
                producer,
                StatusStore(FLOW, topic),
                partitions=PARTITIONS,
                worker_id=content.get("worker_id", ""),
                version=content.get("version"),
                clock=partial(_discovered, content),
            )
            if use := content.get("topic"):
                writer.topics([(use["name"], use["connector"], use["task"])])
            elif name := key.partition("status-task-")[2]:
                writer.tasks({name: RUNNING}, content["generation"])
            else:
                writer.connectors({key.removeprefix("status-connector-"): TaskState.RUNNING}, content["generation"])
        assert await producer.flush(SOON)
    assert {key: (value, partition) for key, value, partition, _ in raw(cluster_b, topic)} == wanted


def _discovered(content: dict[str, Any]) -> float:
    return float(content["topic"]["discoverTimestamp"]) / 1000


async def test_changes_are_written_once_and_read_back(cluster_b: KafkaCluster, topic: str) -> None:
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
        assert one.writer.error.cause is None
    wanted = ["RUNNING one 3", "FAILED one 3", "FAILED one 4", "UNASSIGNED one 5"]
    assert history(cluster_b, topic, task_key(ZERO)) == wanted
    assert history(cluster_b, topic, task_key(ONE)) == ["RUNNING one 3", "PAUSED one 4", "UNASSIGNED one 5"]
    values = [value or b"" for key, value, _, _ in raw(cluster_b, topic) if key == task_key(ZERO)]
    assert [json.loads(value)["trace"] for value in values] == [None, failed[1], "another reason", None]


async def test_releasing_a_task_does_not_overwrite_its_new_worker(cluster_b: KafkaCluster, topic: str) -> None:
    """Neither in the same generation nor in later ones."""
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
    assert history(cluster_b, topic, task_key(ZERO)) == ["RUNNING old 3", "RUNNING new 4"]
    assert history(cluster_b, topic, task_key(ONE)) == ["RUNNING old 3", "UNASSIGNED old 3"]


async def test_failure_on_a_worker_that_lost_the_task_is_not_written(cluster_b: KafkaCluster, topic: str) -> None:
    async with (
        connected(cluster_b) as cluster,
        worker(cluster, topic, "old") as old,
        worker(cluster, topic, "new") as new,
    ):
        new.writer.tasks({ZERO: RUNNING}, 4)
        await new.flush()
        await old.sees(ZERO, "RUNNING new 4")
        old.writer.tasks({ZERO: (TaskState.FAILED, "the broker is unavailable")}, 3)
        await old.flush()
        assert history(cluster_b, topic, task_key(ZERO)) == ["RUNNING new 4"]
        old.writer.tasks({ZERO: (TaskState.FAILED, "the broker is unavailable")}, 5)
        await old.flush()
    assert history(cluster_b, topic, task_key(ZERO)) == ["RUNNING new 4", "FAILED old 5"], (
        "the old worker runs the task again"
    )


async def test_status_overwritten_by_a_stale_worker_is_restored(cluster_b: KafkaCluster, topic: str) -> None:
    """The stale worker's store is outdated, so it overwrites the status of the new one."""
    async with connected(cluster_b) as cluster, worker(cluster, topic, "new") as new:
        new.writer.tasks({ZERO: RUNNING}, 4)
        await new.flush()
        async with ControlProducer(cluster) as producer:
            stale = StatusWriter(
                FLOW,
                producer,
                StatusStore(FLOW, topic),
                partitions=PARTITIONS,
                worker_id="stale",
                version="1",
            )
            stale.tasks({ZERO: (TaskState.FAILED, "stale")}, 3)
            assert await producer.flush(SOON)
            await new.sees(ZERO, "FAILED stale 3")
            new.writer.tasks({ZERO: RUNNING}, 5)
            await new.flush()
            await new.sees(ZERO, "RUNNING new 5")
            stale.tasks({}, 3)
            assert await producer.flush(SOON)
        await new.reads_all(cluster_b, topic)
        await new.sees(ZERO, "RUNNING new 5")
        for generation in (5, 6, 7):
            new.writer.tasks({ZERO: RUNNING}, generation)
        await new.flush()
    assert history(cluster_b, topic, task_key(ZERO)) == [
        "RUNNING new 4",
        "FAILED stale 3",
        "RUNNING new 5",
        "UNASSIGNED stale 3",
        "RUNNING new 5",
    ], "the current status is the last record, also after compaction"


async def test_connector_statuses_of_the_leader(cluster_b: KafkaCluster, topic: str) -> None:
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
        await until(
            lambda: _is(old.store, key, ConnectState.RUNNING), SOON, "the old leader sees the new leader's status"
        )
        old.writer.connectors({}, 4)
        await old.flush()
        new.writer.connectors({}, 5)
        await new.flush()
    wanted = ["RUNNING old 3", "PAUSED old 3", "RUNNING new 4", "UNASSIGNED new 5"]
    assert history(cluster_b, topic, key) == wanted


def _is(store: StatusStore, key: bytes, state: ConnectState) -> bool:
    entry = store.entry(key)
    return entry is not None and entry.status is not None and entry.status.state is state


async def test_removed_tasks_are_deleted(cluster_b: KafkaCluster, topic: str) -> None:
    """The leader removes them, also those of other nodes and earlier runs, and again after they reappear."""
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
            leader.writer.remove([ZERO, ONE, "MirrorSourceConnector-2"])
        leader.writer.tasks({}, 4)
        await leader.flush()
        await leader.sees(ONE, None)
        await leader.sees(ZERO, None)
        leader.writer.remove([ZERO, ONE])
        other.writer.tasks({}, 4)
        await other.flush()
        await leader.sees(ONE, "UNASSIGNED other 4")
        for _ in range(2):
            leader.writer.remove([ZERO, ONE])
        leader.writer.tasks({ZERO: RUNNING}, 5)
        await leader.flush()
        await leader.sees(ZERO, "RUNNING leader 5")
        await leader.sees(ONE, None)
        assert set(leader.store.tasks()) == {ZERO}
    assert history(cluster_b, topic, task_key(ZERO)) == ["RUNNING leader 3", "deleted", "RUNNING leader 5"]
    assert history(cluster_b, topic, task_key(ONE)) == ["RUNNING other 3", "deleted", "UNASSIGNED other 4", "deleted"]
    assert {key for key, *_ in raw(cluster_b, topic)} == {task_key(ZERO), task_key(ONE)}


async def test_topics_are_written_once_and_in_portions(cluster_b: KafkaCluster, topic: str) -> None:
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
            await until(lambda: another.store.uses(*uses[-1][:2]), SOON, "the last topic is known")
            await until(lambda: all(another.store.uses(*use[:2]) for use in uses), SOON, "all topics are known")
            another.writer.topics(uses)
            await another.flush()
    assert len(raw(cluster_b, topic)) == len(uses)


async def test_failed_writes_are_retried(cluster_b: KafkaCluster, topic: str) -> None:
    use = ("A.orders", "MirrorSourceConnector", 0)
    async with connected(cluster_b) as cluster, worker(cluster, topic, "one") as one:
        one.writer.tasks({ONE: RUNNING}, 3)
        await one.flush()
        _limit_batches(cluster_b, topic, 100)
        for _ in range(2):
            one.writer.tasks({ZERO: RUNNING}, 4)
            one.writer.topics([use])
            one.writer.remove([ONE])
            await one.flush()
            assert isinstance(one.writer.error.cause, BrokerError)
            assert one.writer.error.cause.code == ErrorCode.MESSAGE_TOO_LARGE
        _limit_batches(cluster_b, topic, 100_000)
        for _ in range(2):
            one.writer.tasks({ZERO: RUNNING}, 5)
            one.writer.topics([use])
            one.writer.remove([ONE])
            await one.flush()
            assert one.writer.error.cause is None
        await one.sees(ZERO, "RUNNING one 5")
        await until(lambda: one.store.uses(*use[:2]), SOON, "the topic is known")
        await one.producer.__aexit__(None, None, None)
        one.writer.tasks({ZERO: (TaskState.FAILED, "closed")}, 5)
        assert isinstance(one.writer.error.cause, ClusterClosed)
    assert history(cluster_b, topic, task_key(ZERO)) == ["RUNNING one 5"]
    assert history(cluster_b, topic, task_key(ONE)) == ["RUNNING one 3", "deleted"]


async def test_delayed_status_has_the_generation_of_its_change(cluster_b: KafkaCluster, topic: str) -> None:
    """The task was released in generation 4, even if the status can only be written in a later one."""
    async with (
        connected(cluster_b) as cluster,
        worker(cluster, topic, "old") as old,
        worker(cluster, topic, "new") as new,
    ):
        old.writer.tasks({ZERO: RUNNING, ONE: RUNNING}, 3)
        await old.flush()
        _limit_batches(cluster_b, topic, 100)
        old.writer.tasks({}, 4)
        await old.flush()
        assert old.writer.error.cause is not None
        _limit_batches(cluster_b, topic, 100_000)
        new.writer.tasks({ZERO: RUNNING}, 5)
        await new.flush()
        await old.sees(ZERO, "RUNNING new 5")
        old.writer.tasks({}, 9)
        await old.flush()
    assert history(cluster_b, topic, task_key(ZERO)) == ["RUNNING old 3", "RUNNING new 5"]
    assert history(cluster_b, topic, task_key(ONE)) == ["RUNNING old 3", "UNASSIGNED old 4"]


def _limit_batches(kafka: KafkaCluster, topic: str, limit: int) -> None:
    """Set max.message.bytes and wait until it applies to every partition, which is after the broker's response."""
    entry = ConfigEntry("max.message.bytes", str(limit), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in kafka.admin.incremental_alter_configs([resource]).values():
        future.result(30)
    too_large = limit < PROBE_BYTES
    for partition in range(PARTITIONS):
        wait_until(lambda: _rejects_probe(kafka, topic, partition) == too_large, SOON, f"a limit of {limit} bytes")  # noqa: B023


def _rejects_probe(kafka: KafkaCluster, topic: str, partition: int) -> bool:
    answers: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    producer.produce(topic, bytes(PROBE_BYTES), b"probe", partition, on_delivery=lambda error, _: answers.append(error))
    producer.flush(SOON)
    return [error and error.code() for error in answers] == [KafkaError.MSG_SIZE_TOO_LARGE]
