"""The source task as the leader runs it: discover, spread partitions over slots, keep the slots' leases right.

The copying itself happens in the lanes; this decides what they copy and reads how far they are.
"""

from __future__ import annotations

import asyncio
import logging

from mm2.config.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.assignment import spread
from mm2.core.internal_topics import InternalTopic, Side, offset_syncs
from mm2.core.lease import OffsetsLease, OffsetSyncsLease, PartitionLease, SlotLease, TaskState
from mm2.core.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.internal_topics import ensure_internal_topic
from mm2.node.desk import Desk
from mm2.node.progress import FlowProgress
from mm2.node.published import TaskStatus, TopicStatus
from mm2.node.remote_topics import Discovery, RemoteTopics
from mm2.node.slots import SlotTable
from mm2.node.source_offsets import SourceOffsets

log = logging.getLogger(__name__)

SOON_S = 15.0
"""A topic that could not be created is tried again this often, whatever refresh.topics.interval.seconds says: its cause
(too few brokers, a missing permission) is usually being repaired by somebody who is waiting."""

RESTART_SLOT_S = 30.0
"""A slot that failed as a whole shows why for this long and is tried again: long enough to be seen, and to not burn CPU
on something that stays broken."""

SETTLE_EVERY_S = 1.0
"""Lanes report once a second; their reports also wake this task at once."""


