"""What unauthenticated clients can make a node do: requests are judged by their headers, and their size, time and
number are limited. Sent through plain sockets, because HTTP clients send a body before they read the answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI

from mm2.node.engine.lane_board import LaneBoard
from mm2.node.engine.lease_service import LeaseService
from mm2.rest.internal.lease_api import engine_router
from mm2.rest.public.commands import LARGEST_COMMAND
from mm2.rest.server.server import RestServer, ServerLimits
from tests.contract.nodes import TOKEN, rest_nodes, signed

SOON = 30.0
HUGE = 60_000_000
ADMIN = {"Authorization": f"Bearer {TOKEN}"}


async def answer(url: str, path: str, headers: dict[str, str], body: bytes = b"") -> str:
    """Return what a server answers to the head of a POST request and the first bytes of its body."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    lines = [f"POST {path} HTTP/1.1", "Host: a", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    try:
        writer.write("\r\n".join(lines).encode() + body)
        async with asyncio.timeout(SOON):
            head = await reader.readuntil(b"\r\n\r\n")
            return (head + await reader.read(1_000)).decode()
    finally:
        writer.close()


def announced(length: int, **headers: str) -> dict[str, str]:
    return {"Content-Type": "application/json", "Content-Length": str(length), **headers}


@pytest.mark.parametrize("path", ["/flows/A/B/pause", "/flows/A/B/skip", "/flows/X/Y/resume"])
async def test_commands_without_a_token_are_rejected_before_their_body(path: str) -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        assert (await answer(node.server.url, path, announced(HUGE))).startswith("HTTP/1.1 401")
        assert (await answer(node.server.url, path, {"Transfer-Encoding": "chunked"})).startswith("HTTP/1.1 401")


async def test_commands_have_a_largest_size() -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        url, path = node.server.url, "/flows/A/B/pause"
        found = await answer(url, path, announced(LARGEST_COMMAND + 1, **ADMIN))
        assert found.startswith("HTTP/1.1 413")
        assert f"the body has more than {LARGEST_COMMAND} bytes" in found
        body = b'{"topics": ["orders"]}'.ljust(LARGEST_COMMAND)
        assert (await answer(url, path, announced(len(body), **ADMIN), body)).startswith("HTTP/1.1 202")
        chunked = {"Content-Type": "application/json", "Transfer-Encoding": "chunked", **ADMIN}
        found = await answer(url, path, chunked, b"%x\r\n" % (len(body) + 1) + body + b" \r\n")
        assert found.startswith("HTTP/1.1 413")


async def test_requests_between_nodes_are_rejected_before_their_body() -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        path = "/A/B/mm2/commands"
        assert (await answer(node.server.url, path, announced(HUGE))).startswith("HTTP/1.1 400")
        node.stand(leads=True, key=None)
        assert (await answer(node.server.url, path, announced(HUGE, **signed(node.server.url, path)))).startswith(
            "HTTP/1.1 503"
        )


async def test_reports_of_another_engine_are_rejected_before_their_body() -> None:
    app = FastAPI(openapi_url=None)
    board = LaneBoard(lanes=1, buffer_bytes=1 << 20, new_secret=lambda: "token")
    service = LeaseService(board, capacity=1)
    app.include_router(engine_router(service))
    server = RestServer(app)
    await server.start()
    try:
        assert (await answer(server.url, "/internal/engine", announced(HUGE))).startswith("HTTP/1.1 403")
        own = {"Authorization": f"Bearer {service.engine_token}"}
        secret = b'{"version": "open-sesame"}'
        found = await answer(server.url, "/internal/engine", announced(len(secret), **own), secret)
        assert found.startswith("HTTP/1.1 422")
        assert "open-sesame" not in found
    finally:
        await server.stop()


@asynccontextmanager
async def limited(limits: ServerLimits) -> AsyncIterator[str]:
    """Serve nothing, with these limits; return the URL."""
    server = RestServer(FastAPI(openapi_url=None), limits=limits)
    await server.start()
    try:
        yield server.url
    finally:
        await server.stop()


@pytest.mark.parametrize(
    "sent", [b"", b"GET /health HTTP/1.1\r\nHo", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"]
)
async def test_a_client_that_sends_nothing_more_is_disconnected(sent: bytes) -> None:
    async with limited(ServerLimits(request_within_s=0.2)) as url:
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(sent)
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(SOON):
                while await reader.read(1_000):
                    pass
        writer.close()


async def test_connections_have_a_largest_number() -> None:
    async with limited(ServerLimits(most_connections=2)) as url:
        parts = urlsplit(url)
        _, silent = await asyncio.open_connection(parts.hostname, parts.port)
        found = await answer(url, "/flows/A/B/pause", announced(0))
        assert found.startswith("HTTP/1.1 503")
        silent.close()
