"""One flow on one node: its sessions, one after the other, and its status."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from mm2.config.settings import FlowSettings
from mm2.core.access.audit import AuditEntry, CommandOrigin
from mm2.core.coordination.commands import Command, CommandRefusedError
from mm2.core.coordination.leader_context import LeaderContext
from mm2.core.coordination.query_history_records import QueriesUnreadableError, QueryHistories
from mm2.core.lanes.losses import Loss, LossesUnreadableError
from mm2.core.lanes.partition_steps import PartitionEvent, PartitionStory
from mm2.core.lanes.task_states import TaskState
from mm2.core.log_records import work_for
from mm2.core.naming.names import TopicPartition
from mm2.core.plugins import PluginError
from mm2.election.protocol import HeldByOther
from mm2.kafka.admin.internal_topics import WrongInternalTopic
from mm2.kafka.errors import ClusterError
from mm2.node.checkpoint.position_service import PositionService
from mm2.node.commands.leader import LeaderHandle
from mm2.node.commands.registry import carry_out
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.common.restarting import restart_on_error
from mm2.node.engine.lease_service import LeaseService
from mm2.node.flow.flow_session import FlowSession
from mm2.node.flow.flow_status import DuplicateNodeIds, FlowStatusBuilder
from mm2.node.flow.retained_state import RetainedFlowState
from mm2.node.identity import NodeIdentity
from mm2.node.observe.flow_observations import FlowObservations
from mm2.node.observe.source_observer import SourceObserver
from mm2.node.source.converted_copies import CopiesConverted
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.status.status_model import FlowStatus
from mm2.node.store.audit_store import AuditQueue

log = logging.getLogger(__name__)

LEAVING_SHARE = 0.7
"""Share of the drain timeout for handing tasks over to other nodes. Tasks that are not taken over in time are drained
in the remaining time."""


class FlowSupervisor:
    """Runs one flow of the node and restarts its session after errors.

    ``positions`` translates positions for clients, with or without a session.

    Invariant (A): an error of one flow ends neither another flow nor the node.
    """

    def __init__(self, settings: FlowSettings, identity: NodeIdentity, lease_service: LeaseService) -> None:
        self.settings = settings
        self._identity = identity
        self._lease_service = lease_service
        self._retained = RetainedFlowState()
        self._observations = FlowObservations(identity.node_id, settings.clients.fetch)
        self._session: FlowSession | None = None
        self._error = CurrentError(log, settings.flow, "connecting")
        self._leaving = False
        self._draining = False
        self._commanding = asyncio.Lock()
        self._audit_queue = AuditQueue()
        self._duplicate_node_ids = DuplicateNodeIds()
        self.positions = PositionService(settings)

    async def run(self) -> None:
        """Run the flow until cancelled; start a new session after an error, and observe its source meanwhile."""
        work_for(self.settings.flow)
        observer = SourceObserver(self.settings, self._observations, self._stored_offsets)
        name = f"{self.settings.flow} observe"
        observing = asyncio.create_task(restart_on_error(observer.run, name), name=name)
        try:
            await keep_trying(
                self._run_session,
                self._error,
                str,
                expected=(ClusterError, PluginError),
                unexpected="flow failed unexpectedly; restarting (see the log)",
            )
        finally:
            await cancel_and_wait([observing])
            await self.positions.close()

    def _stored_offsets(self) -> StoredSourceOffsets | None:
        """Return the stored offsets, which are those of this flow while the node is a member of its group."""
        session = self._session
        return None if session is None or session.joined is None else session.source_offsets

    async def _run_session(self) -> None:
        session = FlowSession(
            self.settings,
            self._identity,
            self._lease_service,
            self._retained,
            self._audit_queue,
            leaving=self._leaving,
        )
        async with session.connected():
            self._session = session
            self._error.clear()
            if session.settings is not self.settings:
                session.use(self.settings)
            try:
                await session.run()
            finally:
                self._session = None
                await session.host.close()

    # -- new settings

    def use(self, settings: FlowSettings) -> None:
        """Apply settings whose changes have at most `UpdateMode.RUNNING`."""
        self.settings = settings
        self.positions.use(settings)
        if self._session is not None:
            self._session.use(settings)

    def publish_fingerprint(self) -> None:
        """Publish the fingerprint of this node's file to the other nodes."""
        if self._session is not None:
            self._session.publish_fingerprint()

    async def stop(self, reason: str) -> None:
        """Hand all tasks over to other nodes and drain the rest, before `run` is cancelled.

        ``reason`` is shown meanwhile. Takes at most task.shutdown.graceful.timeout.ms.
        """
        timeout_s = self.settings.worker.task_shutdown_graceful_timeout_ms / 1000
        self._error.text = reason
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(timeout_s * LEAVING_SHARE):
                        await self.leave()
                if self._session is not None:
                    await self._session.drain()

    def reset(self, settings: FlowSettings) -> None:
        """Prepare for another `run` with these settings, after `stop` and after `run` was cancelled."""
        self.settings = settings
        self.positions.use(settings)
        self._observations = FlowObservations(self._identity.node_id, settings.clients.fetch)
        self._leaving = False
        self._error.cause = None

    # -- shutdown of the node

    async def leave(self) -> None:
        """Hand all tasks over to other nodes, if there are any, and return when no task runs here.

        The caller limits the wait.
        """
        self._leaving = True
        if self._session is not None:
            await self._session.leave()

    def drain(self) -> None:
        """Start and change no tasks from now on, because the node drains."""
        self._draining = True
        if self._session is not None:
            self._session.host.freeze()

    # -- requests from other nodes and operators

    def leader_context(self) -> LeaderContext:
        """Return what this node needs to route requests to the leader and to sign them."""
        worker, session = self.settings.worker, self._session
        joined = session.joined if session is not None else None
        leader = joined.members.get(joined.leader_id) if joined is not None else None
        return LeaderContext(
            flow=self.settings.flow,
            leads=session is not None and session.leader_term is not None,
            leader_url=(leader.url or None) if leader is not None else None,
            own_url=self._identity.url or None,
            session_key=session.configs.session_key if session is not None else None,
            signature_algorithm=worker.inter_worker_signature_algorithm,
            accepted_algorithms=worker.inter_worker_verification_algorithms,
        )

    async def carry_out(
        self, command: Command, origin: CommandOrigin, status: Callable[[], Awaitable[FlowStatus]]
    ) -> str:
        """Run a command for the flow, which this node leads; ``status`` returns the status of the whole flow.

        Raises CommandRefusedError.
        """
        session = self._session
        if session is None or session.leader_term is None:
            raise CommandRefusedError(f"this node is not the leader of {self.settings.flow}")
        async with self._commanding:  # each pause extends the stored list of pauses
            leader = LeaderHandle(
                term=session.leader_term,
                configs=session.configs,
                placement=self._retained.placement,
                losses=session.losses,
                status=status,
                origin=origin,
            )
            return await carry_out(command, leader)

    def audit(self, entry: AuditEntry) -> None:
        """Write a record to the audit topic as soon as possible. A flow without one ignores it."""
        if self.settings.enabled and self.settings.takes_commands:
            self._audit_queue.add(entry)

    def story(self, partition: TopicPartition) -> PartitionStory:
        """Return what lanes of this node have reported of the partition besides its progress.

        The leader adds when an operator last had it copied again, which is stored.
        """
        story, session = self._retained.progress.story(partition), self._session
        repeat = session.configs.repeats.of(partition) if session is not None else None
        if repeat is None or session is None or session.leader_term is None:
            return story
        topic, number = partition.topic, partition.partition
        stored = [PartitionEvent(topic, number, at=at / 1_000, text=text) for at, text in repeat.events]
        return replace(story, events=tuple(sorted((*story.events, *stored), key=lambda one: one.at)))

    async def losses(self) -> tuple[Loss, ...]:
        """Return every recorded loss. Raises LossesUnreadableError."""
        if self._session is None:
            raise LossesUnreadableError(f"cannot read the losses of {self.settings.flow}: {self._error.text}")
        try:
            return await self._session.losses.recorded()
        except ClusterError as error:
            raise LossesUnreadableError(f"cannot read the losses of {self.settings.flow}: {error}") from error

    def query_histories(self) -> QueryHistories:
        """Return the histories of queries, as this node has read them. Raises QueriesUnreadableError."""
        if self._session is None:
            raise QueriesUnreadableError(f"cannot read the queries of {self.settings.flow}: {self._error.text}")
        return self._session.configs.query_histories

    # -- status

    def status(self) -> FlowStatus:
        """Return the status of the flow on this node."""
        cause = self._error.cause
        own_state = None
        if cause is not None and (
            not isinstance(cause, ClusterError) or isinstance(cause, WrongInternalTopic | CopiesConverted)
        ):
            own_state = TaskState.FAILED
        elif self._draining or self._leaving:
            own_state = TaskState.DRAINING
        elif self._error.text is not None:
            own_state = TaskState.WAITING
        built = FlowStatusBuilder(
            settings=self.settings,
            identity=self._identity,
            retained=self._retained,
            session=self._session,
            own_state=own_state,
            error=self._error.text,
            connect_error=self._error.text if cause is not None else None,
            duplicate_node_ids=self._duplicate_node_ids,
        ).build()
        session = self._session
        joined = session.joined if session is not None else None
        is_held = session is not None and isinstance(session.membership, HeldByOther)
        members = None if joined is None else len(joined.members)
        return self._observations.fill(built, members=members, is_alone=not is_held)
