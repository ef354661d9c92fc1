"""What a node serves on its ``listeners``: to monitoring and people, to operators, and to other nodes of its flows."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack

from mm2.config.node_keys import RestSettings
from mm2.config.settings import NodeSettings
from mm2.core.commands import Command
from mm2.core.lease import LeasePlace
from mm2.core.names import Flow
from mm2.kafka.errors import SecuritySettingsInvalid
from mm2.kafka.security import ssl_context
from mm2.node.supervisor import Node
from mm2.rest.admin import AdminGate
from mm2.rest.cluster_view import ClusterView
from mm2.rest.command_shapes import CommandShape
from mm2.rest.commands import command_router
from mm2.rest.leases import lane_router
from mm2.rest.listeners import JAVA_DEFAULT, Advertised, Listener, ListenerError, advertised_url, lease_place
from mm2.rest.peers import Peers
from mm2.rest.public import public_app
from mm2.rest.server import close_listeners, open_listeners
from mm2.rest.share_calls import share_router
from mm2.rest.signed_calls import add_refusals

CLOSE_WITHIN_S = 1.0
"""A node that has drained does not wait for who is looking."""


def listeners_of(rest: RestSettings) -> list[Listener]:
    """Where a node of these settings listens."""
    urls = rest.listeners if rest.listeners is not None else (JAVA_DEFAULT,) if rest.internal_rest else ()
    return [Listener.parse(url) for url in urls if url.strip()]


class Serving:
    """Nothing is served before `open`, and by a node without ``listeners`` not then either."""

    def __init__(self, settings: NodeSettings, node: Node) -> None:
        self._settings = settings
        self._node = node
        self._opened = AsyncExitStack()
        self._bound: list[Listener] = []
        self.urls: list[str] = []

    @property
    def url(self) -> str:
        """Where other nodes and people reach this one; empty: nowhere."""
        return self.urls[0] if self.urls else ""

    async def open(self) -> None:
        """Listen. Raises ListenerError."""
        listeners = listeners_of(self._settings.rest)
        if not listeners:
            return
        listening, own, node = self._settings.listening, self._settings.own, self._node
        try:
            peers = Peers(ssl_context(listening.peers) if listening.peers is not None else None)
        except SecuritySettingsInvalid as error:
            raise ListenerError(f"listeners: calls to other nodes cannot be made: {error}") from error
        self._opened.push_async_callback(peers.close)
        view = ClusterView(node.standing, peers)
        self._opened.push_async_callback(view.close)
        app = public_app(lambda: node.published, view, listening)
        add_refusals(app)
        app.include_router(share_router(lambda: node.published, node.standing))
        gate = AdminGate(enabled=own.rest_admin, token=own.rest_admin_token)
        app.include_router(command_router(_Desk(node), node.standing, peers, gate))
        if self._settings.master.elsewhere:
            app.include_router(lane_router(node.desk))
        servers = await open_listeners(app, listeners, listening.tls)
        self._opened.push_async_callback(close_listeners, servers, CLOSE_WITHIN_S)
        self._bound = [server.listener for server in servers]
        self.urls = [advertised_url(self._bound, _advertised(self._settings.rest), own_host=socket.gethostname())]

    def lease_place(self) -> LeasePlace:
        """Where lanes on other machines ask for their leases, once it is open."""
        tls = self._settings.listening.tls
        return lease_place(self._bound, _advertised(self._settings.rest), tls, own_host=socket.gethostname())

    async def close(self) -> None:
        """Serve no more."""
        await self._opened.aclose()


class _Desk:
    """The node as `mm2.rest.commands` asks it."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def carry_out(self, flow: Flow, command: Command) -> CommandShape:
        effect = await self._node.carry_out(flow, command)
        return CommandShape(flow=str(flow), command=command.command, node=self._node.published.node_id, effect=effect)


def _advertised(rest: RestSettings) -> Advertised:
    return Advertised(host=rest.advertised_host_name, port=rest.advertised_port, scheme=rest.advertised_listener)
