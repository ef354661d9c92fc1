"""One flow on one node, for as long as the node lives: internal topics, membership, and the tasks while it leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack

from mm2.config.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.config.worker import StorageTopic
from mm2.core import internal_topics
from mm2.core.commands import Command, CommandRefusedError
from mm2.core.internal_topics import InternalTopic
from mm2.core.lease import TaskState
from mm2.core.plugins import PluginError
from mm2.core.standing import Standing
from mm2.election.kafka_group import GroupSettings, KafkaGroup
from mm2.election.protocol import Election, HeldByOther, Joined, Json, Lost, MemberInfo, Membership
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.internal_topics import WrongInternalTopic, ensure_internal_topic
from mm2.node.checkpoint_tally import CheckpointTally
from mm2.node.desk import Desk
from mm2.node.leadership import Leadership
from mm2.node.progress import FlowProgress
from mm2.node.published import FlowStatus, TaskStatus, TopicStatus
from mm2.node.source_offsets import SourceOffsets
from mm2.node.tasks.checkpoint import reason_for_none

log = logging.getLogger(__name__)

RETRY_FIRST_MS = 1_000
RETRY_LONGEST_MS = 10_000
"""A target that is away is asked again after one second, then more rarely: each try is a connection, no more, and
somebody may be waiting for it to come back."""


class FlowRunner:
    """Invariants: (A) the flow's tasks run only while this node leads. (B) nothing that goes wrong in one
    flow ends another, or the node."""

    def __init__(self, settings: FlowSettings, node_id: str, desk: Desk) -> None:
        self.settings = settings
        self._node_id = node_id
        self._desk = desk
        self._progress = FlowProgress()
        self._tally = CheckpointTally()
        self._leadership: Leadership | None = None
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
            except (ClusterError, PluginError) as error:
                self._note(str(error), broken=isinstance(error, WrongInternalTopic | PluginError))
            except Exception:
                log.exception("%s: unexpected error, the flow starts again", self.settings.flow)
                self._note("an unexpected error, see the log; the flow is started again", broken=True)
            if asyncio.get_running_loop().time() - began > RETRY_LONGEST_MS / 1000:
                backoff.reset()
            await asyncio.sleep(backoff.next())

    def drain(self) -> None:
        """Change nothing any more: the node is being drained."""
        self._draining = True
        if self._leadership is not None:
            self._leadership.drain()

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
        admin = self.settings.admin_class(target)
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
                admin,
                topic,
                replication_factor=how.replication_factor,
                settings=dict(how.configs),
                timeout_ms=timeout_ms,
            )
            for topic, how in wanted
        ]
        return SourceOffsets(target, storage.offsets.name, flow, partitions=len(found[0].partitions))

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
        leadership = self._leadership = Leadership(
            self.settings,
            epoch=epoch,
            desk=self._desk,
            source=source,
            target=target,
            offsets=offsets,
            progress=self._progress,
            tally=self._tally,
            node_id=self._node_id,
        )
        if self._draining:
            leadership.drain()
        try:
            await leadership.run()
        finally:
            self._heartbeats += leadership.emitted
            if not self._draining:
                leadership.close()
            self._leadership = None

    # -- what other nodes and operators ask

    def standing(self) -> Standing:
        """Where this node stands in the flow now."""
        membership, worker = self._membership, self.settings.worker
        leader = membership.members.get(membership.leader_id) if isinstance(membership, Joined) else None
        return Standing(
            flow=self.settings.flow,
            leads=self._leadership is not None,
            leader_url=(leader.url or None) if leader is not None else None,
            own_url=None,
            session_key=None,
            signature_algorithm=worker.inter_worker_signature_algorithm,
            accepted_algorithms=worker.inter_worker_verification_algorithms,
        )

    async def carry_out(self, command: Command) -> str:
        """Do what an operator asks of the flow. Raises CommandRefusedError."""
        raise CommandRefusedError(f"{self.settings.flow} cannot {command.command} yet")

    # -- what is shown

    def status(self) -> FlowStatus:
        """The flow as this node sees it."""
        leading = self._leadership
        tasks = leading.tasks() if leading is not None else ()
        topics = leading.topics() if leading is not None else ()
        membership = self._membership
        state, reasons = self._state(tasks, topics), self._reasons(topics)
        if state is TaskState.WAITING and not reasons:
            reasons = _still_starting(tasks)
        return FlowStatus(
            flow=self.settings.flow,
            enabled=self.settings.enabled,
            state=state,
            leader=membership.leader_node if isinstance(membership, Joined) else None,
            is_leader=leading is not None,
            epoch=membership.generation if isinstance(membership, Joined) else -1,
            reasons=tuple(reasons),
            tasks=tasks,
            topics=topics,
            batches=self._progress.batches,
            losses=self._progress.losses,
            heartbeats_total=self._heartbeats + (leading.emitted if leading is not None else 0),
            groups=leading.groups if leading is not None else (),
            group_reasons=self._group_reasons(),
            checkpoint_latency=self._tally.latency_by_group,
            skipped=self._tally.skipped_by_topic,
        )

    def _state(self, tasks: tuple[TaskStatus, ...], topics: tuple[TopicStatus, ...]) -> TaskState:
        if self._broken:
            return TaskState.FAILED
        if self._draining:
            return TaskState.DRAINING
        if self._leadership is None or self._trouble is not None:
            return TaskState.WAITING
        return self._leadership.state(tasks, topics)

    def _reasons(self, topics: tuple[TopicStatus, ...]) -> list[str]:
        reasons = []
        if self._trouble is not None:
            reasons.append(self._trouble)
        reasons += self._elsewhere()
        if self._leadership is not None:
            reasons += self._leadership.reasons()
        for topic in topics:
            if topic.error is not None:
                reasons.append(f"topic {topic.topic}: {topic.error}")
            reasons += [p.error for p in topic.partitions if p.state is TaskState.FAILED and p.error is not None]
        return reasons

    def _elsewhere(self) -> list[str]:
        """Why this node does not lead, where that is nothing to be repaired here."""
        match self._membership:
            case Joined(is_leader=False, leader_node=leader):
                return [f"node {leader} runs this flow; this node waits to take over when it leaves"]
            case Lost(reason=reason) | HeldByOther(reason=reason):
                return [reason]
        return []

    def _group_reasons(self) -> tuple[str, ...]:
        """Why /flows/…/groups shows less than everything."""
        none = reason_for_none(self.settings)
        if none is not None:
            return (none,)
        if self._leadership is not None:
            return self._leadership.group_reasons
        return tuple(self._elsewhere() or ([] if self._trouble is None else [self._trouble]))


def _leader_runs_all(_generation: int, members: Mapping[str, MemberInfo]) -> dict[str, Json]:
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
