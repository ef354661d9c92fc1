"""Starts under ``latest`` while the exact offset map cannot be read. tests/integration/node has the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from mm2.core.coordination import latest_starts
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.errors import RequestTimedOut
from mm2.node.leader.remote_topics import Discovery
from mm2.node.leader.starts.latest_start_writer import LatestStartWriter
from mm2.node.source.newest_segments import NewestSegment, NewestSegments
from mm2.node.source.remote_copies import RemoteCopies
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.status.progress import ReplicatedTopic
from mm2.node.store.config_store import ConfigStore
from tests.lab.tasks import unconnected_cluster
from tests.unit.config.files import flow

ORDERS = TopicPartition("orders", 0)
FOUND = Discovery(
    topics=(ReplicatedTopic(topic="orders", remote_topic="A.orders", partitions=1),), partitions=(ORDERS,)
)
COPIED = NewestSegment(0, TopicIds(uuid4(), uuid4()), b"", b"", 25, ())


class NoOffsets(StoredSourceOffsets):
    async def refresh(self, **_: Any) -> None:
        pass


class Configs(ConfigStore):
    async def catch_up(self, **_: Any) -> None:
        pass


class Segments(NewestSegments):
    failing = True

    async def refresh(self) -> None:
        if self.failing:
            self.error.report("cannot read", RequestTimedOut("no answer"))
        else:
            self.error.clear()

    def of(self, partition: TopicPartition) -> NewestSegment | None:
        return None if self.failing else COPIED


async def test_a_partition_waits_while_the_exact_offset_map_cannot_be_read(tmp_path: Path) -> None:
    """It may know copies of the partition. Its end would leave out what was written since."""
    settings, cluster = flow(tmp_path, "A.consumer.auto.offset.reset = latest\n"), unconnected_cluster()
    segments = Segments(settings, ClusterAdmin(cluster))
    written: list[tuple[bytes, TopicPartition | None]] = []

    async def put(records: Sequence[tuple[bytes, bytes | None]], to: TopicPartition | None) -> None:
        written.extend((key, to) for key, _ in records)

    starts = LatestStartWriter(
        settings,
        source=cluster,
        configs=Configs(settings, cluster, on_change=lambda: None, on_command=lambda _: None),
        segments=segments,
        copies=RemoteCopies(settings, cluster),
        stored=NoOffsets(cluster, "offsets", settings.flow, source_alias="A", partitions=1),
        put=put,
    )
    waiting = await starts.decide(FOUND)
    assert (waiting.partitions, waiting.topics[0].error) == ((), "cannot read where orders-0 starts: no answer")
    assert written == [], "not that the ends of these topics are stored, either"
    segments.failing = False
    assert await starts.decide(FOUND) == FOUND
    assert written == [(latest_starts.KEY, None)]
