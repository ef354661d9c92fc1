"""Members of a consumer group in this process, ours and the independent client's, and what they were told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

from confluent_kafka import Consumer

from mm2.core.mirror1.settings import GroupMembership
from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.clock import session_clock
from mm2.kafka.groups.consumer_member import ConsumerMember
from tests.integration.kafka.clients import settings
from tests.lab.cluster import KafkaCluster
from tests.lab.waiting import until

SOON = 30.0  # seconds: a first join makes a broker create its offsets topic, on a busy machine
SESSION_MS = 4_000  # short, for tests that wait for its end; long enough for two busy cores
LONG_SESSION_MS = 30_000  # of members that must not be lost, in tests that do not wait for it
HEARTBEAT_MS = 200


def partitions(topic: str, *numbers: int) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for number in numbers}


class Watched:
    """A member with its handler. ``events`` are (name, time of `session_clock`)."""

    def __init__(self, cluster: Cluster, group: GroupMembership, client_id: str, topics: Collection[str]) -> None:
        self.topics = set(topics)
        self.member = ConsumerMember(
            cluster,
            group,
            client_id=client_id,
            topics=lambda: self.topics,
            partitions_of=self._counts,
            handler=self,
        )
        self.events: list[tuple[str, float]] = []
        self.generation = -1
        self.partitions: set[TopicPartition] | None = None
        self.on_revoked: Callable[[], Awaitable[object]] | None = None
        self.revoked_cancelled = False
        self._cluster = cluster

    async def _counts(self, topics: Collection[str]) -> dict[str, int]:
        found = await self._cluster.metadata(topics)
        return {name: len(topic.partitions) for name, topic in found.topics.items() if not topic.error}

    async def assigned(self, partitions: set[TopicPartition], generation: int) -> None:
        assert self.partitions is None
        self.partitions, self.generation = partitions, generation
        self.events.append(("assigned", session_clock()))

    async def revoked(self) -> None:
        assert self.partitions is not None
        try:
            if self.on_revoked is not None:
                await self.on_revoked()
        except asyncio.CancelledError:
            self.revoked_cancelled = True
            raise
        self.partitions = None
        self.events.append(("revoked", session_clock()))

    def lost(self) -> None:
        assert self.partitions is not None
        self.partitions = None
        self.events.append(("lost", session_clock()))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def last(self, name: str) -> float:
        return [at for one, at in self.events if one == name][-1]

    async def until_assigned(self, wanted: set[TopicPartition], *, within: float = SOON) -> None:
        def found() -> bool:
            return self.partitions == wanted

        await until(found, within, f"a member has {sorted(map(str, wanted))}, not {self.partitions}")


def membership(group: str, **other: int | str) -> GroupMembership:
    quick = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS, "max_poll_interval_ms": 60_000}
    return GroupMembership(**{"group_id": group, **quick, **other})  # type: ignore[arg-type]


@asynccontextmanager
async def created(
    kafka: KafkaCluster,
    group: str,
    *topics: str,
    client_id: str = "copier-0",
    may_send: Callable[[], bool] = lambda: True,
    **other: int | str,
) -> AsyncIterator[Watched]:
    """Create a member that does not run yet."""
    async with Cluster(settings(kafka), may_send=may_send) as cluster:
        yield Watched(cluster, membership(group, **other), client_id, topics)


@asynccontextmanager
async def joined(
    kafka: KafkaCluster,
    group: str,
    *topics: str,
    client_id: str = "copier-0",
    may_send: Callable[[], bool] = lambda: True,
    **other: int | str,
) -> AsyncIterator[Watched]:
    """Run a member, and stop it at the end."""
    async with created(kafka, group, *topics, client_id=client_id, may_send=may_send, **other) as one:
        running = asyncio.create_task(one.member.run(), name=client_id)
        try:
            yield one
        finally:
            one.member.stop()
            await running


class OtherMember:
    """A consumer of the independent client that is polled all the time."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.polling = True
        self.partitions: set[TopicPartition] = set()
        self.offsets: dict[TopicPartition, int] = {}  # of the first record of each partition

    def poll(self) -> None:
        """Use the consumer in this thread alone: its calls wait for each other."""
        while self.polling:
            record = self.consumer.poll(0.05)
            self.partitions = {TopicPartition(one.topic, one.partition) for one in self.consumer.assignment()}
            if record is not None and record.error() is None:
                one = TopicPartition(record.topic() or "", record.partition() or 0)
                self.offsets.setdefault(one, record.offset() or 0)

    async def until_assigned(self, wanted: set[TopicPartition]) -> None:
        def found() -> bool:
            return self.partitions == wanted

        await until(found, SOON, f"the other member has {sorted(map(str, wanted))}")


@asynccontextmanager
async def other_member(
    kafka: KafkaCluster, group: str, topic: str, *, client_id: str = "other", **own: str
) -> AsyncIterator[OtherMember]:
    """Run a consumer of the independent client, by default with the range assignor; it commits nothing."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": group,
            "client.id": client_id,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **(own or {"partition.assignment.strategy": "range", "heartbeat.interval.ms": str(HEARTBEAT_MS)}),
        }
    )
    consumer.subscribe([topic])
    other = OtherMember(consumer)
    polling = asyncio.create_task(asyncio.to_thread(other.poll))
    try:
        yield other
    finally:
        other.polling = False
        await polling
        await asyncio.to_thread(consumer.close)
