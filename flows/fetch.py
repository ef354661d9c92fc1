"""The source's side of a slot: which partition is fetched from which broker, and from which offset on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from flows.broker_fetch import BrokerFetch
from flows.budget import ByteBudget
from flows.copy import PartitionCopy
from flows.identity import Identities
from flows.starts import out_of_range, without_offset
from flows.surroundings import Spawn
from mm2.core.client_settings import FetchSettings, OffsetReset
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.offsets import OffsetSpec, list_offsets


class Fetching:
    """Brings each partition to the broker to fetch it from, and gives it a first offset.

    ``changed`` is to be called whenever a partition's wishes change.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: FetchSettings,
        budget: ByteBudget,
        spawn: Spawn,
        identities: Identities,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._budget = budget
        self._spawn = spawn
        self._identities = identities
        self._brokers: dict[int, BrokerFetch] = {}
        self._homes: dict[PartitionCopy, BrokerFetch] = {}
        self._replicas: dict[PartitionCopy, int] = {}
        self._homeless: set[PartitionCopy] = set()
        self._routing = False
        self._starting: set[PartitionCopy] = set()
        self._start_due = False

    def changed(self, copy: PartitionCopy) -> None:
        """A partition is new, wants to be fetched from elsewhere in it, or not at all."""
        if copy.inlet.needs_start:
            self._start(copy)
            return
        home = self._homes.get(copy)
        if home is not None:
            home.touch(copy)
        elif copy.inlet.wanted is not None:
            self._homeless.add(copy)
            if not self._routing:
                self._routing = True
                self._spawn(self._route())

    def remove(self, copy: PartitionCopy) -> None:
        """The partition is not this slot's any more."""
        self._homeless.discard(copy)
        self._replicas.pop(copy, None)
        self.move_out(copy)

    async def refresh(self) -> None:
        """Look up all leaders anew and forget preferred replicas, once a metadata.max.age.ms. Raises ClusterError."""
        await self._cluster.refresh({copy.source.topic for copy in self._homes})
        self._replicas.clear()
        for copy in list(self._homes):
            self.check_home(copy)

    # -- for the brokers' loops

    def move_out(self, copy: PartitionCopy) -> None:
        """Fetch it from its present broker no more; the next ``changed`` finds it another one."""
        home = self._homes.pop(copy, None)
        if home is not None:
            home.drop(copy)

    def check_home(self, copy: PartitionCopy) -> None:
        """Move it if another broker leads it, as far as we know."""
        leader = self._cluster.cached_leader(copy.source)
        home = self._homes.get(copy)
        wanted = self._replicas.get(copy, leader.node_id if leader is not None else None)
        if home is not None and wanted is not None and wanted != home.node_id:
            self.move_out(copy)
            self.changed(copy)

    def to_replica(self, copy: PartitionCopy, node_id: int) -> None:
        """The leader says: fetch it from there (KIP-392)."""
        self._replicas[copy] = node_id
        self.check_home(copy)

    def leave_replica(self, copy: PartitionCopy) -> bool:
        """Back to the leader, if it was fetched from elsewhere; whether it was."""
        if self._replicas.pop(copy, None) is None:
            return False
        self.move_out(copy)
        self.changed(copy)
        return True

    def find_again(self, copy: PartitionCopy, words: str) -> None:
        """Its broker does not lead it any more."""
        self._replicas.pop(copy, None)
        self._cluster.forget(copy.source)
        self.move_out(copy)
        copy.fetch_troubled(words, time.monotonic())

    def out_of_range(self, copy: PartitionCopy) -> None:
        """The source does not have the offset asked for."""
        if not self.leave_replica(copy):
            self.move_out(copy)
            self._start(copy)

    # -- inside

    async def _route(self) -> None:
        try:
            while self._homeless:
                homeless, self._homeless = self._homeless, set()
                await self._find_homes(homeless)
        finally:
            self._routing = False

    async def _find_homes(self, copies: set[PartitionCopy]) -> None:
        try:
            leaders = await self._cluster.leaders([copy.source for copy in copies])
        except ClusterError as error:
            self._unfound(copies, error)
            return
        for copy in copies:
            leader = leaders[copy.source]
            if copy in self._homes or copy.inlet.wanted is None or not self._identities.same_source(copy):
                continue
            if not isinstance(leader, ClusterError):
                self._move_in(copy, self._replicas.get(copy, leader.node_id))
            else:
                self._unfound({copy}, leader)

    def _unfound(self, copies: Iterable[PartitionCopy], error: ClusterError) -> None:
        now = time.monotonic()
        for copy in copies:
            words = f"fetch {copy.source}: {error}"
            if error.retriable:
                copy.fetch_troubled(words, now)
            else:
                copy.fetch_failed(words, now)

    def _move_in(self, copy: PartitionCopy, node_id: int) -> None:
        broker = self._brokers.get(node_id)
        if broker is None:
            broker = self._brokers[node_id] = BrokerFetch(node_id, self, self._cluster, self._settings, self._budget)
            self._spawn(broker.run())
        self._homes[copy] = broker
        broker.touch(copy)

    def _start(self, copy: PartitionCopy) -> None:
        self._starting.add(copy)
        if not self._start_due:
            self._start_due = True
            self._spawn(self._find_starts())

    async def _find_starts(self) -> None:
        await asyncio.sleep(0)  # whoever else begins now comes along
        self._start_due = False
        copies, self._starting = self._starting, set()
        copies = await self._of_the_same_topic(copies)
        partitions = [copy.source for copy in copies]
        isolation = self._settings.isolation_level
        earliest = await list_offsets(self._cluster, partitions, OffsetSpec.EARLIEST, timeout_ms=0)
        latest = await list_offsets(self._cluster, partitions, OffsetSpec.LATEST, isolation=isolation, timeout_ms=0)
        now = time.monotonic()
        policy = self._settings.auto_offset_reset
        for copy in copies:
            first, last = earliest[copy.source], latest[copy.source]
            if isinstance(first, ClusterError):
                self._cluster.forget(copy.source)
                self._unfound({copy}, first)
            elif isinstance(last, ClusterError):
                self._cluster.forget(copy.source)
                self._unfound({copy}, last)
            elif copy.inlet.offset is None:
                copy.start_at(without_offset(policy, earliest=first, latest=last), now)
            else:
                reset = OffsetReset.EARLIEST if copy.of_new_topic and copy.headway.position == 0 else policy
                copy.start_at(out_of_range(reset, copy.inlet.offset, earliest=first, latest=last), now)

    async def _of_the_same_topic(self, copies: set[PartitionCopy]) -> set[PartitionCopy]:
        """Those whose topic is still the one they copied: of another one an offset means nothing."""
        lost = {copy for copy in copies if copy.inlet.offset is not None}
        if lost:
            try:
                await self._cluster.refresh({copy.source.topic for copy in lost})
            except ClusterError as error:
                self._unfound(lost, error)
                return copies - lost
        return copies - {copy for copy in lost if not self._identities.same_source(copy)}
