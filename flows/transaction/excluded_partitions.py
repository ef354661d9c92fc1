"""Partitions that stay out of transactions for a while: they were late, or a loss is not recorded yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from flows.partition.replicator import PartitionReplicator
from flows.source_task.spawn import Spawn
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError

PATIENCE_S = 1.0
"""How long a transaction that is due waits for a partition, and with it all other partitions."""

MOST_DOUBLINGS = 3
"""A target that is only slow would never catch up if every transaction was aborted: the patience doubles each time."""

LOSS_CHECK_S = 0.5
"""How often a partition is checked that waits until a loss is recorded."""

MOST_FAILURES = 5
"""So a partition is held for at most half a minute."""

_ANSWER_S = 1.0  # for the broker to answer at all


class ExcludedPartitions:
    """A late partition returns after a pause, as soon as its leader answers a request for its end offset."""

    def __init__(
        self,
        cluster: Cluster,
        spawn: Spawn,
        *,
        partitions: Collection[PartitionReplicator],
        released: Callable[[PartitionReplicator], None],
    ) -> None:
        """``partitions``: those of the source task at any time. ``released`` is called when one may return."""
        self._cluster = cluster
        self._partitions = partitions
        self._spawn = spawn
        self._released = released
        self._held: set[PartitionReplicator] = set()
        self._late: dict[PartitionReplicator, int] = {}  # how often, less the commits since then

    def holds(self, partition: PartitionReplicator) -> bool:
        """Return whether the partition has to stay out of transactions now."""
        return partition in self._held

    def patience(self, partition: PartitionReplicator) -> float:
        """Return how many seconds to wait for the partition after its last acknowledgement."""
        return PATIENCE_S * float(2 ** min(self._late.get(partition, 0), MOST_DOUBLINGS))

    def committed(self, joined: Collection[PartitionReplicator]) -> None:
        """A transaction with these partitions was committed."""
        for partition in [one for one in self._late if one in joined or one not in self._partitions]:
            self._late[partition] -= 1
            if self._late[partition] <= 0 or partition not in self._partitions:
                del self._late[partition]

    def hold_while(self, partition: PartitionReplicator, condition: Callable[[PartitionReplicator], bool]) -> None:
        """Keep a partition out while ``condition`` is true."""
        if partition not in self._held:
            self._held.add(partition)
            self._spawn(self._wait(partition, condition))

    async def _wait(self, partition: PartitionReplicator, condition: Callable[[PartitionReplicator], bool]) -> None:
        while True:
            await asyncio.sleep(LOSS_CHECK_S)
            if not condition(partition) or partition not in self._partitions:
                break
        self._held.discard(partition)
        self._released(partition)

    def hold(self, partition: PartitionReplicator, reason: str) -> None:
        """Keep a partition out that was late, for ``reason``."""
        failures = self._late.get(partition, 0)
        self._late[partition] = min(failures + 2, MOST_FAILURES)  # a commit in between takes one back
        partition.target_unavailable(f"cannot copy {partition.source}: {reason}", prolonged=failures > 0)
        if partition not in self._held:
            self._held.add(partition)
            self._spawn(self._hold(partition, PATIENCE_S * 2.0 ** min(failures, MOST_FAILURES)))

    async def _hold(self, partition: PartitionReplicator, pause: float) -> None:
        while not partition.is_draining and partition in self._partitions:
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
