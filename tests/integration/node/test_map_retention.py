"""The exact offset map on a real broker: the leader deletes old segments, and readers fetch those that they need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import javaproperties
import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.load import load
from mm2.config.settings import FlowSettings
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, TopicIds
from mm2.core.offsets.exact_offsets import ExactOffsets
from mm2.core.offsets.map_retention import MapExtent
from mm2.core.offsets.offset_translation import NO_SYNC, Translated
from mm2.core.offsets.segment_index import SegmentNotLoaded
from mm2.kafka.client.cluster import Cluster
from mm2.node.checkpoint.translation import FlowTranslation
from mm2.node.leader.map_retention import MapRetention
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.waiting import until

DONE = 30.0
LOOK_EVERY_S = 0.1


def settings_of(source: KafkaCluster, target: KafkaCluster, alias: str, topic: str, **own: str) -> FlowSettings:
    file = scratch.directory(alias) / "mm2.properties"
    properties = one_flow(source, target, aliases=(alias, "B"), topics=topic) | own
    file.write_text(javaproperties.dumps(properties, timestamp=False))
    loaded = load(file)
    assert loaded.settings is not None, "\n".join(map(str, loaded.problems))
    return next(one for one in loaded.settings.flows if one.enabled)


def segments(partition: TopicPartition, count: int) -> list[Segment]:
    """Each has a hundred source offsets, the first ten of which are a hole."""
    return [
        Segment(
            topic_partition=partition,
            sequence=sequence,
            era=0,
            topic_ids=TopicIds(),
            before=CopiedUpTo(100 * sequence, 90 * sequence),
            through=-1,
            ranges=(CopiedRange(100 * sequence + 10, 90 * sequence, 90, 10),),
        )
        for sequence in range(count)
    ]


def write_map(target: KafkaCluster, topic: str, written: list[Segment]) -> None:
    """Write the first segments plainly and the others in transactions, as with exactly-once."""
    in_transactions = Producer({"bootstrap.servers": target.bootstrap, "log_level": 0, "transactional.id": topic})
    in_transactions.init_transactions(30)
    plainly = Producer({"bootstrap.servers": target.bootstrap, "log_level": 0})
    for one in written:
        if one.sequence >= 5:
            in_transactions.begin_transaction()
            in_transactions.produce(topic, key=one.key(), value=one.value(), partition=0)
            in_transactions.commit_transaction(30)
        else:
            plainly.produce(topic, key=one.key(), value=one.value(), partition=0)
            assert plainly.flush(30) == 0


def sequences(target: KafkaCluster, topic: str, partition: TopicPartition) -> list[int]:
    offsets = ExactOffsets()
    for record in read_topic(target.bootstrap, topic)[0]:
        offsets.apply_record(record.content[0], record.content[1], record.offset)
    return [entry.sequence for entry in offsets.entries(partition)]


async def test_old_segments_are_fetched_and_deleted(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    alias, partition = unique("A"), TopicPartition(unique("orders"), 0)
    cluster_a.create_topic(partition.topic)
    write(cluster_a.bootstrap, partition.topic, plain(1_000))
    exact_topic = cluster_b.create_topic(f"mm2-exact-offsets.{alias}.internal", config={"cleanup.policy": "compact"})
    await asyncio.to_thread(write_map, cluster_b, exact_topic, segments(partition, 10))
    settings = settings_of(cluster_a, cluster_b, alias, partition.topic)
    async with (
        Cluster(settings.clients.of(ClientRole.REPLICATION_SOURCE_ADMIN)) as source,
        Cluster(settings.clients.of(ClientRole.SHARED_ADMIN)) as target,
    ):
        translation = FlowTranslation(settings, source, target, must_read_to_end=False)
        await translation.read_to_end(without_syncs=True)
        for sequence in range(10):
            position = 100 * sequence + 50
            found = await translation.translated({partition: position})
            exact = Translated(offset=90 * sequence + 40, behind=0)
            assert found.translate(partition, position) == exact
            assert found.latest(partition, position) == exact.offset

        async def limited(limits: FlowSettings, kept: list[int], extent: MapExtent) -> None:
            retention = MapRetention(limits, source=source, target=target, look_every_s=LOOK_EVERY_S, starts_every_s=0)
            running = asyncio.create_task(retention.run())
            try:
                await until(
                    lambda: asyncio.to_thread(lambda: sequences(cluster_b, exact_topic, partition) == kept),
                    DONE,
                    f"the segments {kept} are left",
                )
                await until(lambda: retention.extents.get(partition) == extent, DONE, "the extent is known")
                assert retention.error.text is None
            finally:
                running.cancel()
                await asyncio.wait([running])

        await limited(settings, list(range(10)), MapExtent(exact_from=0, log_start=0))
        gone = ClientPartition(partition.topic, 0, 350)
        cluster_a.admin.delete_records([gone])[ClientPartition(partition.topic, 0)].result(30)
        await limited(settings, list(range(3, 10)), MapExtent(exact_from=300, log_start=350))
        window = settings.own.model_copy(update={"offset_translation_window": 96})
        await limited(replace(settings, own=window), [7, 8, 9], MapExtent(exact_from=700, log_start=350))
        tiny = settings.own.model_copy(update={"offset_map_max_bytes": 10})
        await limited(replace(settings, own=tiny), [9], MapExtent(exact_from=900, log_start=350))
        await asyncio.to_thread(write_map, cluster_b, exact_topic, segments(partition, 12)[10:])
        await limited(settings, [9, 10, 11], MapExtent(exact_from=900, log_start=350))

        reader = FlowTranslation(settings, source, target, must_read_to_end=False)
        await reader.read_to_end(without_syncs=True)
        found = await reader.translated({partition: 450})
        assert found.translate(partition, 450) == NO_SYNC
        assert found.latest(partition, 450) == 810


async def test_a_segment_that_cannot_be_fetched_makes_a_translation_conservative(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    alias, partition = unique("A"), TopicPartition("orders", 0)
    exact_topic = cluster_b.create_topic(f"mm2-exact-offsets.{alias}.internal", config={"cleanup.policy": "compact"})
    await asyncio.to_thread(write_map, cluster_b, exact_topic, segments(partition, 3))
    settings = settings_of(cluster_a, cluster_b, alias, partition.topic)
    async with Cluster(settings.clients.of(ClientRole.SHARED_ADMIN)) as target:
        translation = FlowTranslation(settings, target, target, must_read_to_end=False)
        await translation.read_to_end(without_syncs=True)
        cluster_b.admin.delete_topics([exact_topic])[exact_topic].result(30)
        cluster_b.create_topic(exact_topic, config={"cleanup.policy": "compact"})
        with pytest.raises(SegmentNotLoaded):
            translation.translate(partition, 150)
        found = await translation.translated({partition: 150})
        assert found.translate(partition, 150) == Translated(offset=90, behind=40)
        assert translation.translate(partition, 250) == Translated(offset=220, behind=0), "the newest is in memory"
