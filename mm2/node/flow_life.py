"""A flow on a node from connecting to its clusters until that connection is given up: a member of the flow's group,
which runs the tasks it is given, and leads while it is told to."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from mm2.config.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.commands import Refresh, RestartTask
from mm2.core.placement import Placement
from mm2.core.slot_reports import SlotReport
from mm2.core.tasks import TaskId
from mm2.election.choice import choose_election
from mm2.election.kafka_group import GroupSettings
from mm2.election.protocol import Election, HeldByOther, Joined, Json, Lost, MemberInfo, Membership
from mm2.kafka.cluster import Cluster
from mm2.kafka.control_producer import ControlProducer
from mm2.node.alarm import Alarm
from mm2.node.config_topic import ConfigTopic
from mm2.node.desk import Desk
from mm2.node.flow_leader import FlowLeader
from mm2.node.flow_memory import FlowMemory
from mm2.node.flow_placing import placed, shared_tasks, waits_for_round
from mm2.node.leadership import Leadership
from mm2.node.member_word import MemberWord
from mm2.node.node_identity import NodeIdentity
from mm2.node.slot_host import SlotHost
from mm2.node.slot_leases import SlotLeases
from mm2.node.slot_reports import SlotReporter
from mm2.node.status_keeper import StatusKeeper
from mm2.node.status_reader import StatusReader
from mm2.node.task_host import TaskHost
from mm2.node.worker_topics import WorkerTopics

log = logging.getLogger(__name__)

HURRY_FOR_S = 30.0
"""A round that is expected and does not come for so long is not waited for with more than the usual heartbeats."""

REVIEW_EVERY_S = 1.0
"""How often a leader looks whether another round is due, beside looking when something happened."""


class FlowLife:
    """Invariants: (A) a task of the flow runs here only while the leader's answer says so (`TaskHost`). (B) a node
    begins to lead only while it is the leader of its generation, and what goes wrong then ends no task (`FlowLeader`).
    """

    def __init__(
        self, settings: FlowSettings, identity: NodeIdentity, desk: Desk, memory: FlowMemory, *, leaving: bool
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._identity = identity
        self._desk = desk
        self._memory = memory
        self._leaving = leaving
        self._election: Election | None = None
        self._source: Cluster | None = None
        self._target: Cluster | None = None
        self._review = Alarm()
        self._waits_since = time.monotonic()
        self._ending = False
        self.membership: Membership | None = None
        self._leader = FlowLeader(self._flow, self._make_leadership)

    @property
    def settings(self) -> FlowSettings:
        """What it lives by now."""
        return self._settings

    @property
    def leadership(self) -> Leadership | None:
        """While this node leads."""
        return self._leader.leadership

    @property
    def trouble(self) -> str | None:
        """What keeps this node from leading though it should, None when nothing does."""
        return self._leader.trouble

    @property
    def joined(self) -> Joined | None:
        """The round we are part of; None while we are in none."""
        return self.membership if isinstance(self.membership, Joined) else None

    # -- from beginning to end

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Connect, make topics, read what was published, begin to join. Raises ClusterError."""
        settings, clients = self._settings, self._settings.clients
        async with AsyncExitStack() as stack:

            async def cluster(role: ClientRole) -> Cluster:
                return await stack.enter_async_context(Cluster(clients.of(role)))

            target = self._target = await cluster(ClientRole.SHARED_ADMIN)
            self._source = await cluster(ClientRole.REPLICATION_SOURCE_ADMIN)
            await target.metadata(())  # a target that is away is said at once, not after admin.timeout.ms
            topics = await WorkerTopics.ensure(settings, target)
            self.configs = ConfigTopic(settings, target, on_change=self._published, on_command=self._commanded)
            await self.configs.read_to_end()
            self.statuses = StatusReader(settings, target, self._reported)
            producer = await stack.enter_async_context(ControlProducer(await cluster(ClientRole.STATUSES)))
            self._keeper = StatusKeeper(
                settings, self._identity, producer, self.statuses.book, topics.status_partitions
            )
            self._slots = self._slot_host(target, topics, producer) if settings.enabled else None
            self.host = TaskHost(
                settings,
                slots=self._slots,
                groups=self.configs.groups,
                offsets_partitions=topics.source_offsets.partitions,
                node_id=self._identity.node_id,
                tally=self._memory.tally,
                changed=self._task_let_go,
            )
            self.host.pause(self.configs.pauses)
            member = await cluster(ClientRole.GROUP_MEMBER)
            self._word = MemberWord(
                self._flow,
                self._identity,
                self._desk,
                self.host,
                lambda: self.joined,
                copies=settings.enabled,
                leaving=self._leaving,
            )
            self._election = await stack.enter_async_context(self._make_election(member))
            self._word.speak_in(self._election)
            yield

    def _slot_host(self, target: Cluster, topics: WorkerTopics, producer: ControlProducer) -> SlotHost:
        return SlotHost(
            self._settings,
            desk=self._desk,
            leases=SlotLeases(self._settings, self._settings.admin_class(target), topics.source_offsets),
            configs=self.configs,
            reporter=SlotReporter(self._settings, producer, topics.status_partitions, self._identity.node_id),
            progress=self._memory.progress,
            node_id=self._identity.node_id,
            let_go=self._slot_let_go,
        )

    def _make_election(self, cluster: Cluster) -> Election:
        worker = self._settings.worker
        group = GroupSettings(
            group_id=worker.group_id,
            session_timeout_ms=worker.session_timeout_ms,
            heartbeat_interval_ms=worker.heartbeat_interval_ms,
            rebalance_timeout_ms=worker.rebalance_timeout_ms,
        )
        return choose_election(self._settings.zookeeper, cluster, group, self._word.info(), self._assign)

    async def run(self) -> None:
        """Take part until cancelled, once `connected`. Raises a group of errors that waiting does not heal."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.configs.follow(), name=f"{self._flow} configs")
            group.create_task(self.statuses.run(), name=f"{self._flow} statuses")
            if self._slots is not None:
                group.create_task(self._slots.run(), name=f"{self._flow} slots")
            group.create_task(self._keep_reviewing(), name=f"{self._flow} review")
            await self._follow()

    # -- other settings

    def take_over(self, settings: FlowSettings) -> None:
        """Live by other settings from now on, of which none reaches deeper than `Reach.RUNNING`: records go on being
        copied, the node stays a member, and who leads begins anew under the same generation."""
        self._settings = settings
        self.host.take_over(settings)
        self._keeper.take_over(settings)
        self._leader.begin_anew()
        self.say_terms()
        self._review.ring()

    def say_terms(self) -> None:
        """Tell the other nodes what this node's file says, if that is news."""
        self._word.tell()
        if self.leadership is not None:
            self.leadership.say_terms()

    # -- membership

    async def _follow(self) -> None:
        """Do what each round says, and lead while it says so."""
        assert self._election is not None
        leading: asyncio.Task[None] | None = None
        led = -1
        try:
            async for membership in self._election.events():
                self._show(membership)
                leads = isinstance(membership, Joined) and membership.is_leader
                if leading is not None and not leads:
                    log.warning("%s: this node no longer leads", self._flow)
                if leading is not None and not (leads and self._is_next(membership, led)):
                    await _ended(leading)
                    leading, self._leader.trouble = None, None
                led = membership.generation if isinstance(membership, Joined) else -1
                if isinstance(membership, Joined):
                    self._take(membership)
                    if leads and leading is None:
                        leading = asyncio.create_task(self._leader.lead(self._election), name=f"{self._flow} lead")
                else:
                    self.host.lost()
        finally:
            self.membership = None
            if leading is not None:
                await _ended(leading)

    @staticmethod
    def _is_next(membership: Membership, generation: int) -> bool:
        """Whether nobody else can have led since ``generation``: rounds that we missed may have had another leader."""
        return isinstance(membership, Joined) and membership.generation - generation in (0, 1)

    def _show(self, membership: Membership) -> None:
        before, self.membership = self.membership, membership
        match membership:
            case Joined(generation=generation):
                who = "this node" if membership.is_leader else f"node {membership.leader_node}"
                nodes = f", {len(membership.members)} nodes" if len(membership.members) > 1 else ""
                log.info("%s: %s leads, generation %d%s", self._flow, who, generation, nodes)
            case Lost(reason=reason) | HeldByOther(reason=reason) if before is not None:
                log.warning("%s: %s", self._flow, reason)
            case _:
                log.info("%s: %s", self._flow, membership.reason)
        self._desk.wake()

    def _take(self, joined: Joined) -> None:
        """The answer of a round."""
        placement = Placement.from_json(joined.assignment)
        if placement is None:
            log.warning("%s: the leader's answer is no placement: does it run another version?", self._flow)
            return
        self._memory.placement = placement
        if not self._ending:
            self.host.take(placement, joined.member_id)
        if self.leadership is not None:
            self.leadership.placed(placement)
        if len(joined.members) > 1:
            self._desk.keep_warm()
        self._word.answered()
        self._hurry()
        self._desk.wake()

    # -- its end

    async def leave(self) -> None:
        """Give all tasks to the other nodes and return when nothing runs here any more; at once where there is no other
        node to take them. The caller bounds the wait."""
        self._leaving = self._word.leaving = True
        if self._word.others_offer:
            log.info("%s: the other nodes take over", self._flow)
            self._word.tell()
            while self.host.holds and self._word.others_offer:
                await self._desk.changed(REVIEW_EVERY_S)

    async def let_go(self) -> None:
        """Drain what still runs here, whatever the leader says, and return when it is stored. The caller bounds the
        wait."""
        self._ending = True
        self.host.lost()
        while self.host.holds:
            await self._desk.changed(REVIEW_EVERY_S)

    # -- leading

    def _assign(self, generation: int, infos: Mapping[str, MemberInfo]) -> dict[str, Json]:
        """One round, decided by this node. Everybody gets the whole placement."""
        placement = self._memory.placement = self._place(generation, infos)
        if self.leadership is not None:
            self.leadership.placed(placement)  # before anybody hears of it: `SlotPlan.owned`
        answer: Json = self._memory.placement.to_json()
        return dict.fromkeys(infos, answer)

    def _place(self, generation: int, infos: Mapping[str, MemberInfo]) -> Placement:
        before = self._memory.placement
        return placed(self.tasks(), infos, settings=self._settings, before=before, generation=generation)

    def tasks(self) -> dict[TaskId, int]:
        """What the flow's nodes share out, with weights, as far as this node knows."""
        return shared_tasks(self._settings, self.configs, self.leadership, self._memory.placement)

    def _make_leadership(self, generation: int, before: Leadership | None) -> Leadership:
        assert self._source is not None
        assert self._target is not None
        leadership = Leadership(
            self._settings,
            generation=generation,
            source=self._source,
            target=self._target,
            configs=self.configs,
            reports=self.statuses.reports,
            terms=lambda: self._identity.terms.get(self._flow),
            changed=self._review.ring,
            before=before,
        )
        leadership.placed(self._memory.placement)
        return leadership

    async def _keep_reviewing(self) -> None:
        """Begin a round whenever one would change something: tasks that came or went, load that has shifted, a node
        that was waited for long enough."""
        while True:
            await self._review.sleep(REVIEW_EVERY_S)
            try:
                self._look()
            except Exception:  # it must not end what runs
                log.exception("%s: unexpected error in a review; it is tried again", self._flow)

    def _look(self) -> None:
        self._word.look()
        joined = self.joined
        if joined is not None and joined.is_leader and self.leadership is not None and self._election is not None:
            planned = self._place(joined.generation + 1, joined.members)
            if not planned.same_plan(self._memory.placement):
                self._election.request_round()
        self._hurry()
        if joined is not None:
            self._tell_statuses(joined)

    def _tell_statuses(self, joined: Joined) -> None:
        self._keeper.tell(self.host, joined.generation)
        if joined.is_leader and self.leadership is not None:
            self._keeper.lead(self._memory.placement, self.configs.pauses, joined.generation)
        else:
            self._keeper.step_down(joined.generation)

    def _hurry(self) -> None:
        """Look for the next round more often while something waits for it."""
        if self._election is not None:
            now = time.monotonic()
            if not (self._leaving or waits_for_round(self._settings, self.configs, self._memory.placement)):
                self._waits_since = now
            self._election.hurry(0 < now - self._waits_since < HURRY_FOR_S)

    # -- what others wrote down

    def _task_let_go(self) -> None:
        self._word.tell()

    def _slot_let_go(self, slot: int) -> None:
        self.host.slot_let_go(slot)

    def _reported(self, report: SlotReport) -> None:
        if self.leadership is not None:
            self.leadership.heard(report)

    def _published(self) -> None:
        if self._election is not None:
            self.host.pause(self.configs.pauses)
            self.host.regroup()
            self._hurry()
        self._desk.wake()

    def _commanded(self, command: Refresh | RestartTask) -> None:
        """A command for every node, by way of the leader."""
        match command:
            case Refresh():
                self.host.look_now()
            case RestartTask(task=name):
                if name in {str(task) for task in self.host.holds}:
                    log.info("%s: an operator asked for %s to begin anew", self._flow, name)
                    self.host.restart(TaskId.parse(name))


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
