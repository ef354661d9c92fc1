"""One session of a flow on a node: it connects to the clusters, joins the flow's group, runs the assigned tasks, and
leads the flow while the node is elected."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from functools import partial

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.assignment.source_task_reports import SourceTaskReport
from mm2.core.assignment.task_placement import TaskAssignments
from mm2.core.assignment.tasks import TaskId
from mm2.core.coordination.command_records import decode_command
from mm2.election.group_guarded_election import choose_election
from mm2.election.kafka.kafka_group import GroupSettings
from mm2.election.protocol import Election, HeldByOther, Joined, Json, Lost, MemberInfo, Membership
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.commands.registry import command_types, run_on_this_node
from mm2.node.common.wakeup import Wakeup
from mm2.node.engine.lease_service import LeaseService, Wake
from mm2.node.flow.member_metadata import MemberMetadata
from mm2.node.flow.retained_state import RetainedFlowState
from mm2.node.flow.task_assignments import RebalanceReview, expects_rebalance, place_tasks, weighted_tasks
from mm2.node.flow.task_host import TaskHost
from mm2.node.flow.task_runner import TaskContext
from mm2.node.flow.task_runners import enabled_kinds
from mm2.node.identity import NodeIdentity
from mm2.node.leader.leader_loop import LeaderLoop
from mm2.node.leader.leader_term import LeaderTerm
from mm2.node.source.converted_copies import check_copies
from mm2.node.store.audit_store import AuditQueue, AuditStore
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.loss_store import LossStore
from mm2.node.store.status_keeper import StatusKeeper
from mm2.node.store.status_store import StatusStore
from mm2.node.store.worker_topics import WorkerTopics

log = logging.getLogger(__name__)

EXPECT_REBALANCE_S = 30.0
"""Send heartbeats at a higher rate for at most this long while a rebalance is expected."""

REVIEW_EVERY_S = 1.0
"""How often a leader checks whether a rebalance is due, in addition to checks after events."""

_HANDED_OVER = {Wake.RELEASED, Wake.ASSIGNMENT}


class FlowSession:
    """A flow on a node from connecting to its clusters until an error or cancellation ends it.

    Invariants: (A) a task of the flow runs here only while the leader's assignment contains it (`TaskHost`). (B) a node
    starts leading only while it is the leader of its generation, and an error of the leader ends no task
    (`LeaderLoop`).
    """

    def __init__(
        self,
        settings: FlowSettings,
        identity: NodeIdentity,
        lease_service: LeaseService,
        retained: RetainedFlowState,
        audit_queue: AuditQueue,
        *,
        leaving: bool,
    ) -> None:
        self.settings = settings
        self._flow = settings.flow
        self._identity = identity
        self._lease_service = lease_service
        self._retained = retained
        self._audit_queue = audit_queue
        self._leaving = leaving
        self._election: Election | None = None
        self._source: Cluster | None = None
        self._target: Cluster | None = None
        self._review = Wakeup()
        self._rebalance = RebalanceReview()
        self._settled_at = time.monotonic()
        self._ending = False
        self.membership: Membership | None = None
        self.leader = LeaderLoop(self._flow, self._make_leader_term)

    @property
    def leader_term(self) -> LeaderTerm | None:
        """The current term if this node is the leader, else None."""
        return self.leader.leader_term

    @property
    def joined(self) -> Joined | None:
        """The current membership, if the node has joined the group."""
        return self.membership if isinstance(self.membership, Joined) else None

    # -- start

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Connect, create internal topics, read the config topic, and start to join. Raises ClusterError."""
        settings, clients, node_id = self.settings, self.settings.clients, self._identity.node_id
        async with AsyncExitStack() as stack:

            async def cluster(role: ClientRole) -> Cluster:
                return await stack.enter_async_context(Cluster(clients.of(role)))

            target = self._target = await cluster(ClientRole.SHARED_ADMIN)
            self._source = await cluster(ClientRole.REPLICATION_SOURCE_ADMIN)
            await target.metadata(())  # reports an unavailable target immediately, not after admin.timeout.ms
            topics = await WorkerTopics.ensure(settings, target)
            self.source_offsets = topics.source_offsets
            await check_copies(settings, self._source, target, topics.source_offsets)
            self.configs = ConfigStore(settings, target, on_change=self._published, on_command=self._commanded)
            await self.configs.read_to_end()
            self.statuses = StatusStore(
                settings.flow, settings.storage.statuses.name, self._reported, self._query_reported
            )
            producer = await stack.enter_async_context(ControlProducer(await cluster(ClientRole.STATUSES)))
            self._keeper = StatusKeeper(settings, self._identity, producer, self.statuses, topics.status_partitions)
            self.losses = LossStore(
                settings,
                target,
                producer,
                partial(self._lease_service.wake, Wake.LOSSES),
                on_read=self._retained.take_losses,
            )
            self.audit = AuditStore(settings, target, producer, self._audit_queue)
            context = TaskContext(
                settings=settings,
                node_id=node_id,
                configs=self.configs,
                target=target,
                producer=producer,
                statuses=self.statuses,
                losses=self.losses,
                topics=topics,
                lease_service=self._lease_service,
                retained=self._retained,
                certain_for=self._certain_for,
            )
            self.host = TaskHost(context, lambda: self._metadata.report())  # noqa: PLW0108 is created below
            self._metadata = MemberMetadata(
                self._flow,
                self._identity,
                self._lease_service,
                self.host,
                lambda: self.joined,
                kinds=lambda: enabled_kinds(self.settings),
                leaving=self._leaving,
            )
            election = self._make_election(await cluster(ClientRole.GROUP_MEMBER))
            self._election = self._metadata.election = await stack.enter_async_context(election)
            yield

    def _certain_for(self) -> float:
        return 0.0 if self._election is None else self._election.certain_for()

    def _make_election(self, cluster: Cluster) -> Election:
        worker = self.settings.worker
        group = GroupSettings(
            group_id=worker.group_id,
            session_timeout_ms=worker.session_timeout_ms,
            heartbeat_interval_ms=worker.heartbeat_interval_ms,
            rebalance_timeout_ms=worker.rebalance_timeout_ms,
        )
        return choose_election(self.settings.election, cluster, group, self._metadata.info(), self._assign)

    async def run(self) -> None:
        """Be a member of the group until cancelled; call it while `connected`. Raises a group of permanent errors."""
        assert self._target is not None
        async with asyncio.TaskGroup() as group:
            group.create_task(self.configs.follow(), name=f"{self._flow} configs")
            group.create_task(self.statuses.follow(self._target), name=f"{self._flow} statuses")
            group.create_task(self.losses.follow(), name=f"{self._flow} losses")
            group.create_task(self.audit.follow(), name=f"{self._flow} audit")
            group.create_task(self.host.run(), name=f"{self._flow} tasks")
            group.create_task(self._keep_reviewing(), name=f"{self._flow} review")
            await self._follow_membership()

    # -- new settings

    def use(self, settings: FlowSettings) -> None:
        """Apply settings whose changes have at most `UpdateMode.RUNNING`.

        Copying continues, the node remains a member, and a leader starts another term under the same generation.
        """
        self.settings = settings
        self.host.use(settings)
        self._keeper.take_over(settings)
        self.leader.settings_changed()
        self.publish_fingerprint()
        self._review.ring()

    def publish_fingerprint(self) -> None:
        """Publish the fingerprint of this node's file to the other nodes, if it has changed."""
        self._metadata.report()
        if self.leader_term is not None:
            self.leader_term.publish_fingerprint()

    # -- membership

    async def _follow_membership(self) -> None:
        """Apply each membership event: run the assigned tasks, and lead while elected."""
        assert self._election is not None
        try:
            async for membership in self._election.events():
                self._log_membership(membership)
                if not isinstance(membership, Joined):
                    self.host.membership_lost()
                await self.leader.follow(membership)
                if isinstance(membership, Joined):
                    self._take(membership)
                    if membership.is_leader:
                        self.leader.start(self._election)
        finally:
            self.membership = None
            await self.leader.stop()

    def _log_membership(self, membership: Membership) -> None:
        before, self.membership = self.membership, membership
        match membership:
            case Joined(generation=generation):
                leader = "this node" if membership.is_leader else f"node {membership.leader_node}"
                count = len(membership.members)
                nodes = f", {count} nodes" if count > 1 else ""
                log.info("%s: rebalanced; %s is the leader (generation %d%s)", self._flow, leader, generation, nodes)
            case Lost(reason=reason, is_expected=True):
                log.info("%s: %s", self._flow, reason)
            case Lost(reason=reason) | HeldByOther(reason=reason) if before is not None:
                log.warning("%s: %s", self._flow, reason)
            case _:
                log.info("%s: %s", self._flow, membership.reason)
        self._lease_service.wake(Wake.ASSIGNMENT)

    def _take(self, joined: Joined) -> None:
        """Apply the leader's assignment of a rebalance."""
        placement = TaskAssignments.from_json(joined.assignment)
        if placement is None:
            reason = joined.error or "unknown format (is it running a different version?)"
            log.warning("%s: ignoring assignment from leader %s: %s", self._flow, joined.leader_node, reason)
            return
        self._retained.take_placement(placement)
        if not self._ending:
            self.host.take(placement, joined.member_id)
        if self.leader_term is not None:
            self.leader_term.take_placement(placement)
        if len(joined.members) > 1:
            self._lease_service.keep_all_lanes_running()
        self._metadata.acknowledge()
        self._expect_rebalance()
        self._lease_service.wake(Wake.ASSIGNMENT)

    # -- end

    async def leave(self) -> None:
        """Hand all tasks over to the other nodes and return when no task runs here.

        Returns immediately if no other node can take them. The caller limits the wait.
        """
        self._leaving = self._metadata.leaving = True
        if self._metadata.others_offer:
            log.info("%s: handing all tasks over to the other nodes", self._flow)
            self._metadata.report()
            while self.host.holds and self._metadata.others_offer:
                await self._lease_service.wait_for_change(REVIEW_EVERY_S, _HANDED_OVER)

    async def drain(self) -> None:
        """Drain the tasks that still run here, regardless of the assignment; return when their offsets are stored.

        The caller limits the wait.
        """
        self._ending = True
        self.host.drain()
        while self.host.holds:
            await self._lease_service.wait_for_change(REVIEW_EVERY_S, _HANDED_OVER)

    # -- leading

    def _assign(self, generation: int, infos: Mapping[str, MemberInfo]) -> dict[str, Json]:
        """Compute the assignment of a rebalance as its leader. Every member receives the whole assignment."""
        placement = self._place(generation, infos)
        self._retained.take_placement(placement)
        if self.leader_term is not None:
            self.leader_term.take_placement(placement)  # before any member receives it: `SourceTaskPlan.owned`
        assignment: Json = placement.to_json()
        return dict.fromkeys(infos, assignment)

    def _place(self, generation: int, infos: Mapping[str, MemberInfo]) -> TaskAssignments:
        before = self._retained.placement
        return place_tasks(self.tasks(), infos, settings=self.settings, before=before, generation=generation)

    def tasks(self) -> dict[TaskId, int]:
        """Return the tasks of the flow with their weights, as far as they are known on this node."""
        return weighted_tasks(self.settings, self.configs, self.leader_term, self._retained.placement)

    def _make_leader_term(self, generation: int, previous: LeaderTerm | None) -> LeaderTerm:
        assert self._source is not None
        assert self._target is not None
        leader_term = LeaderTerm(
            self.settings,
            generation=generation,
            source=self._source,
            target=self._target,
            configs=self.configs,
            reports=self.statuses.reports,
            query_uses=self.statuses.query_uses,
            fingerprint=lambda: self._identity.terms.get(self._flow),
            changed=self._review.ring,
            source_offsets=self.source_offsets,
            previous=previous,
        )
        leader_term.take_placement(self._retained.placement)
        return leader_term

    async def _keep_reviewing(self) -> None:
        """Request a rebalance whenever one is due."""
        while True:
            await self._review.sleep(REVIEW_EVERY_S)
            try:
                self._review_placement()
            except Exception:  # must not end running tasks
                log.exception("%s: unexpected error while reviewing the assignment; retrying", self._flow)

    def _review_placement(self) -> None:
        self._metadata.report_capacity()
        joined, leader_term = self.joined, self.leader_term
        leads = joined is not None and joined.is_leader and leader_term is not None
        if joined is not None and leads and self._election is not None:
            planned = self._place(joined.generation + 1, joined.members)
            if self._rebalance.is_due(joined, planned=planned, current=self._retained.placement):
                self._election.request_round()
        self._expect_rebalance()
        if joined is not None:
            self._keeper.write_tasks(self.host, joined.generation)
            if leads:
                self._keeper.write_connectors(self._retained.placement, self.configs.pauses, joined.generation)
            else:
                self._keeper.step_down(joined.generation)

    def _expect_rebalance(self) -> None:
        """Send heartbeats at a higher rate while a task or node waits for the next rebalance."""
        if self._election is not None:
            now = time.monotonic()
            if not (self._leaving or expects_rebalance(self.settings, self.configs, self._retained.placement)):
                self._settled_at = now
            self._election.expect_rebalance(0 < now - self._settled_at < EXPECT_REBALANCE_S)

    # -- records published by other nodes

    def _reported(self, report: SourceTaskReport) -> None:
        if self.leader_term is not None:
            self.leader_term.take_report(report)

    def _query_reported(self) -> None:
        self.statuses.query_uses.keep(self.configs.query_histories.lacks)
        if self.leader_term is not None:
            self.leader_term.take_query_uses()

    def _published(self) -> None:
        if self._election is not None:
            self.host.configs_changed()
            self._expect_rebalance()
        self._lease_service.wake(Wake.CONFIGS)

    def _commanded(self, value: bytes | None) -> None:
        """Run a command that the leader published to every node. Raises FormatError."""
        command = decode_command(value, command_types())
        details = (", ".join(value) if isinstance(value, tuple) else str(value) for value in asdict(command).values())
        log.info("%s: %s requested through REST", self._flow, " ".join([command.command, *details]).rstrip())
        run_on_this_node(command, self.host)
