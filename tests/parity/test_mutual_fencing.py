"""Exactly-once flows of Java's MirrorMaker and of mm2 fence each other's lost source tasks (KIP-618).

A lost source task is represented by a producer with its transactional ID that is acquired after its program was killed:
it could still write, unless the next program fences this ID, although it runs fewer source tasks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import TypeVar

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.groups.group_members import describe_group
from mm2.kafka.logs.transaction_coordinator import Fenced, TransactionCoordinator
from mm2.kafka.protocol.group_requests import DescribedGroup
from mm2.kafka.protocol.transaction_requests import ProducerIdAndEpoch
from mm2.kafka.retrying import retried
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.history import Partitions, read_topic
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import until

PARTITIONS = 4
SOON = 120.0  # seconds: the session of a killed program has to end first, on a busy machine
T = TypeVar("T")

pytestmark = pytest.mark.timeout(600)


class LostTask:
    """A producer with the transactional ID of a source task that was lost."""

    def __init__(self, cluster: Cluster, alias: str, source_task: int) -> None:
        transactional_id = f"{alias}-mm2-MirrorSourceConnector-{source_task}"
        self._settings = cluster.settings
        self._coordinator = TransactionCoordinator(cluster, transactional_id, timeout_ms=60_000, purpose="lost task")
        self._producer: ProducerIdAndEpoch | None = None

    async def acquire(self) -> None:
        self._producer = await self._retried(self._coordinator.init)

    async def may_write(self, remote: TopicPartition) -> bool:
        """Begin and abort a transaction. The coordinator may still be writing the markers of the one before."""
        producer = self._producer
        assert producer is not None
        try:
            await self._retried(lambda: self._coordinator.add(producer, [remote]))
            await self._retried(lambda: self._coordinator.abort(producer))
        except Fenced:
            return False
        return True

    async def _retried(self, attempt: Callable[[], Awaitable[T]]) -> T:
        return await retried(attempt, self._settings, timeout_ms=30_000)


def properties(
    source: KafkaCluster, target: KafkaCluster, aliases: tuple[str, str], topic: str, tasks_max: int
) -> Mapping[str, str]:
    a, b = aliases
    return one_flow(source, target, aliases=aliases, topics=topic) | {
        "tasks.max": str(tasks_max),
        f"{b}.exactly.once.source.support": "enabled",
        f"{a}.consumer.isolation.level": "read_committed",
        f"{a}->{b}.exactly.once.support": "requested",
        f"{b}->{a}.emit.heartbeats.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "sync.topic.acls.enabled": "false",
        f"{b}.session.timeout.ms": "6000",
        f"{b}.heartbeat.interval.ms": "2000",
    }


def configs(target: KafkaCluster, alias: str, *keys: bytes) -> list[tuple[bytes, bytes]]:
    """Return the records with these keys, in order."""
    found: Partitions = read_topic(target.bootstrap, f"mm2-configs.{alias}.internal")
    contents = [one.content[:2] for records in found.values() for one in records]
    return [(key, value or b"") for key, value in contents if key in keys]


async def test_each_program_fences_the_lost_source_tasks_of_the_other(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    fencing, commit = b"tasks-fencing-MirrorSourceConnector", b"commit-MirrorSourceConnector"
    aliases = alias, _ = unique("A"), unique("B")
    topic = cluster_a.create_topic(unique("orders"), PARTITIONS)
    remote = f"{alias}.{topic}"
    place = TopicPartition(remote, 0)

    def file(tasks_max: int) -> Mapping[str, str]:
        return properties(cluster_a, cluster_b, aliases, topic, tasks_max)

    def recorded(*keys: bytes) -> list[tuple[bytes, bytes]]:
        return configs(cluster_b, alias, *keys)

    with ExitStack() as ends:

        def copy() -> None:
            write(cluster_a.bootstrap, topic, plain(100, partitions=PARTITIONS))
            wait_until_copied((cluster_a.bootstrap, topic), (cluster_b.bootstrap, remote), SOON)

        java = ends.enter_context(JavaMirrorMaker(file(PARTITIONS)))
        copy()
        assert recorded(fencing)[-1] == (fencing, b'{"task-count":4}'), "Java's format"
        java.kill()

        async with connected(cluster_b) as cluster:
            lost = LostTask(cluster, alias, 3)
            await lost.acquire()
            assert await lost.may_write(place)
            node = Node(file(2))
            ends.push(node)
            node.start().wait_running()
            copy()
            assert not await lost.may_write(place), "the node fences a task of Java that it does not have"
            records = [(fencing, b'{"task-count":2}'), (commit, b'{"tasks":0}')]
            assert recorded(fencing, commit)[-2:] == records
            keys = [key for key, _ in recorded(fencing, b"mm2-source-task-0", b"mm2-source-task-1")]
            assert keys.index(fencing, keys.index(fencing) + 1) < keys.index(b"mm2-source-task-1"), "recorded first"

            node.kill()
            for process in node.family():
                process.kill()
            lost = LostTask(cluster, alias, 1)
            await lost.acquire()

            async def left() -> bool:
                group = await describe_group(cluster, f"{alias}-mm2")
                return isinstance(group, DescribedGroup) and group.state == "Empty"

            await until(left, SOON, "the session of the killed node ends, which keeps members of Java's protocol out")
            java = ends.enter_context(JavaMirrorMaker(file(1), name="java-again"))

            async def fenced() -> bool:
                return not await lost.may_write(place)

            await until(fenced, SOON, "Java fences a source task of the node that it does not have")
            copy()
            assert recorded(fencing)[-1] == (fencing, b'{"task-count":1}')
