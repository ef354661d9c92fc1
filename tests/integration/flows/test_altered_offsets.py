"""Source offsets that somebody changed while nothing ran: copying begins where they say (mm2-compat §3.11).

Java changes them by Connect's REST interface (KIP-875), which its dedicated mode does not serve; in both programs they
can be changed by a record in the offsets topic.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Producer

from mm2.core.names import TopicPartition
from mm2.node.source_offsets import SourceOffsets
from tests.integration.flows.lane import OFFSETS_PARTITIONS, Slot, copying
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.history import Content, read_topic
from tests.lab.records import plain, write
from tests.lab.waiting import until

COPIED = 30.0  # seconds for ten records of each partition, on a busy machine
EACH = 10  # records of each partition


def alter(slot: Slot, topic: str, partition: int, value: bytes | None) -> None:
    """As Java's source connector would: its key to the byte, its partitioner."""
    key = f'["MirrorSourceConnector",{{"cluster":"A","partition":{partition},"topic":"{topic}"}}]'
    producer = Producer({"bootstrap.servers": slot.target.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    producer.produce(slot.lease.offsets.topic, key=key.encode(), value=value)
    assert producer.flush(30) == 0


async def starts_of(slot: Slot, topic: str, partitions: int) -> dict[TopicPartition, int | None]:
    """Where a node that starts now begins."""
    async with connected(slot.target) as cluster:
        offsets = SourceOffsets(cluster, slot.lease.offsets.topic, slot.lease.flow, partitions=OFFSETS_PARTITIONS)
        await offsets.refresh()
        every = [TopicPartition(topic, number) for number in range(partitions)]
        return {one: offsets.position(one) for one in every}


async def test_what_is_set_to_0_has_record_0_done_and_what_is_taken_back_begins_anew(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """testReplication of Java's MirrorConnectorsIntegrationExactlyOnceTest."""
    topic = cluster_a.create_topic(unique("altered"), 3)
    write(cluster_a.bootstrap, topic, plain(3 * EACH, partitions=3))
    async with copying(cluster_a, cluster_b, {topic: 3}) as first:
        assert (await first.copied(topic)).exact
        await first.drained()
    alter(first, topic, 0, b'{"offset":0}')
    alter(first, topic, 1, None)
    starts = await starts_of(first, topic, 3)
    assert list(starts.values()) == [1, None, EACH]
    async with copying(cluster_a, cluster_b, {topic: 3}, starts=starts, again=first) as second:

        def copied() -> list[list[Content]]:
            read = read_topic(cluster_b.bootstrap, f"A.{topic}")
            return [[record.content for record in read[number]] for number in range(3)]

        await until(lambda: sum(map(len, copied())) >= 3 * EACH + EACH - 1 + EACH, COPIED, "it is copied once more")
        await second.caught_up(topic)
        await second.drained()
    source = [[record.content for record in records] for records in read_topic(cluster_a.bootstrap, topic).values()]
    assert copied() == [source[0] + source[0][1:], source[1] * 2, source[2]]
    assert list((await starts_of(second, topic, 3)).values()) == [EACH, EACH, EACH]
