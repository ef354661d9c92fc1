"""Consumer groups as the independent client makes them: offsets committed, members that stay, KIP-848 among them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.lab.cluster import KafkaCluster
from tests.lab.waiting import wait_until

ANSWERED = 30.0  # seconds for one administrative request
JOINED = 30.0  # seconds until a member has its partitions

_COORDINATOR_STARTS = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
_EPOCH_CHANGES = KafkaError.STALE_MEMBER_EPOCH  # a member of KIP-848 hears of its new epoch with its next heartbeat

Offsets = Mapping[tuple[str, int], int]


def commit(
    cluster: KafkaCluster, group: str, offsets: Offsets, *, metadata: str = "", protocol: str = "classic"
) -> None:
    """Commit for a group like a consumer with fixed partitions, without members. In a group of the new protocol only
    members can commit, so one joins and leaves."""
    wanted = [TopicPartition(topic, number, offset, metadata) for (topic, number), offset in offsets.items()]
    if protocol == "consumer":
        with member(cluster, group, {topic for topic, _ in offsets}, protocol=protocol) as consumer:
            commit_as(consumer, wanted)
        return
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})
    try:
        commit_as(consumer, wanted)
    finally:
        consumer.close()


def commit_as(consumer: Consumer, offsets: list[TopicPartition]) -> None:
    """Commit with a consumer. The first commit on a broker can find its coordinator still loading: it is repeated."""

    def accepted() -> bool:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in (*_COORDINATOR_STARTS, _EPOCH_CHANGES):
                raise
            return False
        return True

    wait_until(accepted, ANSWERED, f"{offsets} are committed")


def committed(cluster: KafkaCluster, group: str) -> dict[tuple[str, int], int]:
    """Return all committed offsets of the group."""
    request = [ConsumerGroupTopicPartitions(group)]
    (future,) = _admin(cluster).list_consumer_group_offsets(request).values()
    found = future.result(ANSWERED).topic_partitions or []
    return {(one.topic, one.partition): one.offset for one in found if one.offset != OFFSET_INVALID}


def delete_groups(cluster: KafkaCluster, groups: Collection[str]) -> None:
    """Delete groups, with a client of its own: one that knew a broker before it restarted can wait in vain."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for future in client.delete_consumer_groups(list(groups)).values():
        future.result(ANSWERED)


@contextmanager
def member(cluster: KafkaCluster, group: str, topics: set[str], *, protocol: str = "classic") -> Iterator[Consumer]:
    """A member of the group that has its partitions and stays; it commits nothing by itself."""
    settings = {"group.protocol": protocol} if protocol == "consumer" else {"session.timeout.ms": "10000"}
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **settings,
        }
    )
    try:
        consumer.subscribe(sorted(topics))

        def joined() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:  # it joined and read in one call: return the record
                consumer.seek(TopicPartition(message.topic() or "", message.partition() or 0, message.offset() or 0))
            return bool(consumer.assignment())

        wait_until(joined, JOINED, f"a member of group {group} has its partitions")
        yield consumer
    finally:
        consumer.close()


def _admin(cluster: KafkaCluster) -> AdminClient:
    return cluster.admin
