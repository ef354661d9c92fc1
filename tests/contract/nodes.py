"""Nodes of one flow as REST sees them: real servers, whose standing a test sets, and a desk that notes commands."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from fastapi import FastAPI

from mm2.core.commands import Command, CommandRefusedError, Pause, RestartTask
from mm2.core.listener_settings import ServerTls
from mm2.core.names import Flow
from mm2.core.session_keys import SessionKey
from mm2.core.standing import Standing
from mm2.rest.admin import AdminGate
from mm2.rest.command_shapes import CommandShape
from mm2.rest.commands import command_router
from mm2.rest.peers import Peers
from mm2.rest.server import RestServer
from mm2.rest.signed_calls import add_refusals

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

    def __init__(self, name: str, *, tls: ServerTls | None, context: ssl.SSLContext | None, within: float) -> None:
        self.desk = Desk(name)
        self.peers = Peers(context or PLAIN, within=within)
        self.standing = Standing(flow=A_B, leads=False, leader_url=None, own_url=None, session_key=KEY)
        app = FastAPI(openapi_url=None)
        add_refusals(app)
        gate = AdminGate(enabled=True, token=TOKEN)
        app.include_router(command_router(self.desk, self._standing, self.peers, gate))
        self.server = RestServer(app, tls=tls)

    def stand(self, *, leads: bool = False, leader: RestNode | str | None = None, key: SessionKey | None = KEY) -> None:
        url = leader.server.url if isinstance(leader, RestNode) else leader
        self.standing = replace(self.standing, leads=leads, leader_url=url, own_url=self.server.url, session_key=key)

    def _standing(self, source: str, target: str) -> Standing | None:
        return self.standing if Flow(source, target) == A_B else None


@asynccontextmanager
async def rest_nodes(
    names: Sequence[str],
    *,
    tls: ServerTls | None = None,
    context: ssl.SSLContext | None = None,
    within: float = 5.0,
) -> AsyncIterator[list[RestNode]]:
    """Nodes that listen on loopback; ``within``: seconds a node waits for another."""
    async with AsyncExitStack() as stack:
        nodes = [RestNode(name, tls=tls, context=context, within=within) for name in names]
        for node in nodes:
            await node.server.start()
            stack.push_async_callback(node.server.stop)
            stack.push_async_callback(node.peers.close)
        yield nodes
