"""The flows of a node, and what a new file starts, restarts and ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from mm2.config.keys.update_mode import UpdateMode
from mm2.config.reload.change_lines import restart_reason
from mm2.config.reload.changes import FileDiff
from mm2.config.settings import FlowSettings, NodeSettings
from mm2.core.naming.names import Flow
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.engine.lease_service import LeaseService
from mm2.node.engine.node_engine import MORE_SQL_LANES, NodeEngine, with_source_tasks
from mm2.node.flow.flow_supervisor import FlowSupervisor
from mm2.node.identity import NodeIdentity

log = logging.getLogger("mm2.node")


class NodeFlows:
    """The supervisors of all flows of the configuration file, and their asyncio tasks.

    ``supervisors`` has those of the newest file, in its order.
    """

    def __init__(
        self,
        settings: NodeSettings,
        identity: NodeIdentity,
        lease_service: LeaseService,
        engine: NodeEngine,
        *,
        supervisor: type[FlowSupervisor] = FlowSupervisor,
    ) -> None:
        """``supervisor`` runs a flow."""
        self._supervisor = supervisor
        self._identity = identity
        self._lease_service = lease_service
        self._engine = engine
        self.supervisors = [supervisor(flow, identity, lease_service) for flow in settings.flows]
        lease_service.board.flows = with_source_tasks(settings)
        self._running: dict[Flow, asyncio.Task[None]] = {}
        self._ending: Sequence[FlowSupervisor] = ()

    def start(self) -> None:
        """Start all flows."""
        for supervisor in self.supervisors:
            self._run(supervisor)

    def get(self, flow: Flow) -> FlowSupervisor | None:
        """Return the supervisor of a flow; None if the file does not have the flow."""
        return next((one for one in self.supervisors if one.settings.flow == flow), None)

    @property
    def all(self) -> list[FlowSupervisor]:
        """The flows of the file, and removed flows that are still draining."""
        return [*self.supervisors, *self._ending]

    async def reload(self, settings: NodeSettings, diff: FileDiff) -> None:
        """Apply a new file, which differs by ``diff``, to the flows; start, restart or stop engines as they need it.

        Unchanged flows continue without interruption, unless their engine restarts.
        """
        supervisors = {supervisor.settings.flow: supervisor for supervisor in self.supervisors}
        wanted = {flow.flow: flow for flow in settings.flows}
        again = {one.flow: restart_reason(one) for one in diff.changed if one.update_mode >= UpdateMode.FLOW}
        new = {
            flow: self._supervisor(wanted[flow], self._identity, self._lease_service)
            for flow in wanted.keys() - supervisors.keys()
        }
        for flow in diff.to_take_over():
            supervisors[flow].use(wanted[flow])
        for flow in wanted.keys() & supervisors.keys():
            supervisors[flow].publish_fingerprint()
        self.supervisors = [new[flow] if flow in new else supervisors[flow] for flow in wanted]
        restart_engine = self._engine.use_more_sql_lanes(settings)
        if restart_engine:
            again = {flow: again.get(flow, MORE_SQL_LANES) for flow in wanted.keys() & supervisors.keys()}
        self._lease_service.board.flows = with_source_tasks(settings)
        if not restart_engine:
            for supervisor in new.values():
                self._run(supervisor)
        self._engine.start(settings)
        ending = [supervisors[flow] for flow in supervisors.keys() - wanted.keys()]
        self._ending = ending
        ends = [self._end(supervisor, "removed from the configuration file") for supervisor in ending]
        if not restart_engine:
            restarts = [self._restart(supervisors[flow], wanted[flow], why) for flow, why in again.items()]
            await asyncio.gather(*ends, *restarts)
        else:
            await asyncio.gather(*ends, *(self._end(supervisors[flow], why) for flow, why in again.items()))
            await self._engine.restart()
            for flow in again:
                supervisors[flow].reset(wanted[flow])
                self._run(supervisors[flow])
            for supervisor in new.values():  # not before, as their lanes would end without a drain
                self._run(supervisor)
        self._ending = ()
        await self._engine.stop_without_queries(settings)

    async def close(self) -> None:
        """End all flows without draining them."""
        await cancel_and_wait(list(self._running.values()))

    def _run(self, supervisor: FlowSupervisor) -> None:
        flow = supervisor.settings.flow
        self._running[flow] = asyncio.create_task(supervisor.run(), name=f"flow {flow}")

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
