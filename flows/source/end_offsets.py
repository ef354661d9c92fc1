"""End offsets of partitions that are not being fetched, which other partitions learn from their fetch responses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from flows.partition.replicator import PartitionReplicator
from flows.source.topic_id_checker import TopicIdChecker
from mm2.core.settings.client import IsolationLevel
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterClosed, ClusterError

REFRESH_INTERVAL_S = 1.0
"""How old the end offset of a partition may become while the target delays its copies."""


class EndOffsets:
    """Lists the end offsets of partitions that wait for the target, or for the end of a pause after an error.

    Without that, their lag would not grow with the source, and what is left to copy when their topic is deleted would
    be unknown. ListOffsets names topics, so the topic ids are checked after it: the offsets of a recreated topic are
    not those of the partition.
    """

    def __init__(
        self,
        cluster: Cluster,
        isolation: IsolationLevel,
        partitions: Collection[PartitionReplicator],
        topic_ids: TopicIdChecker,
    ) -> None:
        """``partitions``: those of the source task, which may change."""
        self._cluster = cluster
        self._isolation = isolation
        self._partitions = partitions
        self._topic_ids = topic_ids

    async def run(self) -> None:
        """Refresh the end offsets until cancelled."""
        while True:
            await asyncio.sleep(REFRESH_INTERVAL_S)
            waiting = {one.source: one for one in self._partitions if one.end_offset >= 0 and not one.is_fetched}
            if waiting:
                await self._refresh(waiting.values())

    async def _refresh(self, partitions: Collection[PartitionReplicator]) -> None:
        sources = [one.source for one in partitions]
        try:
            ends = await list_offsets(
                self._cluster, sources, OffsetSpec.LATEST, isolation=self._isolation, timeout_ms=0
            )
            await self._cluster.refresh({one.topic for one in sources})
        except ClusterClosed:
            raise
        except ClusterError:
            return  # whatever is wrong with the source, fetching reports it
        now = time.monotonic()
        for partition in partitions:
            end = ends[partition.source]
            if isinstance(end, int) and not partition.is_fetched and self._topic_ids.check_source(partition):
                partition.source_grew(end, now)
