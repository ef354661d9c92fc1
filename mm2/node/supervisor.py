"""One running node: its flows, its engine, its REST interface, from start to drained."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mm2.config.change_lines import restart_reason
from mm2.config.changes import FileDiff
from mm2.config.reach import Reach
from mm2.config.settings import FlowSettings, NodeSettings
from mm2.core.commands import Command, CommandRefusedError
from mm2.core.lease import LeasePlace, TaskState
from mm2.core.names import Flow
from mm2.core.plugins import PluginError
from mm2.core.standing import Standing
from mm2.kafka.errors import ClusterError
from mm2.node.desk import Desk
from mm2.node.engine_process import EngineProcess
from mm2.node.flow import LEAVING_SHARE, FlowRunner
from mm2.node.lanes import LaneBoard
from mm2.node.node_identity import NodeIdentity
from mm2.node.published import FileStatus, FlowStatus, NodeStatus
from mm2.node.shared_remote_topics import shared_remote_topics
from mm2.node.spark_settings import host_of, spark_settings

log = logging.getLogger("mm2.node")

PUBLISH_EVERY_S = 1.0
"""How old what the node shows may be; lanes report as often."""

WATCH_EVERY_S = 1.0
"""How often leases are checked for expiry: a fifteenth of the lease time."""


class Node:
    """Runs every flow of the file until `drain`. ``file`` is what is shown of that file. ``published`` is the
    newest picture of it all, safe to read from any thread.

    What must survive lives in Kafka; a node leaves nothing behind but what it replicated.
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
        self.desk = Desk(board, capacity=lanes)
        self._engine: EngineProcess | None = None
        self.flows = [FlowRunner(flow, identity, self.desk) for flow in settings.flows]
        self.file = file
        self._lane_place: LeasePlace | None = None
        self._running: dict[Flow, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._parting: Sequence[FlowRunner] = ()
        self._shared: Mapping[Flow, str] = {}
        self.published = self._status()

    async def start(self, lease_url: str, lanes: LeasePlace) -> None:
        """Start everything and return; it goes on in tasks of its own. ``lease_url``: where ``desk`` is served to the
        engine; ``lanes``: where to lanes."""
        self.desk.url, self._lane_place = lease_url, lanes
        self._spawn(self._keep(self._watch_leases, WATCH_EVERY_S), "watch leases")
        self._spawn(self._move_starving(), "move slots without an executor")
        self._spawn(self._keep(self._publish, PUBLISH_EVERY_S), "publish")
        for runner in self.flows:
            self._run(runner)
        self._start_engine(self._settings)

    def _run(self, runner: FlowRunner) -> None:
        flow = runner.settings.flow
        self._running[flow] = asyncio.create_task(runner.run(), name=f"flow {flow}")

    def _start_engine(self, settings: NodeSettings) -> None:
        """With the first flow that copies records; it stays."""
        enabled = [str(flow.flow) for flow in settings.flows if flow.enabled]
        if self._engine is not None or self._lane_place is None or not enabled:
            return
        self._engine = EngineProcess(
            node_url=self.desk.url,
            token=self.desk.engine_token,
            app_name=f"mm2 {' '.join(enabled)}",
            leases=self._lane_place,
            spark=spark_settings(
                self._settings.spark,
                lanes=self.desk.capacity,
                temp_dir=self._temp_dir,
                lane_buffer_bytes=self._settings.own.lane_buffer_bytes,
                own_host=host_of(self._lane_place.url),
            ),
            temp_dir=self._temp_dir,
            on_lost=self._engine_lost,
        )
        self._spawn(self._engine.run(), "engine")
        self.desk.board.keep_warm(1)

    # -- another file

    async def reload(self, settings: NodeSettings, diff: FileDiff) -> None:
        """Bring the flows to what a new file says; ``diff`` is what is different in it. What reaches the node as a
        whole stays as it was. Flows that need nothing notice nothing."""
        runners = {runner.settings.flow: runner for runner in self.flows}
        wanted = {flow.flow: flow for flow in settings.flows}
        again = {one.flow: restart_reason(one) for one in diff.changed if one.reach >= Reach.FLOW}
        new = {flow: FlowRunner(wanted[flow], self._identity, self.desk) for flow in wanted.keys() - runners.keys()}
        for flow in diff.to_take_over():
            runners[flow].take_over(wanted[flow])
        for flow in wanted.keys() & runners.keys():
            runners[flow].say_terms()
        self.flows = [new[flow] if flow in new else runners[flow] for flow in wanted]
        for runner in new.values():
            self._run(runner)
        self._start_engine(settings)
        ending = [runners[flow] for flow in runners.keys() - wanted.keys()]
        self._parting = ending
        await asyncio.gather(
            *(self._end(runner, "it is not in the file any more") for runner in ending),
            *(self._begin_again(runners[flow], wanted[flow], why) for flow, why in again.items()),
        )
        self._parting = ()

    async def _begin_again(self, runner: FlowRunner, settings: FlowSettings, why: str) -> None:
        log.info("%s: %s", settings.flow, why)
        await self._end(runner, why)
        runner.anew(settings)
        self._run(runner)

    async def _end(self, runner: FlowRunner, why: str) -> None:
        """Drain a flow and leave its group. Nothing of it runs here afterwards."""
        await runner.wind_up(why)
        task = self._running.pop(runner.settings.flow)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def until(self, condition: Callable[[NodeStatus], bool], within: float) -> bool:
        """Wait until the published state is as wanted; False when that took longer than ``within`` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while not condition(self.published):
                    await self.desk.changed(PUBLISH_EVERY_S)
                return True
        return False

    def standing(self, source: str, target: str) -> Standing | None:
        """Where this node stands in a flow now; None: it has no such flow."""
        runner = self._runner(Flow(source, target))
        return runner.standing() if runner is not None else None

    async def carry_out(self, flow: Flow, command: Command) -> str:
        """Do what an operator asks of a flow that this node leads; says in a sentence what happens now. Raises
        CommandRefusedError."""
        runner = self._runner(flow)
        if runner is None:
            raise CommandRefusedError(f"there is no flow {flow} on this node", is_unknown=True)
        return await runner.carry_out(command)

    def _runner(self, flow: Flow) -> FlowRunner | None:
        return next((one for one in self.flows if one.settings.flow == flow), None)

    @property
    def _all(self) -> list[FlowRunner]:
        """The flows of the file, and those that are on their way out."""
        return [*self.flows, *self._parting]

    def kill(self) -> None:
        """End the engine's processes at once, because the node is about to end without any ceremony."""
        if self._engine is not None:
            self._engine.kill()
        shutil.rmtree(self._temp_dir, ignore_errors=True)

    def _status(self) -> NodeStatus:
        engine = self.desk.board.engine
        trouble = self._engine.trouble if self._engine is not None else None
        if self._engine is not None and engine is None and trouble is None:
            trouble = self._starting(self._engine)
        flows = [self._with_trouble(flow.status(), trouble) for flow in self._all]
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
        """Its process runs, and Spark has not said so yet."""
        master = self._settings.master
        asking = f", and asks {master.url} for an application" if master.is_cluster else ""
        return f"the Spark engine is starting{asking}" + (f"; before, {engine.ended}" if engine.ended else "")

    async def drain(self, within: float) -> bool:
        """Let the other nodes take over what they can, stop fetching, wait until everything in flight is acknowledged
        and stored.

        False when that took longer than ``within`` seconds: what was not stored is copied again by the next run.
        """
        began = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within * LEAVING_SHARE):
                await asyncio.gather(*(flow.leave() for flow in self._all))
        within -= time.monotonic() - began
        for flow in self._all:
            flow.drain()
        self.desk.board.drain()
        self.desk.wake()
        drained = True
        try:
            async with asyncio.timeout(within):
                while not self.desk.board.drained:
                    await self.desk.changed(WATCH_EVERY_S)
        except TimeoutError:
            drained = False
        self.desk.board.end()
        self.desk.wake()
        return drained

    async def close(self) -> None:
        """End the engine and all tasks, remove the temp dir."""
        if self._engine is not None:
            await self._engine.close()
        tasks = [*self._tasks, *self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        shutil.rmtree(self._temp_dir, ignore_errors=True)

    def _with_trouble(self, status: FlowStatus, trouble: str | None) -> FlowStatus:
        """An enabled flow cannot run while the engine does not; say so with it."""
        if trouble is None or not status.enabled or not status.is_leader:
            return status
        return replace(status, state=TaskState.WAITING, reasons=(*status.reasons, trouble))

    def _with_shared_topics(self, flows: Sequence[FlowStatus]) -> Iterator[FlowStatus]:
        """Two flows that write one remote topic both say so."""
        shared = shared_remote_topics(flows)
        for flow in shared.keys() - self._shared.keys():
            log.warning("%s: %s", flow, shared[flow])
        self._shared = shared
        for status in flows:
            sentence = shared.get(status.flow)
            yield status if sentence is None else replace(status, reasons=(*status.reasons, sentence))

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    def _engine_lost(self) -> None:
        self.desk.board.engine_lost(time.monotonic())
        self.desk.wake()

    def _publish(self) -> None:
        self.published = self._status()

    def _watch_leases(self) -> None:
        for sentence in self.desk.board.expire(time.monotonic()):
            log.warning("%s", sentence)
            self.desk.wake()

    async def _move_starving(self) -> None:
        while True:
            try:
                await self.desk.move_starving()
            except (ClusterError, PluginError) as error:
                log.warning("slots without an executor stay where they are: %s", error)
            await asyncio.sleep(WATCH_EVERY_S)

    async def _keep(self, work: Callable[[], None], every_s: float) -> None:
        """Do it again and again, whatever happens: a picture that stands still would look as if all were well."""
        while True:
            try:
                work()
            except Exception:
                log.exception("unexpected error; it is tried again in %g s", every_s)
            await asyncio.sleep(every_s)
