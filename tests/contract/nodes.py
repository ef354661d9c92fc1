"""Nodes of one flow as REST sees them: real servers, whose standing a test sets, and a desk that notes commands."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from mm2.core.commands import Command, CommandRefusedError, Pause, RestartTask
from mm2.core.listener_settings import ServerTls
from mm2.core.names import Flow
from mm2.core.session_keys import SessionKey
from mm2.core.standing import Standing
from mm2.node.published import NodeStatus
from mm2.rest.admin import AdminGate
from mm2.rest.cluster_view import ClusterView
from mm2.rest.command_shapes import CommandShape
from mm2.rest.commands import command_router
from mm2.rest.peers import Peers
from mm2.rest.public import public_app
from mm2.rest.server import RestServer
from mm2.rest.share_calls import share_router
from mm2.rest.signed_calls import add_refusals
from tests.contract.samples import node

A_B = Flow("A", "B")
KEY = SessionKey(secret=b"k" * 32, algorithm="HmacSHA256", created_ms=0)
OTHER_KEY = SessionKey(secret=b"o" * 32, algorithm="HmacSHA256", created_ms=1)
TOKEN = "open-sesame-open"
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients that speak plain HTTP: without it each of them reads all certificates of the system first."""


class Desk:
    """Carries out everything but what speaks of topic ``secret`` or of task 9."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.done: list[Command] = []

    async def carry_out(self, flow: Flow, command: Command) -> CommandShape:
        if isinstance(command, RestartTask) and command.task.endswith("-9"):
            raise CommandRefusedError(f"{flow} has no task {command.task}", is_unknown=True)
        if isinstance(command, Pause) and "secret" in command.topics:
            raise CommandRefusedError("topic secret is being made anew: try again in a minute")
        self.done.append(command)
        return CommandShape(flow=str(flow), command=command.command, node=self.name, effect="it is done")


class RestNode:
    """One node: its server, its desk, and where it stands in A->B."""

    def __init__(
        self, name: str, *, tls: ServerTls | None, context: ssl.SSLContext | None, within: float, admin: bool
    ) -> None:
        self.desk = Desk(name)
        self.times_asked = 0
        self.peers = Peers(context or PLAIN, within=within)
        self.standing = Standing(flow=A_B, leads=False, leader_url=None, own_url=None, session_key=KEY)
        self.published = node(node_id=name)
        self.view = ClusterView(self._standing, self.peers)
        app = public_app(self._publish, self.view)
        add_refusals(app)
        app.include_router(share_router(self._publish, self._standing))
        gate = AdminGate(enabled=admin, token=TOKEN)
        app.include_router(command_router(self.desk, self._standing, self.peers, gate))
        self.server = RestServer(app, tls=tls)

    def stand(self, *, leads: bool = False, leader: RestNode | str | None = None, key: SessionKey | None = KEY) -> None:
        url = leader.server.url if isinstance(leader, RestNode) else leader
        self.standing = replace(self.standing, leads=leads, leader_url=url, own_url=self.server.url, session_key=key)

    def _publish(self) -> NodeStatus:
        self.times_asked += 1
        return self.published

    def _standing(self, source: str, target: str) -> Standing | None:
        return self.standing if Flow(source, target) == A_B else None


@asynccontextmanager
async def rest_nodes(
    names: Sequence[str],
    *,
    tls: ServerTls | None = None,
    context: ssl.SSLContext | None = None,
    within: float = 5.0,
    admin: bool = True,
) -> AsyncIterator[list[RestNode]]:
    """Nodes that listen on loopback; ``within``: seconds a node waits for another; ``admin``: mm2.rest.admin."""
    async with AsyncExitStack() as stack:
        nodes = [RestNode(name, tls=tls, context=context, within=within, admin=admin) for name in names]
        for one in nodes:
            await one.server.start()
            stack.push_async_callback(one.server.stop)
            stack.push_async_callback(one.peers.close)
            stack.push_async_callback(one.view.close)
        yield nodes
