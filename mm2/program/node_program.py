"""A node as a program: reads its file, runs until a signal, drains, and returns an exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import time
from importlib.metadata import version

from fastapi import FastAPI

from mm2.config.reload.sources import LoadedConfig
from mm2.config.settings import NodeSettings
from mm2.core.access.audit import AuditOutcome, of_file
from mm2.core.lanes.lease import LeaseEndpoint
from mm2.core.lanes.task_states import TaskState
from mm2.core.log_records import OURS, read_levels
from mm2.core.printable import printable_lines
from mm2.node.common.restarting import restart_on_error
from mm2.node.identity import NodeIdentity
from mm2.node.reload.file_follower import FileFollower, file_status
from mm2.node.reload.file_watch import FileWatch
from mm2.node.status.status_model import NodeStatus
from mm2.node.supervisor import PUBLISH_EVERY_S, Node
from mm2.program.addresses import node_id
from mm2.program.audit_file import AuditFile
from mm2.program.log_lines import first_line, flow_lines, start_lines
from mm2.program.logs import set_up
from mm2.program.serving import Serving
from mm2.program.state_changes import StateChanges, StateLine
from mm2.rest.internal.lease_api import engine_router, lane_router
from mm2.rest.merge.flow_merge import own_share
from mm2.rest.merge.problem_watch import ProblemWatch
from mm2.rest.server.listeners import ListenerError
from mm2.rest.server.server import RestServer

log = logging.getLogger("mm2.node")

DRAINED, FATAL, MISTAKE, SECOND_SIGNAL = 0, 1, 2, 130

START_LINES_WITHIN_S = 30.0
"""What runs is logged when the flows have discovered their topics and Spark is up, but not for unreachable clusters."""

FLOW_LINE_EVERY_S = 60.0
"""One line per flow and minute: enough to follow a flow in the log without filling the disk."""


def run(taken: LoadedConfig, settings: NodeSettings) -> int:
    """Run the node of the file that was ``taken`` and return the exit code."""
    _set_up_log(settings)
    log.info("%s", first_line(version("mm2"), node_id(settings), str(settings.path)))
    gc.collect()
    gc.freeze()  # all imported modules: each later scan of them would block the event loop for 50 ms
    return asyncio.run(_Program(taken, settings).run())


def _set_up_log(settings: NodeSettings) -> None:
    own = settings.own
    levels = read_levels(own.log_levels)
    set_up(level=own.log_level, log_format=own.log_format, levels=levels, node=node_id(settings))


class _Program:
    """One run of the process."""

    def __init__(self, taken: LoadedConfig, settings: NodeSettings) -> None:
        self._settings = settings
        self._watch = FileWatch(taken)
        self._log_levels = _levels(settings)
        self._identity = NodeIdentity(node_id=node_id(settings), version=version("mm2"))
        self._identity.reads(self._watch.reading)
        self._node = Node(settings, self._identity, file_status(self._watch))
        self._node.use_log_levels(self._log_levels)
        self._follower = FileFollower(self._watch, self._node, self._identity, self._take_over)
        self._signalled = asyncio.Event()
        leases = FastAPI(openapi_url=None)
        leases.include_router(engine_router(self._node.lease_service))
        leases.include_router(lane_router(self._node.lease_service))
        self._lease_server = RestServer(leases)
        self._problems = ProblemWatch()
        self._changes = StateChanges()
        self._serving = Serving(settings, self._node, problem_times=lambda: self._problems.times)
        self._background: list[asyncio.Task[None]] = []

    async def run(self) -> int:
        self._take_signals()
        self._open_audit()
        try:
            await self._lease_server.start()
            await self._serving.open()
            self._identity.url = self._serving.url
            await self._node.start(self._lease_server.url, self._lease_place())
        except ListenerError as error:
            print(printable_lines(f"{self._settings.path}: error: {error}"), file=sys.stderr)  # noqa: T201 as above
            await self._close()
            return FATAL if self._settings.listening.unusable else MISTAKE
        self._background.append(asyncio.create_task(self._log_progress(), name="log lines"))
        self._background.append(asyncio.create_task(restart_on_error(self._follow_states, "states"), name="states"))
        following = asyncio.create_task(self._follower.run(), name="file")
        await self._signalled.wait()
        following.cancel()
        await asyncio.wait([following])
        return await self._drain()

    async def _drain(self) -> int:
        within = max((flow.worker.task_shutdown_graceful_timeout_ms for flow in self._settings.flows), default=10_000)
        log.info("draining for at most %.0f s", within / 1000)
        drained = await self._node.drain(within / 1000)
        await self._close()
        if drained:
            log.info("drained: no records are in flight, and all offsets are stored")
            return DRAINED
        log.error(
            "drain timed out after task.shutdown.graceful.timeout.ms = %d: the next node copies unacknowledged records"
            " again, so some can be duplicated",
            within,
        )
        return FATAL

    async def _close(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._node.close()  # lanes on other machines sign off at the listeners
        await self._serving.close()
        await self._lease_server.stop(within=1.0)

    def _open_audit(self) -> None:
        """Open mm2.audit.file, and write which file the node starts with."""
        if (path := self._settings.own.audit_file) is not None:
            audit_file = AuditFile(self._settings.path.parent / path.strip())
            audit_file.open()
            self._node.audit_file_error = lambda: audit_file.error
        self._node.audit(
            of_file(
                "start",
                AuditOutcome.DONE,
                file=str(self._settings.path),
                sha256=self._watch.sha256,
                node=self._identity.node_id,
                time_ms=time.time_ns() // 1_000_000,
            )
        )

    # -- signals

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signal, number)
        loop.add_signal_handler(signal.SIGHUP, self._watch.ask)

    def _take_over(self, settings: NodeSettings) -> None:
        """Apply the log levels, the tokens and the listeners' certificates of a reloaded file."""
        self._settings = settings
        if (levels := _levels(settings)) != self._log_levels:
            self._log_levels = levels
            _set_up_log(settings)
            self._node.use_log_levels(levels)
        self._serving.use(settings.tokens)
        if self._serving.renew(settings.listening):
            self._node.listening = settings.listening
            self._node.use_lane_place(self._lease_place())

    def _signal(self, number: int) -> None:
        if not self._signalled.is_set():
            log.info("%s received: draining; a second signal stops the node immediately", signal.Signals(number).name)
            self._signalled.set()
            return
        self._node.kill()
        os._exit(SECOND_SIGNAL)

    # -- log lines

    def _lease_place(self) -> LeaseEndpoint:
        if not self._settings.master.elsewhere:
            return LeaseEndpoint(url=self._lease_server.url)
        return self._serving.lease_place()

    async def _follow_states(self) -> None:
        """Note since when there are problems, and log each change of state."""
        while True:
            for line in await asyncio.to_thread(self._look, self._node.published):
                log.log(line.level, "%s", line.text)
            await asyncio.sleep(PUBLISH_EVERY_S)

    def _look(self, status: NodeStatus) -> list[StateLine]:
        self._problems.observe(status)
        clusters = self._changes.take_clusters(status.clusters)
        return clusters + self._changes.take(own_share(status), time.monotonic())

    async def _log_progress(self) -> None:
        """Log what runs when the node is up, then one line per flow and minute."""
        await self._node.until(_is_up, START_LINES_WITHIN_S)
        for line in start_lines(self._node.published, rest=self._serving.urls):
            log.info("%s", line)
        previous, at = self._node.published, time.monotonic()
        while True:
            await asyncio.sleep(FLOW_LINE_EVERY_S)
            current, now = self._node.published, time.monotonic()
            for line in flow_lines(previous, current, now - at):
                log.info("%s", line)
            previous, at = current, now


def _levels(settings: NodeSettings) -> dict[str, str]:
    """Return the level of each logger of this program, for engines and lanes."""
    return dict.fromkeys(OURS, settings.own.log_level) | read_levels(settings.own.log_levels)


def _is_up(status: NodeStatus) -> bool:
    """Return whether every enabled flow is running and Spark is up."""
    enabled = [flow for flow in status.flows if flow.enabled]
    return all(flow.state is TaskState.RUNNING for flow in enabled) and (status.spark_ui is not None or not enabled)
