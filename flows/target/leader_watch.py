"""Detection of new leaders for remote partitions that cannot be written to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from flows.partition.replicator import PartitionReplicator
from flows.source_task.spawn import Spawn
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.metadata import PartitionLeader
from mm2.kafka.errors import ClusterClosed, ClusterError


@dataclass(slots=True)
class _Failure:
    """``node_id``: the leader that failed; None: there was none. ``leader``: by the newest metadata since then."""

    node_id: int | None
    leader: PartitionLeader | None = None
    looked_up: bool = False


class LeaderWatch:
    """Ends the pause of a partition whose leader failed as soon as the partition has another leader.

    A partition that has failed for longer pauses longer (`RetryState.fetch_delay`). Without this class it would notice
    only after its pause that the controller has replaced the leader, seconds after other producers.

    While a partition waits, the metadata of its topic is requested every retry.backoff.max.ms, as Java's producer does
    (Sender and Metadata.requestUpdate).
    """

    def __init__(self, cluster: Cluster, spawn: Spawn) -> None:
        self._cluster = cluster
        self._spawn = spawn
        self._failures: dict[PartitionReplicator, _Failure] = {}
        self._running = False

    def add(self, partition: PartitionReplicator, node_id: int | None) -> None:
        """A request to leader ``node_id`` failed; None: the partition has no leader."""
        failure = self._failures.setdefault(partition, _Failure(node_id))
        failure.node_id = node_id
        if not self._running:
            self._running = True
            self._spawn(self._run())

    def remove(self, partition: PartitionReplicator) -> None:
        """The partition has left the source task."""
        self._failures.pop(partition, None)

    async def _run(self) -> None:
        try:
            while self._failures:
                await asyncio.sleep(self._cluster.settings.retry_backoff_max_ms / 1000)
                self._failures = {one: failure for one, failure in self._failures.items() if one.is_retrying}
                if self._failures:
                    await self._look_up()
        finally:
            self._running = False

    async def _look_up(self) -> None:
        failures = dict(self._failures)
        try:
            await self._cluster.refresh({partition.target.topic for partition in failures})
        except ClusterClosed:
            raise
        except ClusterError:  # no broker answers: the partitions' own attempts report it
            for failure in failures.values():
                failure.leader, failure.looked_up = None, True
            return
        for partition, failure in failures.items():
            leader = self._cluster.cached_leader(partition.target)
            if leader is not None and self._is_new(leader, failure):
                self._failures.pop(partition, None)
                partition.leader_changed()
            else:
                failure.leader, failure.looked_up = leader, True

    def _is_new(self, leader: PartitionLeader, failure: _Failure) -> bool:
        """Return whether the leader was elected after the failure. An elected leader can be the former one."""
        return leader.node_id != failure.node_id or (failure.looked_up and leader != failure.leader)
