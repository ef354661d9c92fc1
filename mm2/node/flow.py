"""One flow on one node, for as long as the node lives: internal topics, membership, and the tasks while it leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from mm2.config.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.config.worker import StorageTopic
from mm2.core import internal_topics
from mm2.core.internal_topics import InternalTopic
from mm2.core.lease import TaskState
from mm2.election.kafka_group import GroupSettings, KafkaGroup
from mm2.election.protocol import Election, HeldByOther, Joined, Json, Lost, MemberInfo, Membership
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.internal_topics import WrongInternalTopic, ensure_internal_topic
from mm2.node.desk import Desk
from mm2.node.progress import FlowProgress, worst
from mm2.node.published import FlowStatus, TaskStatus, TopicStatus
from mm2.node.source_offsets import SourceOffsets
from mm2.node.tasks.heartbeat import HeartbeatTask
from mm2.node.tasks.source import SourceTask

log = logging.getLogger(__name__)

RETRY_FIRST_MS = 1_000
RETRY_LONGEST_MS = 10_000
"""A target that is away is asked again after one second, then more rarely: each try is a connection, no more, and
somebody may be waiting for it to come back."""


@dataclass(slots=True)
class _Leadership:
    """What runs while this node leads the flow."""

    heartbeat: HeartbeatTask | None
    source: SourceTask | None


class FlowRunner:
    """Invariants: (A) source and heartbeat tasks run only while this node leads. (B) nothing that goes wrong in one
    flow ends another, or the node."""

    def __init__(self, settings: FlowSettings, node_id: str, desk: Desk) -> None:
        self.settings = settings
        self._node_id = node_id
        self._desk = desk
        self._progress = FlowProgress()
        self._leadership: _Leadership | None = None
        self._membership: Membership | None = None
        self._trouble: str | None = "connecting"
        self._broken = False
        self._draining = False
        self._heartbeats = 0

    async def run(self) -> None:
        """Serve the flow until cancelled, through everything that can be waited out."""
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self._serve()
            except ClusterError as error:
                self._note(str(error), broken=isinstance(error, WrongInternalTopic))
            except Exception:
                log.exception("%s: unexpected error, the flow starts again", self.settings.flow)
                self._note("an unexpected error, see the log; the flow is started again", broken=True)
            if asyncio.get_running_loop().time() - began > RETRY_LONGEST_MS / 1000:
                backoff.reset()
            await asyncio.sleep(backoff.next())

    def drain(self) -> None:
        """Change nothing any more: the node is being drained."""
        self._draining = True
        if self._leadership is not None and self._leadership.source is not None:
            self._leadership.source.drain()

    def _note(self, sentence: str, *, broken: bool = False) -> None:
        if sentence != self._trouble:
            log.warning("%s: %s", self.settings.flow, sentence)
        self._trouble, self._broken = sentence, broken

    async def _serve(self) -> None:
        """One life of the flow. Raises ClusterError."""
        clients = self.settings.clients
        async with AsyncExitStack() as stack:
            target = await stack.enter_async_context(Cluster(clients.of(ClientRole.SHARED_ADMIN)))
            source = await stack.enter_async_context(Cluster(clients.of(ClientRole.REPLICATION_SOURCE_ADMIN)))
            await target.metadata(())  # a target that is away is said at once, not after admin.timeout.ms
            offsets = await self._prepare(target)
            member = await stack.enter_async_context(Cluster(clients.of(ClientRole.GROUP_MEMBER)))
            election = await stack.enter_async_context(self._election(member))
            self._trouble, self._broken = None, False
            await self._follow(election, source, target, offsets)

    def _election(self, cluster: Cluster) -> Election:
        worker = self.settings.worker
        group = GroupSettings(
            group_id=worker.group_id,
            session_timeout_ms=worker.session_timeout_ms,
            heartbeat_interval_ms=worker.heartbeat_interval_ms,
            rebalance_timeout_ms=worker.rebalance_timeout_ms,
        )
        info = MemberInfo(node_id=self._node_id, url=self._desk.url, capacity=self._desk.capacity)
        return KafkaGroup(cluster, group, info, _leader_runs_all)

    async def _prepare(self, target: Cluster) -> SourceOffsets:
        """Create and check the worker's three topics (mm2-compat §2.1). Raises ClusterError."""
        flow, storage = self.settings.flow, self.settings.storage
        timeout_ms = self.settings.source.admin_timeout_ms
        wanted: list[tuple[InternalTopic, StorageTopic]] = [
            (
                internal_topics.source_offsets(flow, name=storage.offsets.name, partitions=storage.offsets.partitions),
                storage.offsets,
            ),
            (
                internal_topics.status(flow, name=storage.statuses.name, partitions=storage.statuses.partitions),
                storage.statuses,
            ),
            (internal_topics.configs(flow, name=storage.configs.name), storage.configs),
        ]
        found = [
            await ensure_internal_topic(
                target,
                topic,
                replication_factor=how.replication_factor,
                settings=dict(how.configs),
                timeout_ms=timeout_ms,
            )
            for topic, how in wanted
        ]
        return SourceOffsets(target, storage.offsets.name, flow.source, partitions=len(found[0].partitions))

    async def _follow(self, election: Election, source: Cluster, target: Cluster, offsets: SourceOffsets) -> None:
        """Lead while the election says so."""
        leading: asyncio.Task[None] | None = None
        try:
            async for membership in election.events():
                self._show(membership)
                leads = isinstance(membership, Joined) and membership.is_leader
                if leading is not None and (leading.done() or not leads):
                    log.warning("%s: this node no longer leads", self.settings.flow)
                    await _stop(leading)
                    leading = None
                if leading is None and isinstance(membership, Joined) and leads:
                    leading = asyncio.create_task(
                        self._lead(membership.generation, source, target, offsets), name=f"{self.settings.flow} lead"
                    )
                    leading.add_done_callback(lambda _: election.request_round())  # brings us back here if it failed
        finally:
            self._membership = None
            if leading is not None:
                await _stop(leading)

    def _show(self, membership: Membership) -> None:
        flow, before, self._membership = self.settings.flow, self._membership, membership
        match membership:
            case Joined(generation=generation):
                who = "this node" if membership.is_leader else f"node {membership.leader_node}"
                log.info("%s: %s leads, generation %d", flow, who, generation)
            case Lost(reason=reason) | HeldByOther(reason=reason) if before is not None:
                log.warning("%s: %s", flow, reason)
            case _:
                log.info("%s: %s", flow, membership.reason)
        self._desk.wake()

    async def _lead(self, epoch: int, source: Cluster, target: Cluster, offsets: SourceOffsets) -> None:
        settings = self.settings
        leadership = self._leadership = _Leadership(
            heartbeat=HeartbeatTask(settings, offsets_partitions=offsets.partitions, node_id=self._node_id)
            if settings.heartbeats
            else None,
            source=SourceTask(
                settings,
                epoch=epoch,
                desk=self._desk,
                source=source,
                target=target,
                offsets=offsets,
                progress=self._progress,
                node_id=self._node_id,
            )
            if settings.enabled
            else None,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                if leadership.heartbeat is not None:
                    tasks.create_task(leadership.heartbeat.run(), name=f"{settings.flow} heartbeat")
                if leadership.source is not None:
                    if self._draining:
                        leadership.source.drain()
                    tasks.create_task(leadership.source.run(), name=f"{settings.flow} source")
        finally:
            if leadership.heartbeat is not None:
                self._heartbeats += leadership.heartbeat.emitted
            if leadership.source is not None and not self._draining:
                leadership.source.close()
            self._leadership = None

    # -- what is shown

    def status(self) -> FlowStatus:
        """The flow as this node sees it."""
        source = self._leadership.source if self._leadership else None
        heartbeat = self._leadership.heartbeat if self._leadership else None
        topics = source.topics() if source else ()
        tasks = (*(source.tasks() if source else ()), *((heartbeat.status(),) if heartbeat else ()))
        membership = self._membership
        state, reasons = self._state(tasks, topics), self._reasons(topics)
        if state is TaskState.WAITING and not reasons:
            reasons = _still_starting(tasks)
        return FlowStatus(
            flow=self.settings.flow,
            enabled=self.settings.enabled,
            state=state,
            leader=membership.leader_node if isinstance(membership, Joined) else None,
            is_leader=self._leadership is not None,
            epoch=membership.generation if isinstance(membership, Joined) else -1,
            reasons=tuple(reasons),
            tasks=tasks,
            topics=topics,
            batches=self._progress.batches,
            losses=self._progress.losses,
            heartbeats_total=self._heartbeats + (heartbeat.emitted if heartbeat else 0),
        )

    def _state(self, tasks: tuple[TaskStatus, ...], topics: tuple[TopicStatus, ...]) -> TaskState:
        if self._broken:
            return TaskState.FAILED
        if self._draining:
            return TaskState.DRAINING
        if self._leadership is None or self._trouble is not None:
            return TaskState.WAITING
        source = self._leadership.source
        if source is not None and source.trouble is not None:
            return TaskState.WAITING
        return worst([*(task.state for task in tasks), *(topic.state for topic in topics)])

    def _reasons(self, topics: tuple[TopicStatus, ...]) -> list[str]:
        reasons = []
        if self._trouble is not None:
            reasons.append(self._trouble)
        match self._membership:
            case Joined(is_leader=False, leader_node=leader):
                reasons.append(f"node {leader} runs this flow; this node waits to take over when it leaves")
            case Lost(reason=reason) | HeldByOther(reason=reason):
                reasons.append(reason)
        if self._leadership is not None:
            if self._leadership.source is not None and self._leadership.source.trouble is not None:
                reasons.append(self._leadership.source.trouble)
            if self._leadership.source is not None:
                reasons += self._leadership.source.warnings
            if self._leadership.heartbeat is not None and self._leadership.heartbeat.trouble is not None:
                reasons.append(self._leadership.heartbeat.trouble)
        for topic in topics:
            if topic.error is not None:
                reasons.append(f"topic {topic.topic}: {topic.error}")
            reasons += [p.error for p in topic.partitions if p.state is TaskState.FAILED and p.error is not None]
        return reasons


def _leader_runs_all(members: Mapping[str, MemberInfo]) -> dict[str, Json]:
    """One node runs a flow: the leader. The others get nothing, and wait."""
    return dict.fromkeys(members)


def _still_starting(tasks: tuple[TaskStatus, ...]) -> list[str]:
    """What a flow without any trouble waits for: lanes, or their first look at the partitions."""
    waiting = [task.id for task in tasks if task.state is TaskState.WAITING]
    if waiting:
        return [f"{', '.join(waiting)}: waiting for a lane to begin"]
    return ["waiting for partitions to begin"]


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
