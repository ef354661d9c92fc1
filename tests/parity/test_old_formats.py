"""Topics from before Kafka 0.11, copied by the real Java MirrorMaker 2 and by a source task of ours.

Brokers no longer write the formats v0 and v1, but return what is stored in them: the test plants the log file.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from mm2.core.naming.names import TopicPartition
from tests.integration.flows.lane import COPIED, copying
from tests.lab import verify
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.history import Content, count, read_topic
from tests.lab.jars import KAFKA_3, KAFKA_4
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.old_formats import every_shape, plant
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.waiting import until, wait_until

Unique = Callable[[str], str]
JAVA_COPIES = 120.0  # seconds: its connectors start one after the other
V0_RECORDS = 4 + 3 * 50  # of `every_shape`, without timestamps
V1_WRAPPERS = 6  # compressed messages of `every_shape` with timestamps: 50 records each
KEPT = {"retention.ms": "-1"}  # the records are old
PRESENT = 25  # records in the current format behind the old ones


# test_restart_within_a_compressed_message, and tests/unit/flows/batch/test_old_formats.py has the other shapes
@pytest.mark.long
@pytest.mark.parametrize("version", [KAFKA_3, KAFKA_4])
async def test_records_in_formats_before_kafka_0_11(
    start_cluster: StartCluster, cluster_b: KafkaCluster, unique: Unique, version: str
) -> None:
    source = await asyncio.to_thread(start_cluster, "ancient", version=version)
    topic, java = unique("ancient"), unique("J")
    await asyncio.to_thread(source.create_topic, topic, config=KEPT)
    shapes = every_shape(0)
    await asyncio.to_thread(plant, source, topic, b"".join(message for message, _ in shapes))
    await asyncio.to_thread(write, source.bootstrap, topic, plain(PRESENT))
    records = sum(number for _, number in shapes) + PRESENT
    begun = int(time.time() * 1000)

    def contents(remote: str) -> list[Content]:
        return [one.content for one in read_topic(cluster_b.bootstrap, remote).get(0, ())]

    def by_java() -> list[Content]:
        properties = one_flow(source, cluster_b, aliases=(java, unique("B")), topics=topic)
        with JavaMirrorMaker(properties, name="java-old-formats") as mirror_maker:
            wait_until(lambda: len(contents(f"{java}.{topic}")) >= records, JAVA_COPIES, "Java has copied the topic")
            mirror_maker.stop()
        return contents(f"{java}.{topic}")

    expected = await asyncio.to_thread(by_java)
    assert len(expected) == records
    async with copying(source, cluster_b, {topic: 1}, remote_config=KEPT) as source_task:
        await source_task.caught_up(topic)
        assert source_task.batches["old-format"] > 0
        copied = contents(f"A.{topic}")
        assert [content[:3] for content in copied] == [content[:3] for content in expected]
        assert copied[V0_RECORDS:] == expected[V0_RECORDS:], "with timestamps"
        now = int(time.time() * 1000)
        for content in copied[:V0_RECORDS] + expected[:V0_RECORDS]:
            assert begun <= content[3] <= now, "records without a timestamp get the current time"
    verify.forget()


async def test_restart_within_a_compressed_message(
    start_cluster: StartCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """The target's limit divides it, and the second source task begins where the first one stopped."""
    source = await asyncio.to_thread(start_cluster, "ancient-wrapper")
    topic = unique("wrapper")
    await asyncio.to_thread(source.create_topic, topic, config=KEPT)
    shapes = every_shape(0)
    await asyncio.to_thread(plant, source, topic, b"".join(message for message, _ in shapes))
    place = TopicPartition(topic, 0)
    start = V0_RECORDS + 4 + 20  # the 21st record in the first compressed message of v1
    async with copying(source, cluster_b, {topic: 1}, starts={place: start}, remote_config=KEPT) as source_task:
        await until(
            lambda: source_task.partition(topic).position == source_task.partition(topic).end_offset >= 0,
            COPIED,
            "it is copied",
        )
        copied = read_topic(cluster_b.bootstrap, f"A.{topic}")
        assert count(copied) == sum(number for _, number in shapes) - start
        numbers = [*range(20, 50), *(number for _ in range(V1_WRAPPERS - 1) for number in range(50))]
        assert [one.content[:2] for one in copied[0]] == [(b"%d" % number, bytes([number]) * 400) for number in numbers]
    verify.forget()
