"""The REST interface of a node on its ``listeners``: for monitoring, operators, and other nodes of its flows."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from mm2.config.settings import NodeSettings
from mm2.core.access.audit import of_failed_logins
from mm2.core.access.callers import NamedToken
from mm2.core.access.failed_logins import FailedLoginReport
from mm2.core.lanes.lease import LeaseEndpoint
from mm2.core.problems.problem_times import ProblemTimes
from mm2.core.settings.listener import ClientAuth, ListenerSettings, ServerTls
from mm2.kafka.connection.security import ssl_context
from mm2.kafka.errors import SecuritySettingsInvalid
from mm2.node.commands.registry import command_types
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.supervisor import Node
from mm2.program.addresses import advertised_of, listeners_of
from mm2.program.logs import last_lines
from mm2.rest.access.gate import AccessGate
from mm2.rest.app import rest_app
from mm2.rest.endpoint import RestContext
from mm2.rest.internal.lease_api import lane_router
from mm2.rest.internal.peers import Peers
from mm2.rest.merge.cluster_view import ClusterView
from mm2.rest.server.allowed_hosts import own_names
from mm2.rest.server.lane_identity import LaneIdentity, issue_lane_identity
from mm2.rest.server.listeners import Listener, ListenerError, advertised_url, lease_place
from mm2.rest.server.server import RestServer, close_listeners, open_listeners
from mm2.rest.server.tls import RenewableContext

log = logging.getLogger("mm2.rest")

REPORT_LOGINS_EVERY_S = 5.0
"""How often to look for failed logins to report, which are reported once a minute."""

CLOSE_WITHIN_S = 1.0
"""Time for open REST requests after the node has drained."""


class Serving:
    """The listeners of one node; without ``listeners`` in its file it serves nothing."""

    def __init__(
        self, settings: NodeSettings, node: Node, *, problem_times: Callable[[], ProblemTimes] = ProblemTimes
    ) -> None:
        """``problem_times``: since when flows have problems; without it, every problem counts from the start."""
        self._settings = settings
        self._node = node
        self._problem_times = problem_times
        self._opened = AsyncExitStack()
        self._servers: list[RestServer] = []
        self._listening = settings.listening
        self._peers: RenewableContext | None = None
        self._lanes: LaneIdentity | None = None
        own = settings.own
        self._gate = AccessGate(
            enabled=own.rest_admin,
            token=own.rest_admin_token,
            tokens=settings.tokens,
            read_needs_token=own.rest_read == "token",
            report=self._report,
        )
        self.urls: list[str] = []

    @property
    def url(self) -> str:
        """The URL at which this node can be reached; empty if it has no listener."""
        return self.urls[0] if self.urls else ""

    async def open(self) -> None:
        """Open the listeners. Raises ListenerError."""
        listeners = listeners_of(self._settings.rest)
        if not listeners:
            return
        listening, own, node = self._listening, self._settings.own, self._node
        try:
            self._peers = None if listening.peers is None else RenewableContext(ssl_context(listening.peers))
        except SecuritySettingsInvalid as error:
            raise ListenerError(f"listeners: requests to other nodes are not possible: {error}") from error
        peers = Peers(self._peers)
        self._opened.push_async_callback(peers.close)
        view = ClusterView(node.leader_context, peers)
        self._opened.push_async_callback(view.close)
        context = RestContext(
            status=lambda: node.published,
            leader_contexts=node.leader_context,
            peers=peers,
            view=view,
            gate=self._gate,
            audit=node.audit,
            commands=command_types(),
            carry_out=node.carry_out,
            losses=node.losses,
            query_histories=node.query_histories,
            translate=node.translate,
            story=node.story,
            problem_times=self._problem_times,
            log=last_lines,
        )
        own_hosts = await own_names(self._settings.rest.advertised_host_name, [one.host for one in listeners])
        app = rest_app(context, listening, hosts=own_hosts | {name.lower() for name in own.rest_allowed_hosts})
        if self._settings.master.elsewhere:
            app.include_router(lane_router(node.lease_service))
            if listening.tls is not None and listening.tls.client_auth is ClientAuth.REQUIRED:
                self._lanes = issue_lane_identity()
        self._servers = await open_listeners(app, listeners, self._server_tls(listening))
        self._opened.push_async_callback(close_listeners, self._servers, CLOSE_WITHIN_S)
        reporting = asyncio.create_task(self._report_failed_logins(), name="failed logins")
        self._opened.push_async_callback(cancel_and_wait, [reporting])
        self.urls = [advertised_url(self._bound, advertised_of(self._settings.rest), own_host=socket.gethostname())]

    def use(self, tokens: Sequence[NamedToken]) -> None:
        """Accept these tokens instead of the former ones of mm2.rest.tokens.file."""
        self._gate.use(tokens)

    def _report(self, report: FailedLoginReport) -> None:
        now = time.time_ns() // 1_000_000
        self._node.audit(of_failed_logins(report, node=self._node.published.node_id, time_ms=now))

    async def _report_failed_logins(self) -> None:
        while True:
            await asyncio.sleep(REPORT_LOGINS_EVERY_S)
            self._gate.report_due()

    def renew(self, listening: ListenerSettings) -> bool:
        """Use the certificates and keys of ``listening`` for new connections; return whether anything changed.

        Connections that are open keep theirs.
        """
        before = self._listening
        if (before.tls, before.peers) == (listening.tls, listening.peers):
            return False
        try:
            peers = None if listening.peers is None else ssl_context(listening.peers)
            if (tls := self._server_tls(listening)) is not None:
                for server in self._servers:
                    server.renew(tls)
        except (SecuritySettingsInvalid, ListenerError) as error:
            log.error("listeners: keeping the previous certificates: %s", error)  # noqa: TRY400 it contains the reason
            return False
        if self._peers is not None and peers is not None:
            self._peers.renew(peers)
        self._listening = listening
        return True

    def lease_place(self) -> LeaseEndpoint:
        """Return where lanes on other machines request their leases; valid after `open`."""
        advertised = advertised_of(self._settings.rest)
        return lease_place(self._bound, advertised, self._listening.tls, self._lanes, own_host=socket.gethostname())

    @property
    def _bound(self) -> list[Listener]:
        return [server.listener for server in self._servers]

    def _server_tls(self, listening: ListenerSettings) -> ServerTls | None:
        if listening.tls is None or self._lanes is None:
            return listening.tls
        return replace(listening.tls, lanes_pem=self._lanes.certificate_pem)

    async def close(self) -> None:
        """Close the listeners."""
        await self._opened.aclose()
