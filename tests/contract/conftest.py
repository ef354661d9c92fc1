from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import httpx
import pytest

from mm2.core.problems.problem_times import ProblemTimes
from mm2.node.status.status_model import NodeStatus
from mm2.rest.app import rest_app
from mm2.rest.internal.peers import Peers
from mm2.rest.server.server import RestServer
from tests.contract.nodes import PLAIN, rest_context

Serve = Callable[[NodeStatus | Callable[[], NodeStatus]], Awaitable[httpx.AsyncClient]]
ServeWatched = Callable[[Callable[[], NodeStatus], Callable[[], ProblemTimes]], Awaitable[httpx.AsyncClient]]


@pytest.fixture
async def serve(serve_watched: ServeWatched) -> Serve:
    """Serve a fixed status, or the result of a function, on a real socket and return an HTTP client for it."""

    async def start(published: NodeStatus | Callable[[], NodeStatus]) -> httpx.AsyncClient:
        return await serve_watched(published if callable(published) else lambda: published, ProblemTimes)

    return start


@pytest.fixture
async def serve_watched() -> AsyncIterator[ServeWatched]:
    """Serve the results of two functions, a status and the times of its problems."""
    opened: list[tuple[RestServer, httpx.AsyncClient]] = []
    peers = Peers(PLAIN)
    context = rest_context(peers)

    async def start(status: Callable[[], NodeStatus], times: Callable[[], ProblemTimes]) -> httpx.AsyncClient:
        server = RestServer(rest_app(replace(context, status=status, problem_times=times)))
        await server.start()
        client = httpx.AsyncClient(timeout=30, base_url=server.url, trust_env=False)
        opened.append((server, client))
        return client

    yield start
    for server, client in opened:
        await client.aclose()
        await server.stop()
    await peers.close()
