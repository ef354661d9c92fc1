"""The source task as the leader runs it: discover, spread partitions over slots, keep the slots' leases right.

The copying itself happens in the lanes; this decides what they copy and reads how far they are.
"""

from __future__ import annotations

import asyncio
import logging

from mm2.config.settings import FlowSettings
from mm2.core.assignment import spread
from mm2.core.lease import SlotLease, TaskState
from mm2.core.names import TopicPartition
from mm2.core.replication_filter import ReplicationFilter
from mm2.kafka.admin import ClusterAdmin
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.node.desk import Desk
from mm2.node.discovery import TopicDiscovery
from mm2.node.progress import FlowProgress
from mm2.node.published import TaskStatus, TopicStatus
from mm2.node.remote_topics import Discovery
from mm2.node.slot_leases import SlotLeases
from mm2.node.slots import SlotTable
from mm2.node.source_offsets import SourceOffsets
from mm2.node.topic_syncs import TopicSyncs

log = logging.getLogger(__name__)

RESTART_SLOT_S = 30.0
"""A slot that failed as a whole shows why for this long and is tried again: long enough to be seen, and to not burn CPU
on something that stays broken."""

SETTLE_EVERY_S = 1.0
"""Lanes report once a second; their reports also wake this task at once."""


class SourceTask:
    """Runs under one leadership (``epoch``) from start to close. ``trouble`` keeps it from going on."""

    def __init__(  # the pieces of one leadership; the flow owns the clusters
        self,
        settings: FlowSettings,
        *,
        epoch: int,
        desk: Desk,
        source: Cluster,
        target: Cluster,
        offsets: SourceOffsets,
        progress: FlowProgress,
        node_id: str,
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._epoch = epoch
        self._desk = desk
        self._source = source
        self._target = target
        self._progress = progress
        self._node_id = node_id
        chosen = ReplicationFilter(
            flow=settings.flow,
            policy=settings.policy,
            selects=settings.topic_filter,
            replicate_heartbeats=settings.source.heartbeats_replication_enabled,
        )
        admin: ClusterAdmin = settings.admin_class(target)
        self._discovery = TopicDiscovery(settings, settings.admin_class(source), admin, chosen)
        self._syncs = TopicSyncs(settings, source, admin, self._discovery, chosen)
        self._leases = SlotLeases(settings, admin, offsets, epoch=epoch)
        self._assignment: dict[TopicPartition, int] = {}
        self._spread_evenly: tuple[TopicPartition, ...] | None = None
        self._table = SlotTable()
        self._granted: dict[int, frozenset[TopicPartition]] = {}
        self._restarts: dict[int, int] = {}
        self._failed_at: dict[int, float] = {}
        self._made_anew: set[str] = set()  # topics that lanes have not been told of
        self._draining = False
        self._lane_warnings: list[str] = []
        self._granting: str | None = None

    async def run(self) -> None:
        """Discover, sync and settle until cancelled."""
        self._desk.register(self._flow, self._fresh_lease)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._discovery.run(self._take), name=f"{self._flow} discover")
            group.create_task(self._syncs.run(), name=f"{self._flow} topic syncs")
            group.create_task(self._keep_settled(), name=f"{self._flow} settle")

    def drain(self) -> None:
        """Change nothing any more: the node is being drained."""
        self._draining = True

    def close(self) -> None:
        """Take all slots from the lanes."""
        for slot in self._granted:
            self._desk.remove((self._flow, slot))
        self._granted.clear()

    @property
    def trouble(self) -> str | None:
        """What keeps the task as a whole from its work, None when nothing does."""
        return self._discovery.trouble or self._granting

    @property
    def warnings(self) -> list[str]:
        """What a person should know though the task runs."""
        return list(dict.fromkeys(self._lane_warnings + self._leases.warnings)) + self._syncs.warnings

    def _warn(self, before: str | None, sentence: str) -> str:
        if sentence != before:
            log.warning("%s: %s", self._flow, sentence)
        return sentence

    async def _take(self, discovery: Discovery) -> None:
        """Spread over slots what was found, unless that changes nothing any more."""
        self._made_anew |= self._leases.discovered(discovery)
        if discovery.partitions == self._spread_evenly:
            return
        slots = await asyncio.to_thread(  # a tenth of a second for 10,000 partitions: too long for leases to wait
            spread, discovery.partitions, tasks_max=self._settings.source.tasks_max, previous=self._assignment
        )
        assignment = {partition: slot for slot, partitions in enumerate(slots) for partition in partitions}
        self._spread_evenly = discovery.partitions if assignment == self._assignment else None
        self._assignment = assignment
        self._table.assign(dict(enumerate(slots)))
        self._desk.wake()

    # -- leases

    async def _keep_settled(self) -> None:
        while True:
            self._listen()
            if not self._draining:
                try:
                    await self._restart_failed(asyncio.get_running_loop().time())
                    await self._grant()
                except ClusterError as error:
                    self._granting = self._warn(self._granting, f"read source offsets: {error}")
                    await asyncio.sleep(SETTLE_EVERY_S)
                else:
                    self._granting = None
            await self._desk.changed(SETTLE_EVERY_S)

    def _listen(self) -> None:
        """Take the lanes' newest word."""
        for slot in self._granted:
            report = self._desk.board.progress((self._flow, slot))
            if report is None:
                continue
            self._progress.take(report.session, report.slot)
            for warning in report.slot.warnings:
                if warning not in self._lane_warnings:
                    log.warning("%s: %s", self._flow, warning)
                    self._lane_warnings.append(warning)
            if report.current:
                running = [p for p in report.slot.partitions if p.state is not TaskState.STOPPED]
                self._table.heard(slot, [TopicPartition(p.topic, p.partition) for p in running])

    async def _restart_failed(self, now: float) -> None:
        """Give a slot that failed as a whole another life, from what is stored."""
        for slot in self._granted:
            report = self._desk.board.progress((self._flow, slot))
            if report is None or not report.current or report.slot.state is not TaskState.FAILED:
                continue
            if now - self._failed_at.setdefault(slot, now) >= RESTART_SLOT_S:
                del self._failed_at[slot]
                self._restarts[slot] = self._restarts.get(slot, 0) + 1
                log.warning("%s: slot %d is started again: it had failed: %s", self._flow, slot, report.slot.error)
                await self._leases.refresh()
                self._desk.put(self._lease(slot))

    async def _grant(self) -> None:
        grants = self._table.grants()
        changed = {slot: parts for slot, parts in grants.items() if parts != self._granted.get(slot, frozenset())}
        if self._made_anew:  # the lanes that copy these are told, and look for themselves
            changed |= {s: parts for s, parts in grants.items() if any(one.topic in self._made_anew for one in parts)}
        if not changed:
            return
        await self._leases.refresh()
        self._made_anew.clear()
        for slot, partitions in changed.items():
            self._granted[slot] = partitions
            self._desk.put(self._lease(slot))
        for slot in [slot for slot, parts in grants.items() if not parts and not self._table.holds(slot)]:
            self._granted.pop(slot, None)
            self._desk.remove((self._flow, slot))

    async def _fresh_lease(self, slot: int) -> SlotLease | None:
        """The lease of a slot whose lane begins (again): what it was granted, from what is stored now."""
        if slot not in self._granted:
            return None
        await self._leases.refresh()
        return self._lease(slot) if slot in self._granted else None

    def _lease(self, slot: int) -> SlotLease:
        return self._leases.lease(slot, self._granted[slot], restart=self._restarts.get(slot, 0), drain=self._draining)

    # -- what is shown

    def topics(self) -> tuple[TopicStatus, ...]:
        """Every replicated topic with its partitions."""
        discovery = self._discovery.latest
        if discovery is None:
            return ()
        states: dict[TopicPartition, tuple[TaskState, str | None]] = {}
        for slot in self._granted:
            report = self._desk.board.progress((self._flow, slot))
            for p in report.slot.partitions if report else ():
                key = TopicPartition(p.topic, p.partition)
                if p.state is not TaskState.STOPPED or key not in states:  # another slot may run it by now
                    states[key] = (p.state, p.error)
        return self._progress.topics(discovery.topics, states)

    def tasks(self) -> tuple[TaskStatus, ...]:
        """One source task a slot."""
        return tuple(self._task(slot) for slot in sorted(self._granted))

    def _task(self, slot: int) -> TaskStatus:
        report = self._desk.board.progress((self._flow, slot))
        return TaskStatus(
            id=f"MirrorSourceConnector-{slot}",
            kind="source",
            node=self._node_id,
            state=report.slot.state if report else TaskState.WAITING,
            error=report.slot.error if report else self._desk.board.trouble((self._flow, slot)),
        )
