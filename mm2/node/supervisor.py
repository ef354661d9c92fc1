"""One running node: its flows and its engine, from start to drain."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mm2.config.keys.update_mode import UpdateMode
from mm2.config.reload.change_lines import restart_reason
from mm2.config.reload.changes import FileDiff
from mm2.config.settings import FlowSettings, NodeSettings
from mm2.core.coordination.commands import Command, CommandRefusedError
from mm2.core.coordination.leader_context import LeaderContext
from mm2.core.lanes.lease import LeasePlace
from mm2.core.lanes.losses import Loss, LossesUnreadableError
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow
from mm2.core.plugins import PluginError
from mm2.kafka.errors import ClusterError
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.common.restarting import restart_on_error
from mm2.node.engine.engine_process import EngineProcess
from mm2.node.engine.lane_board import LaneBoard
from mm2.node.engine.lease_service import LeaseService
from mm2.node.engine.spark_settings import host_of, spark_settings
from mm2.node.flow.flow_supervisor import LEAVING_SHARE, FlowSupervisor
from mm2.node.flow.shared_remote_topics import shared_remote_topics
from mm2.node.identity import NodeIdentity
from mm2.node.status.status_model import FileStatus, FlowStatus, NodeStatus

log = logging.getLogger("mm2.node")

PUBLISH_EVERY_S = 1.0
"""Maximum age of the published status; lanes report at the same interval."""

WATCH_EVERY_S = 1.0
"""How often leases are checked for expiry: a fifteenth of the lease time."""


class Node:
    """Runs every flow of the configuration file until `drain`.

    ``file`` is the status of that file. ``published`` is the newest node status; it can be read from any thread.
    A node keeps no state on its disk: everything that must survive a restart is stored in Kafka.
    """

    def __init__(self, settings: NodeSettings, identity: NodeIdentity, file: FileStatus) -> None:
        self._settings = settings
        self._identity = identity
        self._started_at = time.time()
        lanes = settings.own.lanes or os.cpu_count() or 1
        self._temp_dir = Path(tempfile.mkdtemp(prefix="mm2-node-"))
        buffer_bytes = settings.own.lane_buffer_bytes
        master = settings.master
        board = LaneBoard(
            lanes=lanes,
            buffer_bytes=buffer_bytes,
            new_secret=lambda: secrets.token_hex(16),
            cluster=master.url if master.is_cluster else None,
        )
        self.lease_service = LeaseService(board, capacity=lanes)
        self._engine: EngineProcess | None = None
        self.flows = [FlowSupervisor(flow, identity, self.lease_service) for flow in settings.flows]
        self.file = file
        self._lane_place: LeasePlace | None = None
        self._running: dict[Flow, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: Sequence[FlowSupervisor] = ()
        self._shared: Mapping[str, str] = {}
        self.published = self._status()

    async def start(self, lease_url: str, lanes: LeasePlace) -> None:
        """Start all flows and the engine as asyncio tasks, and return.

        ``lease_url`` is the address of ``lease_service`` for the engine, ``lanes`` its address for lanes.
        """
        self.lease_service.url, self._lane_place = lease_url, lanes
        self._spawn(partial(self._keep, self._watch_leases, WATCH_EVERY_S), "watch leases")
        self._spawn(self._move_starving, "move source tasks without an executor")
        self._spawn(partial(self._keep, self._publish, PUBLISH_EVERY_S), "publish")
        for supervisor in self.flows:
            self._run(supervisor)
        self._start_engine(self._settings)

    def _run(self, supervisor: FlowSupervisor) -> None:
        flow = supervisor.settings.flow
        self._running[flow] = asyncio.create_task(supervisor.run(), name=f"flow {flow}")

    def _start_engine(self, settings: NodeSettings) -> None:
        """Start the engine if any flow is enabled; it then runs until the node stops."""
        enabled = [str(flow.flow) for flow in settings.flows if flow.enabled]
        if self._engine is not None or self._lane_place is None or not enabled:
            return
        self._engine = EngineProcess(
            node_url=self.lease_service.url,
            token=self.lease_service.engine_token,
            app_name=f"mm2 {' '.join(enabled)}",
            leases=self._lane_place,
            spark=spark_settings(
                self._settings.spark,
                lanes=self.lease_service.capacity,
                temp_dir=self._temp_dir,
                lane_buffer_bytes=self._settings.own.lane_buffer_bytes,
                own_host=host_of(self._lane_place.url),
            ),
            temp_dir=self._temp_dir,
            on_lost=self._engine_lost,
        )
        self._spawn(self._engine.run, "engine")
        self.lease_service.board.keep_warm(1)

    # -- new configuration

    async def reload(self, settings: NodeSettings, diff: FileDiff) -> None:
        """Apply a new file, which differs by ``diff``.

        Settings of the node as a whole keep their values until a restart. Unchanged flows continue without
        interruption.
        """
        supervisors = {supervisor.settings.flow: supervisor for supervisor in self.flows}
        wanted = {flow.flow: flow for flow in settings.flows}
        again = {one.flow: restart_reason(one) for one in diff.changed if one.update_mode >= UpdateMode.FLOW}
        new = {
            flow: FlowSupervisor(wanted[flow], self._identity, self.lease_service)
            for flow in wanted.keys() - supervisors.keys()
        }
        for flow in diff.to_take_over():
            supervisors[flow].use(wanted[flow])
        for flow in wanted.keys() & supervisors.keys():
            supervisors[flow].publish_fingerprint()
        self.flows = [new[flow] if flow in new else supervisors[flow] for flow in wanted]
        for supervisor in new.values():
            self._run(supervisor)
        self._start_engine(settings)
        ending = [supervisors[flow] for flow in supervisors.keys() - wanted.keys()]
        self._ending = ending
        await asyncio.gather(
            *(self._end(supervisor, "removed from the configuration file") for supervisor in ending),
            *(self._restart(supervisors[flow], wanted[flow], why) for flow, why in again.items()),
        )
        self._ending = ()

    async def _restart(self, supervisor: FlowSupervisor, settings: FlowSettings, why: str) -> None:
        log.info("%s: %s", settings.flow, why)
        await self._end(supervisor, why)
        supervisor.reset(settings)
        self._run(supervisor)

    async def _end(self, supervisor: FlowSupervisor, why: str) -> None:
        """Drain a flow, leave its group, and end all its tasks on this node."""
        await supervisor.stop(why)
        task = self._running.pop(supervisor.settings.flow)
        await cancel_and_wait([task])

    async def until(self, condition: Callable[[NodeStatus], bool], within: float) -> bool:
        """Wait until the published status meets ``condition``; return False after ``within`` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while not condition(self.published):
                    await self.lease_service.changed(PUBLISH_EVERY_S)
                return True
        return False

    def leader_context(self, source: str, target: str) -> LeaderContext | None:
        """Return what is needed to route and sign requests for a flow; None if the node does not have the flow."""
        supervisor = self._supervisor(Flow(source, target))
        return supervisor.leader_context() if supervisor is not None else None

    async def carry_out(self, flow: Flow, command: Command, status: Callable[[], Awaitable[FlowStatus]]) -> str:
        """Run a command for a flow that this node leads; return a message about its effect.

        Raises CommandRefusedError.
        """
        supervisor = self._supervisor(flow)
        if supervisor is None:
            raise CommandRefusedError(f"there is no flow {flow} on this node", is_unknown=True)
        return await supervisor.carry_out(command, status)

    async def losses(self, flow: Flow) -> tuple[Loss, ...]:
        """Return every recorded loss of a flow of this node. Raises LossesUnreadableError."""
        supervisor = self._supervisor(flow)
        if supervisor is None:
            there_are = ", ".join(str(one.settings.flow) for one in self.flows) or "none"
            raise LossesUnreadableError(f"no flow {flow} on this node; its flows: {there_are}", is_unknown=True)
        return await supervisor.losses()

    def _supervisor(self, flow: Flow) -> FlowSupervisor | None:
        return next((one for one in self.flows if one.settings.flow == flow), None)

    @property
    def _all(self) -> list[FlowSupervisor]:
        """The flows of the file, and removed flows that are still draining."""
        return [*self.flows, *self._ending]

    def kill(self) -> None:
        """Kill the engine's processes without draining, because the node is about to exit."""
        if self._engine is not None:
            self._engine.kill()
        shutil.rmtree(self._temp_dir, ignore_errors=True)

    def _status(self) -> NodeStatus:
        engine = self.lease_service.board.engine
        error = self._engine.trouble if self._engine is not None else None
        if self._engine is not None and engine is None and error is None:
            error = self._starting(self._engine)
        flows = [self._with_engine_error(flow.status(), error) for flow in self._all]
        flows = [replace(flow, reasons=(*flow.reasons, *self.file.reasons)) for flow in flows]
        return NodeStatus(
            node_id=self._identity.node_id,
            version=self._identity.version,
            started_at=self._started_at,
            flows=tuple(self._with_shared_topics(flows)),
            file=self.file,
            spark_ui=engine.spark_ui if engine else None,
        )

    def _starting(self, engine: EngineProcess) -> str:
        """Return why the engine is not ready although its process runs."""
        master = self._settings.master
        waiting = f", waiting for Spark master {master.url} to accept the application" if master.is_cluster else ""
        previous = f" (previous attempt: {engine.ended})" if engine.ended else ""
        return f"the Spark engine is starting{waiting}{previous}"

    async def drain(self, within: float) -> bool:
        """Hand tasks over to other nodes, stop fetching, and wait until everything in flight is acknowledged.

        All source offsets are stored, too. Return False if that took longer than ``within`` seconds; records whose
        offsets were not stored are then copied again by the next owner.
        """
        began = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within * LEAVING_SHARE):
                await asyncio.gather(*(flow.leave() for flow in self._all))
        within -= time.monotonic() - began
        for flow in self._all:
            flow.drain()
        self.lease_service.board.drain()
        self.lease_service.wake()
        drained = True
        try:
            async with asyncio.timeout(within):
                while not self.lease_service.board.drained:
                    await self.lease_service.changed(WATCH_EVERY_S)
        except TimeoutError:
            drained = False
        self.lease_service.board.end()
        self.lease_service.wake()
        return drained

    async def close(self) -> None:
        """Stop the engine and all asyncio tasks, and remove the temporary directory."""
        if self._engine is not None:
            await self._engine.close()
        tasks = [*self._tasks, *self._running.values()]
        await cancel_and_wait(tasks)
        shutil.rmtree(self._temp_dir, ignore_errors=True)

    def _with_engine_error(self, status: FlowStatus, error: str | None) -> FlowStatus:
        """Return the status with the engine's error, without which an enabled flow would look healthy."""
        if error is None or not status.enabled or not status.is_leader:
            return status
        return replace(status, state=TaskState.WAITING, reasons=(*status.reasons, error))

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

    def _engine_lost(self) -> None:
        self.lease_service.board.engine_lost(time.monotonic())
        self.lease_service.wake()

    def _publish(self) -> None:
        self.published = self._status()

    def _watch_leases(self) -> None:
        self.lease_service.observe_lanes()
        for message in self.lease_service.board.expire(time.monotonic()):
            log.warning("%s", message)
            self.lease_service.wake()

    async def _move_starving(self) -> None:
        while True:
            try:
                await self.lease_service.move_starving()
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
