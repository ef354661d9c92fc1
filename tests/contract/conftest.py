from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import httpx
import pytest

from mm2.node.status.status_model import NodeStatus
from mm2.rest.app import rest_app
from mm2.rest.internal.peers import Peers
from mm2.rest.server.server import RestServer
from tests.contract.nodes import PLAIN, rest_context

Serve = Callable[[NodeStatus | Callable[[], NodeStatus]], Awaitable[httpx.AsyncClient]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serve a fixed status, or the result of a function, on a real socket and return an HTTP client for it."""
    opened: list[tuple[RestServer, httpx.AsyncClient]] = []
    peers = Peers(PLAIN)
    context = rest_context(peers)

    async def start(published: NodeStatus | Callable[[], NodeStatus]) -> httpx.AsyncClient:
        status = published if callable(published) else lambda: published
        server = RestServer(rest_app(replace(context, status=status)))
        await server.start()
        client = httpx.AsyncClient(timeout=30, base_url=server.url, trust_env=False)
        opened.append((server, client))
        return client

    yield start
    for server, client in opened:
        await client.aclose()
        await server.stop()
    await peers.close()
