"""Fetching for one source task: assignment of partitions to brokers, and start offsets."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping

from flows.lane.byte_budget import ByteBudget
from flows.partition.replicator import PartitionReplicator
from flows.partition.timeouts import TIMEOUTS, Timeouts
from flows.source.broker_fetcher import BrokerFetcher
from flows.source.fetch_limit import FetchLimit
from flows.source.topic_id_checker import TopicIdChecker
from flows.source_task.spawn import Spawn
from mm2.core.lanes.bottlenecks import ClusterLook
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.leader_epochs import UNKNOWN_EPOCH, EpochEnd
from mm2.core.settings.client import FetchSettings, OffsetReset
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.epoch_ends import epoch_ends
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError, NotSupported
from mm2.kafka.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)


class Fetcher:
    """Assigns each partition to the broker to fetch it from, and chooses its start offset.

    `update` must be called whenever ``fetch_offset`` or ``needs_start_offset`` of a partition changes.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: FetchSettings,
        budget: ByteBudget,
        spawn: Spawn,
        topic_ids: TopicIdChecker,
        *,
        limit: FetchLimit,
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        self._timeouts = timeouts
        self._cluster = cluster
        self._settings = settings
        self._budget = budget
        self._limit = limit
        self._spawn = spawn
        self._topic_ids = topic_ids
        self._brokers: dict[int, BrokerFetcher] = {}
        self._assigned: dict[PartitionReplicator, BrokerFetcher] = {}
        self._preferred_replicas: dict[PartitionReplicator, int] = {}
        self._checked: dict[PartitionReplicator, int] = {}  # the leader epoch in which its position was checked
        self._unassigned: set[PartitionReplicator] = set()
        self._assigning = False
        self._without_offset: set[PartitionReplicator] = set()
        self._resetting = False

    def update(self, partition: PartitionReplicator) -> None:
        """Handle a partition that is new, or whose fetch offset has changed."""
        if partition.needs_start_offset:
            self._reset_offset(partition)
        elif (broker := self._assigned.get(partition)) is not None:
            broker.update(partition)
        elif partition.fetch_offset is not None:
            self._unassigned.add(partition)
            if not self._assigning:
                self._assigning = True
                self._spawn(self._assign_all())

    def look(self, partition: PartitionReplicator, now: float) -> ClusterLook:
        """Return how the broker is seen now from which the partition is fetched."""
        broker = self._assigned.get(partition)
        return ClusterLook() if broker is None else broker.look(now)

    def remove(self, partition: PartitionReplicator) -> None:
        """The partition has left the source task."""
        self._unassigned.discard(partition)
        self._preferred_replicas.pop(partition, None)
        self._checked.pop(partition, None)
        self._without_offset.discard(partition)
        self._unassign(partition)

    async def refresh(self) -> None:
        """Look up all leaders again and drop preferred replicas, once per metadata.max.age.ms.

        Raises ClusterError.
        """
        await self._cluster.refresh({partition.source.topic for partition in self._assigned})
        self._preferred_replicas.clear()
        for partition in list(self._assigned):
            self._reassign(partition)

    # -- events of the brokers' fetchers

    def _on_error(self, partition: PartitionReplicator, error: BrokerError) -> None:
        now = time.monotonic()
        log.debug("%s: fetch rejected at offset %s: %s", partition.source, partition.fetch_offset, error)
        if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if not self._leave_replica(partition):
                self._unassign(partition)
                self._reset_offset(partition)
        elif error.stale_metadata or error.code in (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE):
            self._preferred_replicas.pop(partition, None)
            self._cluster.forget(partition.source)
            self._unassign(partition)
            partition.fetch_delayed(str(error), now)
        elif error.retriable or error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
            partition.fetch_delayed(str(error), now)
        else:
            partition.fetch_failed(str(error), now)

    def _on_diverged(self, partition: PartitionReplicator, offset: int, end: EpochEnd) -> None:
        if not self._leave_replica(partition):  # a follower may only not have the record yet
            partition.diverged(offset, end, time.monotonic())

    def _is_unchecked(self, partition: PartitionReplicator) -> bool:
        """Return whether the source may have been truncated since the position was checked; it is then checked again.

        Only for brokers before 2.7, which do not check it with every fetch: a truncation needs another leader epoch.
        """
        leader = self._cluster.cached_leader(partition.source)
        if leader is None or self._checked.get(partition) == leader.epoch:
            return False
        if not partition.epochs:
            self._checked[partition] = leader.epoch
            return False
        self._unassign(partition)
        self._reset_offset(partition)
        return True

    def _on_preferred_replica(self, partition: PartitionReplicator, node_id: int) -> None:
        log.debug("%s: fetching from replica %d, which the leader prefers", partition.source, node_id)
        self._preferred_replicas[partition] = node_id
        self._reassign(partition)

    async def _on_broker_failed(self, partitions: list[PartitionReplicator]) -> None:
        """Look up the leaders again, which may have moved to other brokers."""
        try:
            await self._cluster.refresh({partition.source.topic for partition in partitions})
        except ClusterClosed:
            raise
        except ClusterError as error:
            for partition in partitions:
                partition.source_unavailable(str(error))
        for partition in partitions:
            if not self._leave_replica(partition):
                self._reassign(partition)

    # -- assignment to brokers

    def _unassign(self, partition: PartitionReplicator) -> None:
        broker = self._assigned.pop(partition, None)
        if broker is not None:
            broker.remove(partition)

    def _reassign(self, partition: PartitionReplicator) -> None:
        """Move the partition if, by cached metadata, it should be fetched from another broker."""
        leader = self._cluster.cached_leader(partition.source)
        broker = self._assigned.get(partition)
        wanted = self._preferred_replicas.get(partition, leader.node_id if leader is not None else None)
        if broker is not None and wanted is not None and wanted != broker.node_id:
            log.debug("%s: the source's leader moved from broker %d to %d", partition.source, broker.node_id, wanted)
            self._unassign(partition)
            self.update(partition)

    def _leave_replica(self, partition: PartitionReplicator) -> bool:
        """Return to the leader if the partition was fetched from another replica; returns whether it was."""
        if self._preferred_replicas.pop(partition, None) is None:
            return False
        self._unassign(partition)
        self.update(partition)
        return True

    async def _assign_all(self) -> None:
        try:
            while self._unassigned:
                partitions, self._unassigned = self._unassigned, set()
                await self._assign(partitions)
        finally:
            self._assigning = False

    async def _assign(self, partitions: set[PartitionReplicator]) -> None:
        try:
            leaders = await self._cluster.leaders([partition.source for partition in partitions])
        except ClusterError as error:
            self._delay(partitions, error)
            return
        for partition in partitions:
            leader = leaders[partition.source]
            if (
                partition in self._assigned
                or partition.fetch_offset is None
                or not self._topic_ids.check_source(partition)
            ):
                continue
            if isinstance(leader, ClusterError):
                self._delay({partition}, leader)
            else:
                broker = self._broker(self._preferred_replicas.get(partition, leader.node_id))
                args = partition.source, broker.node_id, partition.fetch_offset
                log.debug("%s: fetching from broker %d at offset %d", *args)
                self._assigned[partition] = broker
                broker.update(partition)

    def _broker(self, node_id: int) -> BrokerFetcher:
        broker = self._brokers.get(node_id)
        if broker is None:
            broker = self._brokers[node_id] = BrokerFetcher(
                node_id,
                self._cluster,
                self._settings,
                self._budget,
                limit=self._limit,
                on_error=self._on_error,
                on_diverged=self._on_diverged,
                is_unchecked=self._is_unchecked,
                on_preferred_replica=self._on_preferred_replica,
                on_broker_failed=self._on_broker_failed,
                timeouts=self._timeouts,
            )
            self._spawn(broker.run())
        return broker

    def _delay(self, partitions: Iterable[PartitionReplicator], error: ClusterError) -> None:
        now = time.monotonic()
        for partition in partitions:
            report = partition.fetch_delayed if error.retriable else partition.fetch_failed
            report(f"cannot fetch {partition.source}: {error}", now)

    # -- offsets

    def _reset_offset(self, partition: PartitionReplicator) -> None:
        self._without_offset.add(partition)
        if not self._resetting:
            self._resetting = True
            self._spawn(self._reset_offsets())

    async def _reset_offsets(self) -> None:
        await asyncio.sleep(0)  # collect the partitions that are added in this turn of the event loop
        self._resetting = False
        added, self._without_offset = self._without_offset, set()
        partitions = await self._of_same_topic(added)
        sources = [partition.source for partition in partitions]
        isolation = self._settings.isolation_level
        earliest = await list_offsets(self._cluster, sources, OffsetSpec.EARLIEST, timeout_ms=0)
        latest = await list_offsets(self._cluster, sources, OffsetSpec.LATEST, isolation=isolation, timeout_ms=0)
        begin = await self._first_starts(partitions)
        ends = await epoch_ends(self._cluster, {one.source: one.epochs for one in partitions if one.epochs})
        now = time.monotonic()
        for partition in partitions:
            source = partition.source
            if partition.fetch_offset is None and not partition.needs_start_offset:
                self._checked.pop(partition, None)  # it stopped fetching meanwhile; checked again when it returns
                continue
            leader = self._cluster.cached_leader(source)
            self._checked[partition] = leader.epoch if leader is not None else UNKNOWN_EPOCH
            policy = self._settings.auto_offset_reset
            match earliest[source], latest[source], begin.get(source), ends.get(source):
                case int(first), int(last), None | OffsetReset() | int() as start, NotSupported():
                    partition.reset_offset(policy, first, last, now, first=start)  # a broker before 2.3
                case int(first), int(last), None | OffsetReset() | int() as start, None | EpochEnd() as end:
                    self._continue(partition, first, last, end, now, start=start)
                case answers:
                    error = next(answer for answer in answers if isinstance(answer, ClusterError))
                    del self._checked[partition]
                    self._cluster.forget(partition.source)
                    self._delay({partition}, error)

    def _continue(
        self,
        partition: PartitionReplicator,
        earliest: int,
        latest: int,
        end: EpochEnd | None,
        now: float,
        *,
        start: OffsetReset | int | None,
    ) -> None:
        """Continue at the fetch offset, at the end of the records that the source still has, or at another offset."""
        offset = partition.fetch_offset
        if end is None:
            partition.forget_epochs()
        elif offset is not None and partition.diverged(offset, end, now):
            return
        elif offset is not None and offset > latest:
            partition.fetch_delayed(f"cannot fetch {partition.source}: its leader has not reached offset {offset}", now)
            return
        partition.reset_offset(self._settings.auto_offset_reset, earliest, latest, now, first=start)

    async def _first_starts(
        self, partitions: Iterable[PartitionReplicator]
    ) -> Mapping[TopicPartition, OffsetReset | int | ClusterError]:
        """Return where partitions without a stored offset start by mm2.start; a time becomes an offset."""
        start, isolation = self._settings.start, self._settings.isolation_level
        sources = [partition.source for partition in partitions if partition.position < 0]
        if isinstance(start, int):
            return await list_offsets(self._cluster, sources, start, isolation=isolation, timeout_ms=0)
        return {} if start is None else dict.fromkeys(sources, start)

    async def _of_same_topic(self, partitions: set[PartitionReplicator]) -> set[PartitionReplicator]:
        """Return the partitions whose topic was not recreated: in another topic their offsets have no meaning."""
        positioned = {partition for partition in partitions if partition.position >= 0}
        if positioned:
            try:
                await self._cluster.refresh({partition.source.topic for partition in positioned})
            except ClusterError as error:
                self._delay(positioned, error)
                return partitions - positioned
        return partitions - {partition for partition in positioned if not self._topic_ids.check_source(partition)}
