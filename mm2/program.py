"""A node as a program: reads its file, runs until a signal, drains, and says with which code it ended (contract)."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import time
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI

from mm2.cli.log_lines import banner, flow_lines
from mm2.cli.logs import set_up
from mm2.config.flow_clients import ClientRole
from mm2.config.settings import NodeSettings
from mm2.config.sources import Taken, take
from mm2.core.lease import LeasePlace, TaskState
from mm2.node.file_follower import FileFollower, file_status
from mm2.node.file_watch import FileWatch
from mm2.node.node_identity import NodeIdentity
from mm2.node.published import NodeStatus
from mm2.node.supervisor import Node
from mm2.rest.leases import engine_router, lane_router
from mm2.rest.listeners import EVERY_INTERFACE, LOOPBACK, ListenerError
from mm2.rest.server import RestServer
from mm2.serving import Serving, listeners_of

log = logging.getLogger("mm2.node")

DRAINED, FATAL, MISTAKE, SECOND_SIGNAL = 0, 1, 2, 130

BANNER_WITHIN_S = 30.0
"""The banner waits until the flows have found their topics and Spark is up, but not for clusters that are away."""

FLOW_LINE_EVERY_S = 60.0
"""One line a flow and minute: enough to follow a night in the log, too little to fill a disk."""


def run(file: Path, clusters: tuple[str, ...]) -> int:
    """Run the node of ``file``; returns the exit code. Problems of the file go to standard error."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # whoever asks for a reload this early gets what he wants
    taken = take(file, clusters)
    for problem in taken.problems:
        print(problem, file=sys.stderr)  # noqa: T201 problems are for the person at the terminal, not for the log
    if taken.reading is None:
        return MISTAKE
    settings = taken.reading.settings
    set_up(level=settings.own.log_level, log_format=settings.own.log_format, secrets=_secrets(settings))
    gc.collect()
    gc.freeze()  # all that was imported: looking through it again and again stops the event loop for 50 ms each time
    return asyncio.run(_Program(taken, settings).run())


def _secrets(settings: NodeSettings) -> set[str]:
    """Every password and private key of the file: none may show in a log, whoever writes the line."""
    found: set[str | None] = {settings.own.rest_admin_token}
    if (peers := settings.listening.peers) is not None:  # the same as the listeners' own, where those are https
        found |= {peers.key_password, peers.key_pem}
    for flow in settings.flows:
        if flow.zookeeper is not None and flow.zookeeper.auth is not None:
            found.add(flow.zookeeper.auth.password)
        for role in ClientRole:
            client = flow.clients.of(role)
            found |= {client.sasl.password if client.sasl else None, client.tls.key_password, client.tls.key_pem}
    return {secret for secret in found if secret}


class _Program:
    """One life of the process."""

    def __init__(self, taken: Taken, settings: NodeSettings) -> None:
        self._settings = settings
        self._watch = FileWatch(taken)
        self._log_level = settings.own.log_level
        self._secrets = _secrets(settings)
        self._identity = NodeIdentity(node_id=node_id(settings), version=version("mm2"))
        self._identity.reads(self._watch.reading)
        self._node = Node(settings, self._identity, file_status(self._watch))
        self._follower = FileFollower(self._watch, self._node, self._identity, self._take_over)
        self._signalled = asyncio.Event()
        leases = FastAPI(openapi_url=None)
        leases.include_router(engine_router(self._node.desk))
        leases.include_router(lane_router(self._node.desk))
        self._lease_server = RestServer(leases)
        self._serving = Serving(settings, self._node)
        self._background: list[asyncio.Task[None]] = []

    async def run(self) -> int:
        self._take_signals()
        try:
            await self._lease_server.start()
            await self._serving.open()
            self._identity.url = self._serving.url
            await self._node.start(self._lease_server.url, self._lease_place())
        except ListenerError as error:
            print(f"{self._settings.path}: {error}", file=sys.stderr)  # noqa: T201 as above
            await self._close()
            return MISTAKE
        self._background.append(asyncio.create_task(self._speak(), name="log lines"))
        following = asyncio.create_task(self._follower.run(), name="file")
        await self._signalled.wait()
        following.cancel()
        await asyncio.wait([following])
        return await self._drain()

    async def _drain(self) -> int:
        within = max((flow.worker.task_shutdown_graceful_timeout_ms for flow in self._settings.flows), default=10_000)
        log.info("draining, for at most %.0f s", within / 1000)
        drained = await self._node.drain(within / 1000)
        await self._close()
        if drained:
            log.info("drained: everything that was fetched is acknowledged and stored")
            return DRAINED
        log.error(
            "not everything was acknowledged within task.shutdown.graceful.timeout.ms = %d: the rest is copied again by"
            " the next node, some records twice",
            within,
        )
        return FATAL

    async def _close(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._node.close()  # lanes on other machines say goodbye at the listeners
        await self._serving.close()
        await self._lease_server.stop(within=1.0)

    # -- signals

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signal, number)
        loop.add_signal_handler(signal.SIGHUP, self._watch.ask)

    def _take_over(self, settings: NodeSettings) -> None:
        """What of a new file is the program's own: how much is logged, and what must never show there. Passwords of
        before are hidden still, as connections with them may have something to say."""
        self._settings = settings
        level, secrets = settings.own.log_level, self._secrets | _secrets(settings)
        if (level, secrets) != (self._log_level, self._secrets):
            self._log_level, self._secrets = level, secrets
            set_up(level=level, log_format=self._settings.own.log_format, secrets=secrets)

    def _signal(self, number: int) -> None:
        if not self._signalled.is_set():
            log.info("%s: the node drains; a second signal ends it at once", signal.Signals(number).name)
            self._signalled.set()
            return
        self._node.kill()
        os._exit(SECOND_SIGNAL)

    # -- what it says

    def _lease_place(self) -> LeasePlace:
        if not self._settings.master.elsewhere:
            return LeasePlace(url=self._lease_server.url)
        return self._serving.lease_place()

    async def _speak(self) -> None:
        """The banner once the node is up, then one line a flow and minute."""
        await self._node.until(_is_up, BANNER_WITHIN_S)
        for line in banner(self._node.published, file=str(self._settings.path), rest=self._serving.urls):
            log.info("%s", line)
        previous, at = self._node.published, time.monotonic()
        while True:
            await asyncio.sleep(FLOW_LINE_EVERY_S)
            current, now = self._node.published, time.monotonic()
            for line in flow_lines(previous, current, now - at):
                log.info("%s", line)
            previous, at = current, now


def _is_up(status: NodeStatus) -> bool:
    """Whether every enabled flow copies and Spark shows itself."""
    enabled = [flow for flow in status.flows if flow.enabled]
    return all(flow.state is TaskState.RUNNING for flow in enabled) and (status.spark_ui is not None or not enabled)


def node_id(settings: NodeSettings) -> str:
    """The same after a restart where the file lets it be: given, or the address that others know the node by."""
    rest = settings.rest
    if settings.own.node_id is not None:
        return settings.own.node_id
    listener = next((one for one in listeners_of(settings.rest) if one.port), None)
    if listener is None:
        return f"{socket.gethostname()}:{os.getpid()}"
    everywhere = listener.host in EVERY_INTERFACE or listener.host in LOOPBACK
    host = rest.advertised_host_name or (socket.gethostname() if everywhere else listener.host)
    return f"{host}:{rest.advertised_port or listener.port}"
