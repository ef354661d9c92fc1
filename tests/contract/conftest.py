from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import httpx
import pytest
from pydantic import TypeAdapter

from mm2.core.problems.problem_times import ProblemTimes
from mm2.node.status.status_model import FlowGroups, FlowStatus, NodeStatus
from mm2.rest.app import rest_app
from mm2.rest.internal.peers import Peers
from mm2.rest.merge.partition_merge import PartitionDetails
from mm2.rest.public.commands import CommandRefusedResponse
from mm2.rest.public.health import HealthResponse
from mm2.rest.public.queries import QueriesResponse
from mm2.rest.public.response_bodies import CommandResponse, LossesResponse, NodeDetails
from mm2.rest.public.responses import Unreadable
from mm2.rest.server.server import RestServer
from tests.contract.nodes import PLAIN, rest_context

Serve = Callable[[NodeStatus | Callable[[], NodeStatus]], Awaitable[httpx.AsyncClient]]
ServeWatched = Callable[[Callable[[], NodeStatus], Callable[[], ProblemTimes]], Awaitable[httpx.AsyncClient]]

BODIES = (
    *(CommandRefusedResponse, CommandResponse, FlowGroups, FlowStatus, HealthResponse, LossesResponse, NodeDetails),
    *(PartitionDetails, QueriesResponse, Unreadable),
)
"""Dataclasses of responses that each application of a node describes, some of them for dozens of endpoints."""


@pytest.fixture(scope="session", autouse=True)
def schemas() -> None:
    """Let pydantic keep the schemas of dataclasses, as it does for its models: hundreds of tests make an application,
    which takes 0.06 s of CPU instead of 0.14 s then."""
    for body in BODIES:
        setattr(body, "__pydantic_core_schema__", TypeAdapter(body).core_schema)  # noqa: B010 - mypy knows no such name


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
        client = httpx.AsyncClient(timeout=30, base_url=server.url, trust_env=False, verify=False)
        opened.append((server, client))
        return client

    yield start
    for server, client in opened:
        await client.aclose()
        await server.stop()
    await peers.close()
