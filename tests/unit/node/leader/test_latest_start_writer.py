"""Starts under latest while the exact offset map cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.naming.names import TopicPartition
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.errors import RequestTimedOut
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.leader.latest_start_writer import LatestStartWriter
from mm2.node.leader.remote_topics import Discovery
from mm2.node.source.newest_segments import NewestSegments
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.status.progress import ReplicatedTopic
from mm2.node.store.config_store import ConfigStore
from tests.lab.tasks import unconnected_cluster
from tests.unit.config import files

ORDERS = TopicPartition("orders", 0)


class NoOffsets(StoredSourceOffsets):
    """An offsets topic without records, without a cluster."""

    async def refresh(self, *, timeout_ms: int = 0) -> None:
        """There is nothing to read."""

    async def store(self, producer: ControlProducer, positions: Mapping[TopicPartition, int]) -> None:
        raise AssertionError(f"nothing is known of {sorted(positions)}")


class UnreadSegments(NewestSegments):
    """A map whose brokers do not respond."""

    async def refresh(self) -> None:
        self.error.report("cannot read", RequestTimedOut("read mm2-exact-offsets.A.internal"))


async def test_an_assigned_partition_waits_for_the_exact_offset_map(tmp_path: Path) -> None:
    """Otherwise it would start at its end, and what was written since its offset was lost would be left out."""
    settings, cluster = files.flow(tmp_path, "A.consumer.auto.offset.reset = latest\n"), unconnected_cluster()
    configs = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
    configs.source_tasks.records[0] = SourceTaskRecord(
        source_task=0, epoch=1, version=1, partitions=frozenset({ORDERS})
    )

    async def put(records: Sequence[tuple[bytes, bytes]]) -> None:
        raise AssertionError(f"{records} depend on starts that are unknown")

    writer = LatestStartWriter(
        settings,
        source=cluster,
        configs=configs,
        segments=UnreadSegments(settings, ClusterAdmin(cluster)),
        stored=NoOffsets(cluster, "offsets", settings.flow, source_alias="A", partitions=1),
        producer=ControlProducer(cluster),
        put=put,
    )
    topic = ReplicatedTopic(topic="orders", remote_topic="A.orders", partitions=1)
    with pytest.raises(RequestTimedOut):
        await writer.decide(Discovery(topics=(topic,), partitions=(ORDERS,)))
