"""One flow on one node, for as long as the node lives: internal topics, membership, its tasks, and leading it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from mm2.config.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.commands import Command, CommandRefusedError, Refresh, RestartTask
from mm2.core.lease import TaskState
from mm2.core.placement import Member, Placement
from mm2.core.placement_round import place
from mm2.core.plugins import PluginError
from mm2.core.standing import Standing
from mm2.core.tasks import TaskId
from mm2.election.kafka_group import GroupSettings, KafkaGroup
from mm2.election.protocol import Election, HeldByOther, Joined, Json, Lost, MemberInfo, Membership
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.errors import ClusterError
from mm2.kafka.internal_topics import WrongInternalTopic
from mm2.node.alarm import Alarm
from mm2.node.checkpoint_tally import CheckpointTally
from mm2.node.commands import carry_out
from mm2.node.config_topic import ConfigTopic
from mm2.node.desk import Desk
from mm2.node.flow_picture import FlowPicture, held_tasks
from mm2.node.leadership import Leadership, flow_tasks
from mm2.node.node_identity import NodeIdentity
from mm2.node.progress import FlowProgress, worst
from mm2.node.published import FlowStatus, TaskStatus, TopicStatus
from mm2.node.slot_host import SlotHost
from mm2.node.slot_leases import SlotLeases
from mm2.node.slot_reports import SlotReporter
from mm2.node.task_host import TaskHost, lasting_tasks
from mm2.node.tasks.checkpoint import reason_for_none
from mm2.node.worker_topics import WorkerTopics

log = logging.getLogger(__name__)

RETRY_FIRST_MS = 1_000
RETRY_LONGEST_MS = 10_000
"""A target that is away is asked again after one second, then more rarely: each try is a connection, no more, and
somebody may be waiting for it to come back."""

REVIEW_EVERY_S = 1.0
"""How often a leader looks whether another round is due, beside looking when something happened."""


@dataclass(slots=True, kw_only=True)
class _Life:
    """What there is of a flow between connecting and losing the connection."""

    election: Election
    configs: ConfigTopic
    host: TaskHost
    source: Cluster
    target: Cluster


class FlowRunner:
    """Invariants: (A) a task of the flow runs here only while the leader's answer says so (`TaskHost`). (B) nothing
    that goes wrong in one flow ends another, or the node; nothing that goes wrong in leading a flow ends its tasks.
    (C) a node begins to lead only while it is the leader of its generation.
    """

    def __init__(self, settings: FlowSettings, identity: NodeIdentity, desk: Desk) -> None:
        self.settings = settings
        self._identity = identity
        self._desk = desk
        self._progress = FlowProgress()
        self._tally = CheckpointTally()
        self._life: _Life | None = None
        self._leadership: Leadership | None = None
        self._membership: Membership | None = None
        self._placement = Placement()
        self._review = Alarm()
        self._trouble: str | None = "connecting"
        self._broken = False
        self._leading: str | None = None
        self._leaving = False
        self._draining = False
        self._offered = 0
        self._heartbeats = 0

    async def run(self) -> None:
        """Serve the flow until cancelled, through everything that can be waited out."""
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self._serve()
            except* (ClusterError, PluginError) as group:
                error = _first(group)
                self._note(str(error), broken=isinstance(error, WrongInternalTopic | PluginError))
            except* Exception:
                log.exception("%s: unexpected error, the flow starts again", self.settings.flow)
                self._note("an unexpected error, see the log; the flow is started again", broken=True)
            if asyncio.get_running_loop().time() - began > RETRY_LONGEST_MS / 1000:
                backoff.reset()
            await asyncio.sleep(backoff.next())

    async def leave(self) -> None:
        """Give all tasks to the other nodes, one by one and without a gap, and return when nothing runs here any more;
        at once where there is no other node to take them. The caller bounds the wait."""
        self._leaving = True
        life = self._life
        if life is None or not self._others_offer():
            return
        log.info("%s: the other nodes take over", self.settings.flow)
        self._tell()
        while life.host.holds and self._others_offer():
            await self._desk.changed(REVIEW_EVERY_S)

    def drain(self) -> None:
        """Change nothing any more: the node is being drained."""
        self._draining = True
        if self._life is not None:
            self._life.host.freeze()

    def _others_offer(self) -> bool:
        """Whether another node could take over."""
        membership = self._membership
        return isinstance(membership, Joined) and any(
            info.capacity > 0 for member, info in membership.members.items() if member != membership.member_id
        )

    def _note(self, sentence: str, *, broken: bool = False) -> None:
        if sentence != self._trouble:
            log.warning("%s: %s", self.settings.flow, sentence)
        self._trouble, self._broken = sentence, broken

    # -- one life

    async def _serve(self) -> None:
        """One life of the flow. Raises groups of ClusterErrors, as whatever ends it ends all its parts."""
        clients, storage = self.settings.clients, self.settings.storage
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            target = await stack.enter_async_context(Cluster(clients.of(ClientRole.SHARED_ADMIN)))
            source = await stack.enter_async_context(Cluster(clients.of(ClientRole.REPLICATION_SOURCE_ADMIN)))
            await target.metadata(())  # a target that is away is said at once, not after admin.timeout.ms
            topics = await WorkerTopics.ensure(self.settings, target)
            configs = ConfigTopic(self.settings, target, on_change=self._published, on_command=self._commanded)
            await configs.read_to_end()
            statuses = await stack.enter_async_context(Cluster(clients.of(ClientRole.STATUSES)))
            producer = await stack.enter_async_context(ControlProducer(statuses, purpose=storage.statuses.name))
            slots: SlotHost | None = None
            if self.settings.enabled:
                slots = SlotHost(
                    self.settings,
                    desk=self._desk,
                    leases=SlotLeases(self.settings, self.settings.admin_class(target), topics.source_offsets),
                    configs=configs,
                    reporter=SlotReporter(self.settings, producer, topics.status_partitions),
                    progress=self._progress,
                    node_id=self._identity.node_id,
                    let_go=self._slot_let_go,
                )
                group.create_task(slots.run(), name=f"{self.settings.flow} slots")
            host = TaskHost(
                self.settings,
                slots=slots,
                offsets_partitions=topics.source_offsets.partitions,
                node_id=self._identity.node_id,
                tally=self._tally,
                changed=self._tell,
            )
            host.pause(configs.pauses)
            group.create_task(configs.follow(), name=f"{self.settings.flow} configs")
            member = await stack.enter_async_context(Cluster(clients.of(ClientRole.GROUP_MEMBER)))
            self._offered = self._capacity()
            election = await stack.enter_async_context(self._election(member, host))
            self._life = _Life(election=election, configs=configs, host=host, source=source, target=target)
            self._trouble, self._broken = None, False
            group.create_task(self._keep_reviewing(), name=f"{self.settings.flow} review")
            try:
                await self._follow(self._life)
            finally:
                self._life = None
                self._heartbeats += host.emitted
                if not self._draining:
                    await host.close()

    def _election(self, cluster: Cluster, host: TaskHost) -> Election:
        worker = self.settings.worker
        group = GroupSettings(
            group_id=worker.group_id,
            session_timeout_ms=worker.session_timeout_ms,
            heartbeat_interval_ms=worker.heartbeat_interval_ms,
            rebalance_timeout_ms=worker.rebalance_timeout_ms,
        )
        return KafkaGroup(cluster, group, self._info(host), self._assign)

    async def _follow(self, life: _Life) -> None:
        """Do what each round says, and lead while it says so."""
        leading: asyncio.Task[None] | None = None
        try:
            async for membership in life.election.events():
                self._show(membership)
                leads = isinstance(membership, Joined) and membership.is_leader
                if leading is not None and not leads:
                    log.warning("%s: this node no longer leads", self.settings.flow)
                    await _stop(leading)
                    leading, self._leading = None, None
                if isinstance(membership, Joined):
                    self._take(membership, life)
                    if leads and leading is None:
                        leading = asyncio.create_task(self._lead(life), name=f"{self.settings.flow} lead")
                else:
                    life.host.lost()
        finally:
            self._membership = None
            if leading is not None:
                await _stop(leading)

    def _take(self, joined: Joined, life: _Life) -> None:
        """The answer of a round."""
        placement = Placement.from_json(joined.assignment)
        if placement is None:
            log.warning("%s: the leader's answer is no placement: does it run another version?", self.settings.flow)
            return
        self._placement = placement
        life.host.take(placement, joined.member_id)
        if self._leadership is not None:
            self._leadership.placed(placement)
        if len(joined.members) > 1:
            self._desk.keep_warm()
        if self._capacity() == self._offered:
            life.election.update(self._info(life.host), quiet=True)
        else:
            self._tell()
        self._hurry()
        self._desk.wake()

    def _show(self, membership: Membership) -> None:
        flow, before, self._membership = self.settings.flow, self._membership, membership
        match membership:
            case Joined(generation=generation):
                who = "this node" if membership.is_leader else f"node {membership.leader_node}"
                nodes = len(membership.members)
                log.info(
                    "%s: %s leads, generation %d%s", flow, who, generation, f", {nodes} nodes" if nodes > 1 else ""
                )
            case Lost(reason=reason) | HeldByOther(reason=reason) if before is not None:
                log.warning("%s: %s", flow, reason)
            case _:
                log.info("%s: %s", flow, membership.reason)
        self._desk.wake()

    # -- what this node says of itself

    def _info(self, host: TaskHost) -> MemberInfo:
        return MemberInfo(
            node_id=self._identity.node_id,
            url=self._identity.url,
            capacity=self._capacity(),
            tasks=tuple(sorted(str(task) for task in host.holds)),
            epoch=host.epoch,
            terms=self._identity.terms.get(self.settings.flow, ""),
            version=self._identity.version,
        )

    def _capacity(self) -> int:
        """The lanes on offer: none while the node leaves, or while no lane runs that could begin at once and others do
        the work, or it is not known yet whether they do."""
        ready = not self.settings.enabled or self._desk.ready
        alone = isinstance(self._membership, Joined) and not self._others_offer()
        return self._desk.capacity if not self._leaving and (ready or alone) else 0

    def _tell(self) -> None:
        """A task was let go, or this node offers more or less than before: the leader waits to hear of it."""
        if self._life is not None:
            info = self._info(self._life.host)
            self._offered = info.capacity
            self._life.election.update(info)
        self._desk.wake()

    def _slot_let_go(self, slot: int) -> None:
        if self._life is not None:
            self._life.host.slot_let_go(slot)

    # -- leading

    def _assign(self, generation: int, infos: Mapping[str, MemberInfo]) -> dict[str, Json]:
        """One round, decided by this node. Everybody gets the whole placement."""
        self._placement = self._place(generation, infos)
        answer: Json = self._placement.to_json()
        return dict.fromkeys(infos, answer)

    def _place(self, generation: int, infos: Mapping[str, MemberInfo]) -> Placement:
        members = {
            member: Member(node=info.node_id, capacity=info.capacity, holds=held_tasks(info), epoch=info.epoch)
            for member, info in infos.items()
        }
        return place(
            self._tasks(),
            members,
            before=self._placement,
            epoch=generation,
            now_ms=time.time_ns() // 1_000_000,
            delay_ms=self.settings.worker.scheduled_rebalance_max_delay_ms,
            salt=str(self.settings.flow),
        )

    def _tasks(self) -> dict[TaskId, int]:
        lists = self._life.configs.slots.records if self._life is not None and self.settings.enabled else {}
        weights = self._leadership.weights() if self._leadership is not None else {}
        return flow_tasks(lists, lasting_tasks(self.settings), weights)

    async def _lead(self, life: _Life) -> None:
        """Lead until cancelled, through everything that can be waited out."""
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        while isinstance(joined := life.election.membership, Joined) and joined.is_leader:
            leadership = self._leadership = Leadership(
                self.settings,
                generation=joined.generation,
                source=life.source,
                target=life.target,
                configs=life.configs,
                changed=self._review.ring,
            )
            leadership.placed(self._placement)
            try:
                await leadership.run()
            except* (ClusterError, PluginError) as group:
                sentence = f"lead the flow: {_first(group)}"
                if sentence != self._leading:
                    log.warning("%s: %s", self.settings.flow, sentence)
                self._leading = sentence
            except* Exception:
                log.exception("%s: unexpected error, leading begins again", self.settings.flow)
                self._leading = "lead the flow: an unexpected error, see the log"
            finally:
                self._leadership = None
            await asyncio.sleep(backoff.next())  # Fenced too: if another leads, the election is about to say so

    async def _keep_reviewing(self) -> None:
        """Begin a round whenever one would change something: tasks that came or went, load that has shifted, a node
        that was waited for long enough."""
        while True:
            await self._review.sleep(REVIEW_EVERY_S)
            if self._capacity() != self._offered:
                self._tell()
            joined, life = self._membership, self._life
            if isinstance(joined, Joined) and joined.is_leader and self._leadership is not None and life is not None:
                planned = self._place(joined.generation + 1, joined.members)
                if not planned.same_plan(self._placement):
                    life.election.request_round()
            self._hurry()

    def _hurry(self) -> None:
        """Look for the next round more often while something waits for it."""
        if self._life is None:
            return
        places = self._placement.places
        waiting = [task for task in self._tasks() if task not in places]
        moving = any(place.next is not None for place in places.values())
        self._life.election.hurry(bool(moving or waiting or self._leaving))

    # -- what the leader published

    def _published(self) -> None:
        life = self._life
        if life is not None:
            life.host.pause(life.configs.pauses)
            self._hurry()
        self._desk.wake()

    def _commanded(self, command: Refresh | RestartTask) -> None:
        """A command for every node, by way of the leader."""
        if self._life is None:
            return
        match command:
            case Refresh():
                self._life.host.look_now()
            case RestartTask(task=name):
                if name in {str(task) for task in self._life.host.holds}:
                    log.info("%s: an operator asked for %s to begin anew", self.settings.flow, name)
                    self._life.host.restart(TaskId.parse(name))

    # -- what other nodes and operators ask

    def standing(self) -> Standing:
        """Where this node stands in the flow now."""
        membership, worker = self._membership, self.settings.worker
        leader = membership.members.get(membership.leader_id) if isinstance(membership, Joined) else None
        return Standing(
            flow=self.settings.flow,
            leads=self._leadership is not None,
            leader_url=(leader.url or None) if leader is not None else None,
            own_url=self._identity.url or None,
            session_key=self._life.configs.session_key if self._life is not None else None,
            signature_algorithm=worker.inter_worker_signature_algorithm,
            accepted_algorithms=worker.inter_worker_verification_algorithms,
        )

    async def carry_out(self, command: Command) -> str:
        """Do what an operator asks of the flow, which this node leads. Raises CommandRefusedError."""
        leadership, life = self._leadership, self._life
        if leadership is None or life is None:
            raise CommandRefusedError(f"this node does not lead {self.settings.flow}")
        return await carry_out(command, leadership, life.configs, self._placement)

    # -- what is shown

    def status(self) -> FlowStatus:
        """The flow as this node sees it."""
        picture, life = self._picture(), self._life
        tasks = picture.tasks() if picture is not None else ()
        topics = picture.topics() if picture is not None else ()
        state, reasons = self._state(tasks, topics), self._reasons(picture, topics)
        if state is TaskState.WAITING and not reasons:
            reasons = _still_starting(tasks)
        joined = self._membership if isinstance(self._membership, Joined) else None
        return FlowStatus(
            flow=self.settings.flow,
            enabled=self.settings.enabled,
            state=state,
            leader=joined.leader_node if joined is not None else None,
            is_leader=self._leadership is not None,
            epoch=joined.generation if joined is not None else -1,
            reasons=tuple(reasons),
            tasks=tasks,
            topics=topics,
            batches=self._progress.batches,
            losses=self._progress.losses,
            heartbeats_total=self._heartbeats + (life.host.emitted if life is not None else 0),
            groups=life.host.groups if life is not None else (),
            group_reasons=self._group_reasons(),
            checkpoint_latency=self._tally.latency_by_group,
            skipped=self._skipped(),
            members=picture.members() if picture is not None else (),
            paused=life.configs.pauses.named if life is not None else (),
            coverage=picture.coverage(self._tasks()) if picture is not None else {},
        )

    def _picture(self) -> FlowPicture | None:
        if self._life is None or not isinstance(self._membership, Joined):
            return None
        return FlowPicture(
            settings=self.settings,
            node_id=self._identity.node_id,
            joined=self._membership,
            placement=self._placement,
            configs=self._life.configs,
            host=self._life.host,
            leading=self._leadership,
            progress=self._progress,
        )

    def _skipped(self) -> Mapping[str, int]:
        skipped = dict(self._tally.skipped_by_topic)
        if self._life is not None and self._life.configs.skipped.count:
            skipped[self._life.configs.topic] = self._life.configs.skipped.count
        return skipped

    def _state(self, tasks: tuple[TaskStatus, ...], topics: tuple[TopicStatus, ...]) -> TaskState:
        if self._broken:
            return TaskState.FAILED
        if self._draining or self._leaving:
            return TaskState.DRAINING
        if self._life is None or not isinstance(self._membership, Joined) or self._trouble is not None:
            return TaskState.WAITING
        leading = self._leadership
        if (self._membership.is_leader and leading is None) or (leading is not None and leading.trouble is not None):
            return TaskState.WAITING
        return worst([*(task.state for task in tasks), *(topic.state for topic in topics)])

    def _reasons(self, picture: FlowPicture | None, topics: tuple[TopicStatus, ...]) -> list[str]:
        reasons = [trouble for trouble in (self._trouble, self._leading) if trouble is not None]
        reasons += self._without_membership()
        if self._leadership is not None:
            reasons += self._leadership.reasons()
        if self._life is not None:
            reasons += self._life.host.reasons()
        if picture is not None:
            reasons += picture.about_nodes()
        for topic in topics:
            if topic.error is not None:
                reasons.append(f"topic {topic.topic}: {topic.error}")
            reasons += [p.error for p in topic.partitions if p.state is TaskState.FAILED and p.error is not None]
        return list(dict.fromkeys(reasons))

    def _without_membership(self) -> list[str]:
        match self._membership:
            case Lost(reason=reason) | HeldByOther(reason=reason):
                return [reason]
        return []

    def _group_reasons(self) -> tuple[str, ...]:
        """Why /flows/…/groups shows less than everything."""
        none = reason_for_none(self.settings)
        if none is not None:
            return (none,)
        here = self._life.host.group_reasons if self._life is not None else None
        if here is not None:
            return here
        place = next(
            (p for task, p in self._placement.places.items() if str(task).startswith("MirrorCheckpoint")), None
        )
        if place is not None and place.owner is not None and isinstance(self._membership, Joined):
            return (f"node {place.node} translates the offsets of groups; ask it",)
        return tuple(self._without_membership() or ([] if self._trouble is None else [self._trouble]))


def _still_starting(tasks: tuple[TaskStatus, ...]) -> list[str]:
    """What a flow without any trouble waits for: lanes, or their first look at the partitions."""
    waiting = [task.id for task in tasks if task.state is TaskState.WAITING]
    if waiting:
        return [f"{', '.join(waiting)}: waiting for a lane to begin"]
    return ["waiting for partitions to begin"]


def _first(group: BaseExceptionGroup[Exception]) -> BaseException:
    """One error of those that came together."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
