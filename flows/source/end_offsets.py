"""End offsets of partitions about which no fetch response tells; see `PartitionState` (G)."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection

from flows.partition.replicator import PartitionReplicator
from flows.source.topic_id_checker import TopicIdChecker
from flows.source_task.spawn import Spawn
from mm2.core.settings.client import IsolationLevel
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterClosed, ClusterError

REFRESH_INTERVAL_S = 1.0
"""How old the end offset of a partition may become while the target delays its copies."""

UNANSWERED_S = 3.0
"""A partition that should be fetched is listed if no fetch was answered for this long: fetch.max.wait.ms may be long, a
quota may delay the responses, or there may be no room for what they contain. Several times the usual wait, 0.5 s, and
early enough for the answer to arrive before the end offset is out of date (`END_OFFSET_VALID_S`)."""


class EndOffsets:
    """Lists the end offsets of partitions that wait for the target, or for the end of a pause after an error, and of
    those whose fetch requests are not answered.

    Without that, their lag would be unknown, and so would be what is left to copy when their topic is deleted.
    ListOffsets names topics, so the topic ids are checked after it: the offsets of a recreated topic are not those of
    the partition.

    (A) Each broker gets at most one request per `REFRESH_INTERVAL_S`, and none while one is unanswered, so that a
        broker that hangs does not delay the others.
    """

    def __init__(
        self,
        cluster: Cluster,
        isolation: IsolationLevel,
        partitions: Collection[PartitionReplicator],
        topic_ids: TopicIdChecker,
        spawn: Spawn,
    ) -> None:
        """``partitions``: those of the source task, which may change."""
        self._cluster = cluster
        self._isolation = isolation
        self._partitions = partitions
        self._topic_ids = topic_ids
        self._spawn = spawn
        self._asked: set[int | None] = set()  # the brokers that have not answered; None: metadata

    async def run(self) -> None:
        """Refresh the end offsets until cancelled."""
        while True:
            await asyncio.sleep(REFRESH_INTERVAL_S)
            now = time.monotonic()
            due: defaultdict[int | None, list[PartitionReplicator]] = defaultdict(list)
            for one in self._partitions:
                if _is_due(one, now):
                    leader = self._cluster.cached_leader(one.source)
                    due[None if leader is None else leader.node_id].append(one)
            for broker, partitions in due.items():
                if broker not in self._asked:
                    self._asked.add(broker)
                    self._spawn(self._ask(broker, partitions))

    async def _ask(self, broker: int | None, partitions: Collection[PartitionReplicator]) -> None:
        """Ask the leader of these partitions, or if it is unknown, look it up, so that it is asked next time."""
        try:
            if broker is None:
                await self._cluster.refresh({one.source.topic for one in partitions})
            else:
                await self._refresh(partitions)
        except ClusterClosed:
            raise
        except ClusterError:
            pass  # whatever is wrong with the source, fetching reports it
        finally:
            self._asked.discard(broker)

    async def _refresh(self, partitions: Collection[PartitionReplicator]) -> None:
        sources = [one.source for one in partitions]
        ends = await list_offsets(self._cluster, sources, OffsetSpec.LATEST, isolation=self._isolation, timeout_ms=0)
        await self._cluster.refresh({one.topic for one in sources})
        now = time.monotonic()
        for partition in partitions:
            end = ends[partition.source]
            if isinstance(end, int) and _is_due(partition, now) and self._topic_ids.check_source(partition):
                partition.source_grew(end, now)


def _is_due(partition: PartitionReplicator, now: float) -> bool:
    if partition.end_offset < 0:
        return False
    return not partition.is_fetched or now - partition.end_observed_at >= UNANSWERED_S
