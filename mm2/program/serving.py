"""The REST interface of a node on its ``listeners``: for monitoring, operators, and other nodes of its flows."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack

from mm2.config.settings import NodeSettings
from mm2.core.lanes.lease import LeasePlace
from mm2.kafka.connection.security import ssl_context
from mm2.kafka.errors import SecuritySettingsInvalid
from mm2.node.commands.registry import command_types
from mm2.node.supervisor import Node
from mm2.program.addresses import advertised_of, listeners_of
from mm2.rest.app import rest_app
from mm2.rest.endpoint import RestContext
from mm2.rest.internal.lease_api import lane_router
from mm2.rest.internal.peers import Peers
from mm2.rest.merge.cluster_view import ClusterView
from mm2.rest.public.admin import AdminGate
from mm2.rest.server.listeners import Listener, ListenerError, advertised_url, lease_place
from mm2.rest.server.server import close_listeners, open_listeners

CLOSE_WITHIN_S = 1.0
"""Time for open REST requests after the node has drained."""


class Serving:
    """The listeners of one node; without ``listeners`` in its file it serves nothing."""

    def __init__(self, settings: NodeSettings, node: Node) -> None:
        self._settings = settings
        self._node = node
        self._opened = AsyncExitStack()
        self._bound: list[Listener] = []
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
        listening, own, node = self._settings.listening, self._settings.own, self._node
        try:
            peers = Peers(ssl_context(listening.peers) if listening.peers is not None else None)
        except SecuritySettingsInvalid as error:
            raise ListenerError(f"listeners: requests to other nodes are not possible: {error}") from error
        self._opened.push_async_callback(peers.close)
        view = ClusterView(node.leader_context, peers)
        self._opened.push_async_callback(view.close)
        context = RestContext(
            status=lambda: node.published,
            leader_contexts=node.leader_context,
            peers=peers,
            view=view,
            gate=AdminGate(enabled=own.rest_admin, token=own.rest_admin_token),
            commands=command_types(),
            carry_out=node.carry_out,
            losses=node.losses,
            query_histories=node.query_histories,
        )
        app = rest_app(context, listening)
        if self._settings.master.elsewhere:
            app.include_router(lane_router(node.lease_service))
        servers = await open_listeners(app, listeners, listening.tls)
        self._opened.push_async_callback(close_listeners, servers, CLOSE_WITHIN_S)
        self._bound = [server.listener for server in servers]
        self.urls = [advertised_url(self._bound, advertised_of(self._settings.rest), own_host=socket.gethostname())]

    def lease_place(self) -> LeasePlace:
        """Return where lanes on other machines request their leases; valid after `open`."""
        tls = self._settings.listening.tls
        return lease_place(self._bound, advertised_of(self._settings.rest), tls, own_host=socket.gethostname())

    async def close(self) -> None:
        """Close the listeners."""
        await self._opened.aclose()
