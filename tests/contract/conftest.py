from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from mm2.node.published import NodeStatus
from mm2.rest.cluster_view import ClusterView
from mm2.rest.peers import Peers
from mm2.rest.public import public_app
from mm2.rest.server import RestServer
from tests.contract.nodes import PLAIN

Serve = Callable[[NodeStatus | Callable[[], NodeStatus]], Awaitable[httpx.AsyncClient]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serves a published state, or what a function publishes, through a real socket; gives an HTTP client for it."""
    opened: list[tuple[RestServer, httpx.AsyncClient]] = []
    peers = Peers(PLAIN)
    view = ClusterView(lambda _source, _target: None, peers)

    async def start(published: NodeStatus | Callable[[], NodeStatus]) -> httpx.AsyncClient:
        server = RestServer(public_app(published if callable(published) else lambda: published, view))
        await server.start()
        client = httpx.AsyncClient(base_url=server.url, trust_env=False)
        opened.append((server, client))
        return client

    yield start
    for server, client in opened:
        await client.aclose()
        await server.stop()
    await peers.close()