class SourceTask:
    """Runs under one leadership (``epoch``) from start to close. ``trouble`` keeps it from going on; ``warnings`` are
    what a person should know though it runs."""

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
        self._offsets = offsets
        self._progress = progress
        self._node_id = node_id
        self._remote_topics = RemoteTopics(settings, source, target)
        self._discovery: Discovery | None = None
        self._assignment: dict[TopicPartition, int] = {}
        self._table = SlotTable()
        self._granted: dict[int, frozenset[TopicPartition]] = {}
        self._restarts: dict[int, int] = {}
        self._failed_at: dict[int, float] = {}
        self._draining = False
        self.warnings: list[str] = []
        self._discovering: str | None = "looking for topics"  # what is wrong there, None when nothing is
        self._granting: str | None = None

    async def run(self) -> None:
        """Discover and settle until cancelled."""
        self._desk.register(self._flow, self._fresh_lease)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_discovering(), name=f"{self._flow} discover")
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
        return self._discovering or self._granting

    def _warn(self, before: str | None, sentence: str) -> str:
        if sentence != before:
            log.warning("%s: %s", self._flow, sentence)
        return sentence

    # -- discovery

    async def _keep_discovering(self) -> None:
        backoff = Backoff(1_000, 10_000)  # a round costs both clusters a full metadata answer
        await self._ensure_offset_syncs(backoff)
        first = True
        while True:
            try:
                async with asyncio.timeout(self._settings.source.admin_timeout_ms / 1000 * 2):
                    discovery = await self._remote_topics.discover()
            except (ClusterError, TimeoutError) as error:
                words = error or "the clusters did not answer in time (admin.timeout.ms)"
                self._discovering = self._warn(self._discovering, f"discover topics: {words}")
                await asyncio.sleep(backoff.next())
                continue
            backoff.reset()
            self._discovering = None
            self._take(discovery)
            await asyncio.sleep(self._pause(discovery, soon=first))
            first = False

    def _pause(self, discovery: Discovery, *, soon: bool) -> float:
        """Seconds until the next round; ``soon`` after the first, which came before the other flows of this node had
        made their heartbeats topics."""
        source = self._settings.source
        seconds = source.refresh_topics_interval_seconds
        interval = float(seconds) if source.refresh_topics_enabled and seconds >= 0 else 86_400.0  # once a day: never
        return min(interval, SOON_S) if soon or discovery.troubled else interval

    async def _ensure_offset_syncs(self, backoff: Backoff) -> None:
        if not self._settings.source.emit_offset_syncs_enabled:
            return
        topic = self._offset_syncs_topic()
        cluster = self._source if topic.side is Side.SOURCE else self._target
        while True:
            try:
                await cluster.metadata(())  # a cluster that is away is said at once, not after a minute of trying
                await ensure_internal_topic(
                    cluster,
                    topic,
                    replication_factor=self._settings.source.offset_syncs_topic_replication_factor,
                )
            except ClusterError as error:
                self._discovering = self._warn(self._discovering, f"create the offset-syncs topic: {error}")
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()
                return

    def _take(self, discovery: Discovery) -> None:
        before = self._discovery
        if before is not None:
            gone = {t.topic for t in before.topics} - {t.topic for t in discovery.topics}
            for name in sorted(gone):
                log.info("%s: topic %s is gone from the source; its remote topic stays", self._flow, name)
        for topic in discovery.topics:
            if topic.error is not None and (before is None or topic not in before.topics):
                log.warning("%s: topic %s: %s", self._flow, topic.topic, topic.error)
        self._discovery = discovery
        slots = spread(discovery.partitions, tasks_max=self._settings.source.tasks_max, previous=self._assignment)
        self._assignment = {partition: slot for slot, partitions in enumerate(slots) for partition in partitions}
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
                if warning not in self.warnings:
                    log.warning("%s: %s", self._flow, warning)
                    self.warnings.append(warning)
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
                await self._offsets.refresh()
                self._desk.put(self._lease(slot))

    async def _grant(self) -> None:
        grants = self._table.grants()
        changed = {slot: parts for slot, parts in grants.items() if parts != self._granted.get(slot, frozenset())}
        if not changed:
            return
        await self._offsets.refresh()
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
        await self._offsets.refresh()
        return self._lease(slot) if slot in self._granted else None

    def _lease(self, slot: int) -> SlotLease:
        clients, settings = self._settings.clients, self._settings
        return SlotLease(
            flow=self._flow,
            slot=slot,
            epoch=self._epoch,
            restart=self._restarts.get(slot, 0),
            source=clients.of(ClientRole.REPLICATION_CONSUMER, slot),
            fetch=clients.fetch,
            target=clients.of(ClientRole.RECORDS, slot),
            produce=clients.produce,
            offsets=OffsetsLease(
                client=clients.of(ClientRole.OFFSETS),
                topic=settings.storage.offsets.name,
                partitions=self._offsets.partitions,
                flush_interval_ms=settings.worker.offset_flush_interval_ms,
            ),
            offset_syncs=self._offset_syncs_lease(slot),
            partitions=tuple(
                PartitionLease(
                    topic=partition.topic,
                    partition=partition.partition,
                    remote_topic=settings.policy.format_remote_topic(self._flow.source, partition.topic),
                    start_offset=self._offsets.position(partition),
                )
                for partition in sorted(self._granted[slot])
            ),
            drain=self._draining,
        )

    def _offset_syncs_lease(self, slot: int) -> OffsetSyncsLease | None:
        if not self._settings.source.emit_offset_syncs_enabled:
            return None
        topic = self._offset_syncs_topic()
        role = (
            ClientRole.OFFSET_SYNCS_SOURCE_PRODUCER
            if topic.side is Side.SOURCE
            else ClientRole.OFFSET_SYNCS_TARGET_PRODUCER
        )
        return OffsetSyncsLease(
            client=self._settings.clients.of(role, slot),
            topic=topic.name,
            lag_max=self._settings.source.offset_lag_max,
        )

    def _offset_syncs_topic(self) -> InternalTopic:
        return offset_syncs(self._settings.policy, self._flow, Side(self._settings.source.offset_syncs_topic_location))

    # -- what is shown

    def topics(self) -> tuple[TopicStatus, ...]:
        """Every replicated topic with its partitions."""
        if self._discovery is None:
            return ()
        states: dict[TopicPartition, tuple[TaskState, str | None]] = {}
        for slot in self._granted:
            report = self._desk.board.progress((self._flow, slot))
            for p in report.slot.partitions if report else ():
                key = TopicPartition(p.topic, p.partition)
                if p.state is not TaskState.STOPPED or key not in states:  # another slot may run it by now
                    states[key] = (p.state, p.error)
        return self._progress.topics(self._discovery.topics, states)

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
