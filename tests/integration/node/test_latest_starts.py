"""What the leader stores under ``latest``, on real brokers: starts before the partitions are assigned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

import javaproperties

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.load import load
from mm2.config.settings import FlowSettings
from mm2.core.assignment.source_task_records import SourceTaskRecord, encode_source_task
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, TopicIds
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.client.cluster import Cluster
from mm2.node.leader.config_writer import ConfigWriter
from mm2.node.leader.discovery import TopicDiscovery
from mm2.node.leader.remote_topics import Discovery
from mm2.node.leader.starts.latest_start_writer import LatestStartWriter
from mm2.node.source.newest_segments import NewestSegments
from mm2.node.source.remote_copies import RemoteCopies
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.worker_topics import WorkerTopics
from tests.integration.test_flow_start import stored
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.records import Outgoing, plain, write
from tests.lab.settings import one_flow
from tests.lab.waiting import until

SEEN = 30.0  # seconds until a broker has the metadata of new topics and partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """A leader that discovers, and publishes what it has discovered as the list of source task 0."""

    settings: FlowSettings
    discovery: TopicDiscovery
    offsets: StoredSourceOffsets
    configs: ConfigStore
    writer: ConfigWriter

    async def plan(self, *partitions: TopicPartition) -> Discovery:
        """Look for topics until these partitions are found, and publish the list with all."""
        found: Discovery | None = None

        async def discovered() -> bool:
            nonlocal found
            found = await self.discovery.look()
            return found.partitions == tuple(sorted(partitions))

        await until(discovered, SEEN, f"{len(partitions)} partitions are discovered")
        assert found is not None
        before = self.configs.source_tasks.records.get(0)
        version = 1 if before is None else before.version + 1
        record = SourceTaskRecord(source_task=0, epoch=1, version=version, partitions=frozenset(partitions))
        await self.writer.put(encode_source_task(record))
        await self.configs.catch_up()
        return found

    async def starts(self, *partitions: TopicPartition) -> list[int | None]:
        await self.offsets.refresh()
        return [self.offsets.position(one) for one in partitions]


@asynccontextmanager
async def leading(properties: dict[str, str], epoch: str) -> AsyncIterator[Leader]:
    file = scratch.directory(epoch) / "mm2.properties"
    file.write_text(javaproperties.dumps(properties, timestamp=False))
    loaded = load(file)
    assert loaded.settings is not None, "\n".join(map(str, loaded.problems))
    settings = next(one for one in loaded.settings.flows if one.enabled)
    async with AsyncExitStack() as stack:
        source, target = [
            await stack.enter_async_context(Cluster(settings.clients.of(role)))
            for role in (ClientRole.REPLICATION_SOURCE_ADMIN, ClientRole.SHARED_ADMIN)
        ]
        offsets = (await WorkerTopics.ensure(settings, target)).source_offsets
        configs = ConfigStore(settings, target, on_change=lambda: None, on_command=lambda _: None)
        await configs.read_to_end()
        writer = ConfigWriter(target, configs.topic, f"{epoch}-{settings.worker.group_id}")
        await writer.begin()
        starts = LatestStartWriter(
            settings,
            source=source,
            configs=configs,
            segments=NewestSegments(settings, ClusterAdmin(target)),
            copies=RemoteCopies(settings, target),
            stored=offsets,
            put=writer.put,
        )
        discovery = TopicDiscovery(
            settings,
            ClusterAdmin(source),
            ClusterAdmin(target),
            settings.replication_filter,
            published=configs.source_tasks.records.values,
            decide_starts=starts.decide,
        )
        following = asyncio.create_task(configs.follow())
        try:
            yield Leader(settings=settings, discovery=discovery, offsets=offsets, configs=configs, writer=writer)
        finally:
            following.cancel()
            await asyncio.wait([following])


async def test_a_flow_starts_at_the_ends_as_of_its_first_plan_and_later_partitions_at_their_beginning(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """No lane runs: what is written until one does is copied, also by Java, except in partitions that were empty."""
    a, b = unique("A"), unique("B")
    orders, later, payments = f"{a}-orders", f"{a}-orders-later", f"{a}-payments"
    cluster_a.create_topic(orders, 2)
    cluster_a.create_topic(payments)
    write(cluster_a.bootstrap, orders, plain(40))
    write(cluster_a.bootstrap, payments, plain(9))
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{orders}.*") | {
        f"{a}.consumer.auto.offset.reset": "latest",
        "heartbeats.replication.enabled": "false",
    }
    first, empty, added = (TopicPartition(orders, number) for number in range(3))
    new, old = TopicPartition(later, 0), TopicPartition(payments, 0)

    async with leading(properties, "first") as leader:
        await leader.plan(first, empty)
        write(cluster_a.bootstrap, orders, plain(10))
        await leader.plan(first, empty)
        assert await leader.starts(first, empty) == [40, 0]
    assert stored(cluster_b, a, orders) == b'{"offset":39}', "as Java reads it"

    cluster_a.create_topic(later)
    write(cluster_a.bootstrap, later, plain(7))
    cluster_a.grow_topic(orders, 3)
    async with leading(properties, "second") as leader:
        await leader.plan(first, empty, added, new)
        assert await leader.starts(first, empty, added, new) == [40, 0, 0, 0]

    selecting_more = properties | {f"{a}->{b}.topics": f"{orders}.*,{payments}"}
    async with leading(selecting_more, "third") as leader:
        await leader.plan(first, empty, added, new, old)
        assert await leader.starts(first, added, new, old) == [40, 0, 0, 9], (
            "a topic that was selected later can be old"
        )


async def test_no_end_is_stored_for_a_partition_with_copies_whose_offset_is_gone(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """Its lane continues where the exact offset map ends. What was written since would otherwise be left out."""
    a, b = unique("A"), unique("B")
    topic = cluster_a.create_topic(f"{a}-orders", 3)
    write(cluster_a.bootstrap, topic, plain(40))
    copied, new, unknown = (TopicPartition(topic, number) for number in range(3))
    remote = cluster_b.create_topic(f"{a}.{topic}", 3)
    write(cluster_b.bootstrap, remote, [Outgoing(key=b"k", value=b"v", partition=2)])
    segment = Segment(
        topic_partition=copied,
        sequence=0,
        era=0,
        topic_ids=TopicIds(uuid4(), uuid4()),
        before=CopiedUpTo(),
        through=-1,
        ranges=(CopiedRange(0, 0, 25),),
        epochs=(),
    )
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=topic) | {
        f"{a}.consumer.auto.offset.reset": "latest",
        "heartbeats.replication.enabled": "false",
    }
    exact_offsets = cluster_b.create_topic(f"mm2-exact-offsets.{a}.internal", config={"cleanup.policy": "compact"})
    write(cluster_b.bootstrap, exact_offsets, [Outgoing(key=segment.key(), value=segment.value())])
    async with leading(properties, "first") as leader:
        await leader.plan(copied, new, unknown)
        assert await leader.starts(copied, new, unknown) == [None, 0, None], "the map does not know the last one"
