"""Detection of new leaders for remote partitions that cannot be written to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from flows.partition.replicator import PartitionReplicator
from flows.source_task.spawn import Spawn
from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.metadata import PartitionLeader
from mm2.kafka.errors import ClusterClosed, ClusterError


@dataclass(slots=True)
class _Failure:
    """``node_id``: the leader that failed; None: there was none. ``leader``: by the newest metadata since then."""

    node_id: int | None
    leader: PartitionLeader | None = None
    looked_up: bool = False


class FailedLeaders:
    """Partitions whose leader failed, and whether metadata names a leader that was elected since. Without I/O.

    (A) A partition stays until a new leader is named or an attempt succeeds, also while requests that were in flight
        with the failed one are not answered.
    (B) The named leader may not know yet that it leads: if it fails, too, `RetryState` repeats the attempt after the
        ordinary backoff, since metadata does not change when the leader is ready.
    """

    def __init__(self) -> None:
        self._failures: dict[PartitionReplicator, _Failure] = {}

    def add(self, partition: PartitionReplicator, node_id: int | None) -> None:
        """A request to leader ``node_id`` failed; None: the partition has no leader."""
        failure = self._failures.setdefault(partition, _Failure(node_id))
        failure.node_id = node_id

    def remove(self, partition: PartitionReplicator) -> None:
        """The partition has left the source task."""
        self._failures.pop(partition, None)

    def waiting(self) -> list[PartitionReplicator]:
        """Return the partitions that wait for a leader; those that were written to since are forgotten."""
        self._failures = {one: failure for one, failure in self._failures.items() if one.awaits_retry}
        return list(self._failures)

    def looked_up(
        self, partitions: list[PartitionReplicator], leader_of: Callable[[TopicPartition], PartitionLeader | None]
    ) -> None:
        """End the pauses of those that have a new leader. ``leader_of`` a target partition, by new metadata; None: it
        has none, or no broker answered."""
        for partition in partitions:
            failure = self._failures.get(partition)
            if failure is None:
                continue
            leader = leader_of(partition.target)
            if leader is not None and self._is_new(leader, failure):
                del self._failures[partition]
                partition.leader_changed(time.monotonic())
            else:
                failure.leader, failure.looked_up = leader, True

    def _is_new(self, leader: PartitionLeader, failure: _Failure) -> bool:
        """Return whether the leader was elected after the failure. An elected leader can be the former one."""
        return leader.node_id != failure.node_id or (failure.looked_up and leader != failure.leader)


class LeaderWatch:
    """Ends the pause of a partition whose leader failed as soon as the partition has another leader.

    A partition whose leader has failed for longer pauses longer (`RetryState.fetch_delay`). Without this class it would
    notice only after its pause that the controller has replaced the leader, seconds after other producers.

    While a partition waits, the metadata of its topic is requested every retry.backoff.max.ms, as Java's producer does
    (Sender and Metadata.requestUpdate).
    """

    def __init__(self, cluster: Cluster, spawn: Spawn) -> None:
        self._cluster = cluster
        self._spawn = spawn
        self._failed = FailedLeaders()
        self._running = False

    def add(self, partition: PartitionReplicator, node_id: int | None) -> None:
        """A request to leader ``node_id`` failed; None: the partition has no leader."""
        self._failed.add(partition, node_id)
        if not self._running:
            self._running = True
            self._spawn(self._run())

    def remove(self, partition: PartitionReplicator) -> None:
        """The partition has left the source task."""
        self._failed.remove(partition)

    async def _run(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._cluster.settings.retry_backoff_max_ms / 1000)
                if not (partitions := self._failed.waiting()):
                    return
                await self._look_up(partitions)
        finally:
            self._running = False

    async def _look_up(self, partitions: list[PartitionReplicator]) -> None:
        try:
            await self._cluster.refresh({partition.target.topic for partition in partitions})
        except ClusterClosed:
            raise
        except ClusterError:  # no broker answers: the partitions' own attempts report it
            self._failed.looked_up(partitions, lambda _: None)
        else:
            self._failed.looked_up(partitions, self._cluster.cached_leader)
