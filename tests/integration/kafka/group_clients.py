"""Clients for tests of consumer groups: mm2's with counted requests, and an independent one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from mm2.core.offsets.checkpoints import CommittedOffset
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError
from tests.integration.kafka.clients import settings
from tests.lab.broker import Broker
from tests.lab.cluster import ADMIN_TIMEOUT, KafkaCluster
from tests.lab.waiting import until, wait_until

Condition = Callable[[], bool | Awaitable[bool]]

SOON = 30.0  # seconds: a rebalance on a busy machine

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, LIST_GROUPS, CONSUMER_GROUP_DESCRIBE = 8, 9, 10, 16, 69


class CountedCluster(Cluster):
    """A client that counts requests by API key and broker. ``oldest``: maximum API versions that it uses."""

    def __init__(self, kafka: KafkaCluster, oldest: Mapping[int, int] | None = None) -> None:
        super().__init__(settings(kafka))
        self.asked: Counter[tuple[int, int]] = Counter()
        self._oldest = oldest

    async def send(self, node_id: int, request: Any, **options: Any) -> Any:
        self.asked[request.API_KEY, node_id] += 1
        return await super().send(node_id, _Older(request, self._cut) if self._oldest else request, **options)

    async def versions(self, node_id: int, **options: Any) -> dict[int, tuple[int, int]]:
        return self._cut(await super().versions(node_id, **options))

    def requests(self, api: int) -> int:
        return sum(count for (key, _), count in self.asked.items() if key == api)

    def _cut(self, versions: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        if self._oldest is None:
            return dict(versions)
        cut = {key: (low, min(high, self._oldest.get(key, high))) for key, (low, high) in versions.items()}
        del cut[CONSUMER_GROUP_DESCRIBE]
        return cut


class _Older:
    def __init__(self, request: Any, cut: Callable[[Mapping[int, tuple[int, int]]], Any]) -> None:
        self._request = request
        self._cut = cut

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Any:
        return self._request.prepare(self._cut(versions))


def made(kafka: KafkaCluster, topic: str, partitions: int = 1) -> str:
    """Create a topic and wait until every broker has its metadata."""
    kafka.create_topic(topic, partitions)
    for broker in kafka.brokers:
        wait_until(partial(has_metadata, broker, topic), SOON, f"{broker.name} has the metadata of {topic}")
    return topic


def has_metadata(broker: Broker, topic: str) -> bool:
    """Return whether ``broker`` has the metadata of ``topic``, using a new client connected only to it."""
    admin = AdminClient({"bootstrap.servers": broker.address(), "log_level": 0})
    return admin.list_topics(topic, timeout=ADMIN_TIMEOUT).topics[topic].error is None


def at(offset: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset=offset, metadata=metadata)


def commit(kafka: KafkaCluster, groups: Collection[str], topic: str, offset: int) -> None:
    """Commit for partition 0 with the independent client, retrying while coordinators are still loading."""
    left = set(groups)

    def all_done() -> bool:
        wanted = [ConsumerGroupTopicPartitions(group, [Position(topic, 0, offset)]) for group in left]
        for futures in [kafka.admin.alter_consumer_group_offsets([one]) for one in wanted]:
            for group, future in futures.items():
                if all(position.error is None for position in future.result(ADMIN_TIMEOUT).topic_partitions):
                    left.discard(group)
        return not left

    wait_until(all_done, SOON, f"offsets of {len(groups)} groups are committed")


def seen(kafka: KafkaCluster, group: str, topic: str, partition: int = 0) -> tuple[int, str | None]:
    """Return offset and metadata of a group as read by the independent client."""
    asked = ConsumerGroupTopicPartitions(group, [Position(topic, partition)])
    (future,) = kafka.admin.list_consumer_group_offsets([asked]).values()
    (position,) = future.result(ADMIN_TIMEOUT).topic_partitions
    return position.offset, position.metadata


@asynccontextmanager
async def member(kafka: KafkaCluster, group: str, topic: str, protocol: str) -> AsyncIterator[Consumer]:
    """Run a consumer that has the topic's partitions assigned in a stable group; it leaves the group at the end."""
    own: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap, "group.id": group, "group.protocol": protocol}
    consumer = Consumer({**own, "enable.auto.commit": False})
    try:
        consumer.subscribe([topic])

        async def assigned() -> bool:
            await asyncio.to_thread(consumer.poll, 0.1)
            return bool(consumer.assignment()) and await asyncio.to_thread(_is_stable, kafka, group)

        condition: Condition = assigned
        await until(condition, SOON, f"{group} has {topic} assigned")
        yield consumer
    finally:
        await asyncio.to_thread(consumer.close)


def _is_stable(kafka: KafkaCluster, group: str) -> bool:
    """With the protocol of KIP-848 a group is reconciling until its member has acknowledged the assignment."""
    (future,) = kafka.admin.describe_consumer_groups([group]).values()
    return bool(future.result(ADMIN_TIMEOUT).state is ConsumerGroupState.STABLE)


def code(error: object) -> int:
    assert isinstance(error, BrokerError), error
    return error.code
