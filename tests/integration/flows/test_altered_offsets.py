"""Source offsets altered while no node runs (KIP-875): replication resumes at the new offsets.

Connect alters offsets through its REST API, which Java's dedicated mode does not provide. In both programs a record in
the offsets topic does the same.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Producer

from mm2.core.naming.names import TopicPartition
from mm2.node.source.source_offsets import StoredSourceOffsets
from tests.integration.flows.lane import OFFSETS_PARTITIONS, RunningSourceTask, copying
from tests.integration.kafka.clients import connected
from tests.lab import verify
from tests.lab.cluster import KafkaCluster
from tests.lab.history import Content, read_topic
from tests.lab.records import plain, write
from tests.lab.waiting import until

COPIED = 30.0  # seconds to copy ten records of each partition, on a busy machine
EACH = 10  # records of each partition


def alter(source_task: RunningSourceTask, topic: str, partition: int, value: bytes | None) -> None:
    """Write a source offset with the key and partitioner of Java's source connector."""
    key = f'["MirrorSourceConnector",{{"cluster":"A","partition":{partition},"topic":"{topic}"}}]'
    producer = Producer(
        {"bootstrap.servers": source_task.target.bootstrap, "partitioner": "murmur2_random", "log_level": 0}
    )
    producer.produce(source_task.offsets_topic, key=key.encode(), value=value)
    assert producer.flush(30) == 0


async def starts_of(source_task: RunningSourceTask, topic: str, partitions: int) -> dict[TopicPartition, int | None]:
    """Return the offsets at which a node would start now."""
    async with connected(source_task.target) as cluster:
        offsets = StoredSourceOffsets(
            cluster, source_task.offsets_topic, source_task.lease.flow, source_alias="A", partitions=OFFSETS_PARTITIONS
        )
        await offsets.refresh()
        every = [TopicPartition(topic, number) for number in range(partitions)]
        return {one: offsets.position(one) for one in every}


async def test_altered_and_deleted_offsets(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """testReplication of Java's MirrorConnectorsIntegrationExactlyOnceTest."""
    topic = cluster_a.create_topic(unique("altered"), 3)
    write(cluster_a.bootstrap, topic, plain(3 * EACH, partitions=3))
    async with copying(cluster_a, cluster_b, {topic: 3}) as first:
        assert (await first.copied(topic)).exact
        await first.drained()
    verify.forget()  # from here on records are copied twice on purpose
    alter(first, topic, 0, b'{"offset":0}')
    alter(first, topic, 1, None)
    starts = await starts_of(first, topic, 3)
    assert list(starts.values()) == [1, None, EACH]
    async with copying(cluster_a, cluster_b, {topic: 3}, starts=starts, predecessor=first) as second:

        def copied() -> list[list[Content]]:
            read = read_topic(cluster_b.bootstrap, f"A.{topic}")
            return [[record.content for record in read[number]] for number in range(3)]

        await until(
            lambda: sum(map(len, copied())) >= 3 * EACH + EACH - 1 + EACH, COPIED, "the records are copied again"
        )
        await second.caught_up(topic)
        await second.drained()
    source = [[record.content for record in records] for records in read_topic(cluster_a.bootstrap, topic).values()]
    assert copied() == [source[0] + source[0][1:], source[1] * 2, source[2]]
    assert list((await starts_of(second, topic, 3)).values()) == [EACH, EACH, EACH]
