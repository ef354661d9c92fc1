"""One running node: its flows and its engine, from start to drain, and the remote topics that several flows
write."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from mm2.config.lane_counts import lanes_of
from mm2.config.reload.changes import FileDiff
from mm2.config.settings import FlowSettings, NodeSettings
from mm2.core.access.audit import AuditEntry, CommandOrigin
from mm2.core.coordination.commands import Command, CommandRefusedError
from mm2.core.coordination.leader_context import LeaderContext
from mm2.core.coordination.query_history_records import QueriesUnreadableError, QueryHistories
from mm2.core.lanes.engine_orders import EngineRole
from mm2.core.lanes.lease import LeaseEndpoint
from mm2.core.lanes.losses import Loss, LossesUnreadableError
from mm2.core.lanes.partition_steps import PartitionStory
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.plugins import PluginError
from mm2.core.positions.positions import Position, PositionAnswers, PositionsUnreadableError
from mm2.kafka.errors import ClusterError
from mm2.node.common import audit_log
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.common.restarting import restart_on_error
from mm2.node.engine.engine_process import EngineProcess
from mm2.node.engine.lane_board import LaneBoard
from mm2.node.engine.lease_service import LeaseService, Wake
from mm2.node.engine.node_engine import NodeEngine
from mm2.node.engine.temp_directory import remove_abandoned
from mm2.node.engine.tokens import new_token
from mm2.node.flow.flow_supervisor import LEAVING_SHARE, FlowSupervisor
from mm2.node.flow.node_flows import NodeFlows
from mm2.node.identity import NodeIdentity
from mm2.node.observe.cluster_watch import ClusterWatch
from mm2.node.status.credentials import CredentialWatch
from mm2.node.status.status_model import FileStatus, FlowStatus, NodeStatus

_NAMED = 3  # maximum number of topics in a message


def shared_remote_topics(flows: Iterable[FlowStatus]) -> Mapping[str, str]:
    """Return a warning for each flow that writes remote topics which another flow writes, too.

    This can be intended, to merge clusters, so it is only a warning.
    """
    by_target: defaultdict[str, list[FlowStatus]] = defaultdict(list)
    for flow in flows:
        if flow.topics:
            by_target[flow.target].append(flow)
    found: dict[str, str] = {}
    for target, into in by_target.items():
        if len(into) < 2:
            continue
        writers: defaultdict[str, list[str]] = defaultdict(list)
        for flow in into:
            for topic in flow.topics:
                writers[topic.remote_topic].append(flow.flow)
        for flow in into:
            shared = sorted(topic.remote_topic for topic in flow.topics if len(writers[topic.remote_topic]) > 1)
            if shared:
                others = {other for name in shared for other in writers[name]} - {flow.flow}
                found[flow.flow] = _warning(target, shared, sorted(others))
    return found


def _warning(target: str, topics: list[str], others: list[str]) -> str:
    more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
    named = f"{'topic' if len(topics) == 1 else 'topics'} {', '.join(topics[:_NAMED])}{more}"
    return (
        f"{named} on cluster {target} {'is' if len(topics) == 1 else 'are'} also written by {', '.join(others)}, so"
        " records of different flows are mixed; if this is not intended, exclude"
        f" {'it' if len(topics) == 1 else 'them'} from one of the flows (topics.exclude)"
    )


log = logging.getLogger("mm2.node")

PUBLISH_EVERY_S = 1.0
"""Maximum age of the published status; lanes report at the same interval."""

WATCH_EVERY_S = 1.0
"""How often leases are checked for expiry: a fifteenth of the lease time."""


class Node:
    """Runs every flow of the configuration file until `drain`.

    ``file`` is the status of that file, ``listening`` has the certificates that its listeners use. ``audit_file_error``
    returns why mm2.audit.file cannot be written, or None; the program sets it. ``published`` is the newest node status;
    it can be read from any thread. A node keeps no state on its disk: everything that must survive a restart is stored
    in Kafka.
    """

    def __init__(
        self,
        settings: NodeSettings,
        identity: NodeIdentity,
        file: FileStatus,
        *,
        flow_supervisor: type[FlowSupervisor] = FlowSupervisor,
        engine_process: type[EngineProcess] = EngineProcess,
    ) -> None:
        """``flow_supervisor`` and ``engine_process``: what runs flows and the engine."""
        self._settings = settings
        self._identity = identity
        self._started_at = time.time()
        lanes = lanes_of(settings.own)
        remove_abandoned("node")
        buffer_bytes = settings.own.lane_buffer_bytes
        master = settings.master
        board = LaneBoard(
            lanes=lanes,
            buffer_bytes=buffer_bytes,
            new_secret=new_token,
            cluster=master.url if master.is_cluster else None,
        )
        board.use_credentials(settings.credentials)
        self.lease_service = LeaseService(board, capacity=lanes)
        self._engine = NodeEngine(settings, self.lease_service, process=engine_process)
        self.flows = NodeFlows(settings, identity, self.lease_service, self._engine, supervisor=flow_supervisor)
        self._clusters = ClusterWatch(settings.flows)
        self.file = file
        self.audit_file_error: Callable[[], str | None] = lambda: None
        self.listening = settings.listening
        self._credentials = CredentialWatch()
        self._tasks: list[asyncio.Task[None]] = []
        self._shared: Mapping[str, str] = {}
        self._draining = False
        self.published = self._status()

    async def start(self, lease_url: str, lanes: LeaseEndpoint) -> None:
        """Start all flows and the engine as asyncio tasks, and return.

        ``lease_url`` is the address of ``lease_service`` for the engine, ``lanes`` its address for lanes.
        """
        self.lease_service.url = lease_url
        self._spawn(partial(self._keep, self._watch_leases, WATCH_EVERY_S), "watch leases")
        self._spawn(self._move_tasks_without_executor, "move source tasks without an executor")
        self._spawn(partial(self._keep, self._publish, PUBLISH_EVERY_S), "publish")
        self._clusters.start()
        self.flows.start()
        self._engine.start(self._settings, lanes)

    async def reload(self, settings: NodeSettings, diff: FileDiff) -> None:
        """Apply a new file, which differs by ``diff``.

        Settings of the node as a whole keep their values until a restart. Unchanged flows continue without
        interruption.
        """
        await self._clusters.use(settings.flows)
        await self.flows.reload(settings, diff)

    def use_credentials(self, credentials: Mapping[str, str]) -> None:
        """Let lanes on other machines use these contents of files for their next tokens and tickets."""
        self.lease_service.use_credentials(credentials)

    def use_log_levels(self, levels: Mapping[str, str]) -> None:
        """Let engines and lanes log from these levels on, by logger."""
        self.lease_service.use_log_levels(levels)

    def use_lane_place(self, lanes: LeaseEndpoint) -> None:
        """Let lanes request their leases at ``lanes`` after the next start of the engine."""
        self._engine.use_lane_place(lanes)

    async def until(self, condition: Callable[[NodeStatus], bool], within: float) -> bool:
        """Wait until the published status meets ``condition``; return False after ``within`` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while not condition(self.published):
                    await self.lease_service.wait_for_change(PUBLISH_EVERY_S)
                return True
        return False

    def leader_context(self, source: str, target: str) -> LeaderContext | None:
        """Return what is needed to route and sign requests for a flow; None if the node does not have the flow."""
        supervisor = self.flows.get(Flow(source, target))
        return supervisor.leader_context() if supervisor is not None else None

    def audit(self, entry: AuditEntry, *, stored: bool = False) -> None:
        """Log what was done; ``stored``: write it to the audit topic of its flow, too."""
        audit_log.write(entry)
        if stored and entry.flow is not None:
            supervisor = next((one for one in self.flows.supervisors if str(one.settings.flow) == entry.flow), None)
            if supervisor is not None:
                supervisor.audit(entry)

    async def carry_out(
        self, flow: Flow, command: Command, origin: CommandOrigin, status: Callable[[], Awaitable[FlowStatus]]
    ) -> str:
        """Run a command for a flow that this node leads; return a message about its effect.

        Raises CommandRefusedError.
        """
        supervisor = self.flows.get(flow)
        if supervisor is None:
            raise CommandRefusedError(f"there is no flow {flow} on this node", is_unknown=True)
        return await supervisor.carry_out(command, origin, status)

    async def losses(self, flow: Flow) -> tuple[Loss, ...]:
        """Return every recorded loss of a flow of this node. Raises LossesUnreadableError."""
        supervisor = self.flows.get(flow)
        if supervisor is None:
            raise LossesUnreadableError(self._no_flow(flow), is_unknown=True)
        return await supervisor.losses()

    def query_histories(self, flow: Flow) -> QueryHistories:
        """Return the histories of queries of a flow of this node. Raises QueriesUnreadableError."""
        supervisor = self.flows.get(flow)
        if supervisor is None:
            raise QueriesUnreadableError(self._no_flow(flow), is_unknown=True)
        return supervisor.query_histories()

    async def translate(self, flow: Flow, positions: Sequence[Position], reverse: bool) -> PositionAnswers:
        """Translate positions of a flow of this node, with ``reverse`` from its target to its source.

        Raises PositionRejectedError and PositionsUnreadableError.
        """
        supervisor = self.flows.get(flow)
        if supervisor is None:
            raise PositionsUnreadableError(self._no_flow(flow), is_unknown=True)
        return await supervisor.positions.translate(positions, reverse=reverse)

    def story(self, flow: Flow, partition: TopicPartition) -> PartitionStory:
        """Return what this node knows of one partition of a flow; nothing if it does not have the flow."""
        supervisor = self.flows.get(flow)
        return PartitionStory() if supervisor is None else supervisor.story(partition)

    def _no_flow(self, flow: Flow) -> str:
        there_are = ", ".join(str(one.settings.flow) for one in self.flows.supervisors) or "none"
        return f"no flow {flow} on this node; its flows: {there_are}"

    def kill(self) -> None:
        """Kill the engines' processes without draining, because the node is about to exit."""
        self._engine.kill()

    def _status(self) -> NodeStatus:
        engine = self.lease_service.board.engines.get(EngineRole.MAIN)
        flows = [self._with_engine_errors(flow.status(), flow.settings) for flow in self.flows.all]
        unwritten = [] if (error := self.audit_file_error()) is None else [error]
        credentials = self._credentials.observe([flow.settings for flow in self.flows.all], self.listening)
        flows = [
            replace(flow, reasons=(*flow.reasons, *self.file.reasons, *unwritten, *credentials.reasons_of(flow)))
            for flow in flows
        ]
        return NodeStatus(
            node_id=self._identity.node_id,
            version=self._identity.version,
            started_at=self._started_at,
            flows=tuple(self._with_shared_topics(flows)),
            file=self.file,
            spark_ui=engine.spark_ui if engine else None,
            lane_buffers=self.lease_service.board.buffers(),
            clusters=self._clusters.status(),
            draining=self._draining,
            engines=self._engine.statuses,
            lane_memory=self.lease_service.board.memory(),
            certificates=credentials.certificates,
            renewals=credentials.renewals,
        )

    async def drain(self, within: float) -> bool:
        """Hand tasks over to other nodes, stop fetching, and wait until everything in flight is acknowledged.

        All source offsets are stored, too. Return False if that took longer than ``within`` seconds; records whose
        offsets were not stored are then copied again by the next owner.
        """
        began = time.monotonic()
        self._draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within * LEAVING_SHARE):
                await asyncio.gather(*(flow.leave() for flow in self.flows.all))
        within -= time.monotonic() - began
        for flow in self.flows.all:
            flow.drain()
        self.lease_service.board.drain()
        self.lease_service.wake(Wake.ORDERS)
        drained = True
        try:
            async with asyncio.timeout(within):
                while not self.lease_service.board.drained:
                    await self.lease_service.wait_for_change(WATCH_EVERY_S, {Wake.REPORT, Wake.ORDERS})
        except TimeoutError:
            drained = False
        self.lease_service.board.end()
        self.lease_service.wake(Wake.ORDERS)
        return drained

    async def close(self) -> None:
        """Stop the engines and all asyncio tasks."""
        await self._engine.close()
        await self.flows.close()
        await self._clusters.close()
        await cancel_and_wait(self._tasks)

    def _with_engine_errors(self, status: FlowStatus, settings: FlowSettings) -> FlowStatus:
        """Return the status with the errors of the engines that the flow needs: it would look healthy without them."""
        if not status.enabled or not status.is_leader:
            return status
        needed = EngineRole if settings.queries.in_order else (EngineRole.MAIN,)
        errors = [error for role in needed if (error := self._engine.error(role)) is not None]
        if not errors:
            return status
        return replace(status, state=TaskState.WAITING, reasons=(*status.reasons, *errors))

    def _with_shared_topics(self, flows: Sequence[FlowStatus]) -> Iterator[FlowStatus]:
        """Add a reason to every flow that writes a remote topic which another flow writes too."""
        shared = shared_remote_topics(flows)
        for flow in shared.keys() - self._shared.keys():
            log.warning("%s: %s", flow, shared[flow])
        self._shared = shared
        for status in flows:
            warning = shared.get(status.flow)
            yield status if warning is None else replace(status, reasons=(*status.reasons, warning))

    def _spawn(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        self._tasks.append(asyncio.create_task(restart_on_error(work, name), name=name))

    def _publish(self) -> None:
        self.published = self._status()

    def _watch_leases(self) -> None:
        self.lease_service.observe_lanes()
        for message in self.lease_service.board.expire(time.monotonic()):
            log.warning("%s", message)
            self.lease_service.wake(Wake.ORDERS, Wake.REPORT)

    async def _move_tasks_without_executor(self) -> None:
        while True:
            try:
                await self.lease_service.move_tasks_without_executor()
            except (ClusterError, PluginError) as error:
                log.warning("failed to move source tasks to lanes with an executor; retrying: %s", error)
            await asyncio.sleep(WATCH_EVERY_S)

    async def _keep(self, work: Callable[[], None], every_s: float) -> None:
        """Call ``work`` periodically, also after errors: an outdated status would hide later failures."""
        while True:
            try:
                work()
            except Exception:
                log.exception("unexpected error; retrying in %g s", every_s)
            await asyncio.sleep(every_s)
