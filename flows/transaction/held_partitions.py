"""Partitions that stay out of transactions for a while: they were late, or a loss is not recorded yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from flows.partition.replicator import PartitionReplicator
from flows.source_task.spawn import Spawn
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError

PATIENCE_S = 1.0
"""How long a transaction that is due waits for a partition, and with it all other partitions."""

MOST_DOUBLINGS = 3
"""A target that is only slow would never catch up if every transaction was aborted: the patience doubles each time."""

LOSS_CHECK_S = 0.5
"""How often a partition is checked that waits until a loss is recorded."""

_FIRST_MS, _MAX_MS = 1_000, 30_000  # how long a partition is held
_ANSWER_S = 1.0  # for the broker to answer at all


class HeldPartitions:
    """A late partition returns after a pause, as soon as its leader answers a request for its end offset."""

    def __init__(self, cluster: Cluster, spawn: Spawn, *, released: Callable[[PartitionReplicator], None]) -> None:
        self._cluster = cluster
        self._spawn = spawn
        self._released = released
        self._held: set[PartitionReplicator] = set()
        self._late: dict[PartitionReplicator, Backoff] = {}

    def holds(self, partition: PartitionReplicator) -> bool:
        """Return whether the partition has to stay out of transactions now."""
        return partition in self._held

    def patience(self, partitions: Collection[PartitionReplicator]) -> float:
        """Return how many seconds to wait for these partitions: for the one with the least."""
        failures = min(self._late[one].failures if one in self._late else 0 for one in partitions)
        return PATIENCE_S * float(2 ** min(failures, MOST_DOUBLINGS))

    def committed(self, partitions: Collection[PartitionReplicator]) -> None:
        """Records of these partitions were committed."""
        for partition in partitions:
            self._late.pop(partition, None)

    def hold_while(self, partition: PartitionReplicator, condition: Callable[[PartitionReplicator], bool]) -> None:
        """Keep a partition out while ``condition`` is true."""
        if partition not in self._held:
            self._held.add(partition)
            self._spawn(self._wait(partition, condition))

    async def _wait(self, partition: PartitionReplicator, condition: Callable[[PartitionReplicator], bool]) -> None:
        while True:
            await asyncio.sleep(LOSS_CHECK_S)
            if not condition(partition):
                break
        self._held.discard(partition)
        self._released(partition)

    def hold(self, partition: PartitionReplicator) -> None:
        """Keep a partition out that was late."""
        if partition not in self._held:
            self._held.add(partition)
            pause = self._late.setdefault(partition, Backoff(_FIRST_MS, _MAX_MS)).next()
            self._spawn(self._hold(partition, pause))

    async def _hold(self, partition: PartitionReplicator, pause: float) -> None:
        while not partition.is_draining:
            await asyncio.sleep(pause)
            if await self._answers(partition):
                break
        self._held.discard(partition)
        self._released(partition)

    async def _answers(self, partition: PartitionReplicator) -> bool:
        try:
            async with asyncio.timeout(_ANSWER_S):
                answers = await list_offsets(self._cluster, {partition.target}, OffsetSpec.LATEST, timeout_ms=0)
        except ClusterClosed:
            raise
        except (ClusterError, TimeoutError) as error:
            why = str(error) or f"no answer within {_ANSWER_S:.0f} s"
            partition.target_unavailable(f"cannot copy {partition.source} to {partition.target}: {why}", prolonged=True)
            return False
        return not isinstance(answers[partition.target], BrokerError)
