"""What unauthenticated clients can make a node do: requests are judged by their headers, and their size, time and
number are limited. Sent through plain sockets, because HTTP clients send a body before they read the answer."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI

from mm2.core.lanes.engine_orders import EngineRole
from mm2.core.settings.listener import ServerTls
from mm2.node.engine.lane_board import LaneBoard
from mm2.node.engine.lease_service import LeaseService
from mm2.rest.internal.lease_api import engine_router
from mm2.rest.public.commands import LARGEST_COMMAND
from mm2.rest.server.connections import connection_limit
from mm2.rest.server.server import RestServer, ServerLimits
from tests.contract.certificates import caller_context, https_file
from tests.contract.nodes import PLAIN, TOKEN, rest_nodes, signed
from tests.lab.listeners import Authority

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
        own = {"Authorization": f"Bearer {service.engine_tokens[EngineRole.MAIN]}"}
        secret = b'{"version": "open-sesame"}'
        found = await answer(server.url, "/internal/engine", announced(len(secret), **own), secret)
        assert found.startswith("HTTP/1.1 422")
        assert "open-sesame" not in found
    finally:
        await server.stop()


@asynccontextmanager
async def limited(limits: ServerLimits, app: FastAPI | None = None, tls: ServerTls | None = None) -> AsyncIterator[str]:
    """Serve an application, or nothing, with these limits; return the URL."""
    server = RestServer(app or FastAPI(openapi_url=None), limits=limits, tls=tls)
    await server.start()
    try:
        yield server.url
    finally:
        await server.stop()


async def silent(url: str, address: str = "127.0.0.1") -> asyncio.StreamReader:
    """Connect from ``address`` and send nothing. The connection is closed by the server, or at the end of the test."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, local_addr=(address, 0))
    OPEN.append(writer)
    return reader


OPEN: list[asyncio.StreamWriter] = []


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


async def until_closed(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(SOON):
        with contextlib.suppress(ConnectionResetError):
            while await reader.read(1_000):
                pass


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


async def test_clients_that_send_nothing_do_not_keep_others_out(caplog: pytest.LogCaptureFixture) -> None:
    async with limited(ServerLimits(most_connections=3)) as url:
        clients = [await silent(url) for _ in range(10)]
        for oldest in clients[:7]:
            await until_closed(oldest)
        assert (await answer(url, "/flows/A/B/pause", announced(0))).startswith("HTTP/1.1 404")
        assert not clients[-1].at_eof()
    warnings = [record.getMessage() for record in caplog.records if record.name == "mm2.rest"]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{url}: all 3 connections are in use, 3 of them by 127.0.0.1: closing those that")


async def test_a_client_with_many_connections_loses_its_own() -> None:
    async with limited(ServerLimits(most_connections=3)) as url:
        one = await silent(url, "127.0.0.2")
        many = [await silent(url, "127.0.0.3") for _ in range(4)]
        await until_closed(many[0])
        await until_closed(many[1])
        assert not one.at_eof()


async def test_connections_count_before_the_tls_handshake(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority()
    tls = https_file(authority, tmp_path).listening.tls
    async with limited(ServerLimits(most_connections=3), health_app(), tls) as url:
        clients = [await silent(url) for _ in range(10)]
        for oldest in clients[:7]:
            await until_closed(oldest)
        async with httpx.AsyncClient(timeout=SOON, trust_env=False, verify=caller_context(authority)) as client:
            assert (await client.get(f"{url}/health/live")).status_code == 200
    assert f"{url}: all 3 connections are in use" in caplog.text, "they were not closed at the end of a handshake"


async def test_a_client_without_a_tls_handshake_is_disconnected(tmp_path: Path) -> None:
    tls = https_file(Authority(), tmp_path).listening.tls
    async with limited(ServerLimits(handshake_within_s=0.2), tls=tls) as url:
        await until_closed(await silent(url))
    assert ServerLimits().handshake_within_s < ServerLimits().request_within_s


def health_app(busy: asyncio.Event | None = None, done: asyncio.Event | None = None) -> FastAPI:
    """Return an application with a probe and a request that ends with ``done``."""
    app = FastAPI(openapi_url=None)

    @app.get("/health/live")
    async def live() -> str:
        return "UP"

    @app.get("/busy")
    async def wait() -> None:
        assert busy is not None
        assert done is not None
        busy.set()
        await done.wait()

    return app


async def test_probes_are_answered_when_all_connections_are_busy() -> None:
    busy, done = asyncio.Event(), asyncio.Event()
    async with (
        limited(ServerLimits(most_connections=1), health_app(busy, done)) as url,
        httpx.AsyncClient(timeout=SOON, trust_env=False, verify=PLAIN, base_url=url) as client,
    ):
        occupying = asyncio.create_task(client.get("/busy"))
        await asyncio.wait_for(busy.wait(), SOON)
        assert (await client.get("/health/live")).status_code == 200
        assert (await client.get("/health/live")).status_code == 200
        other = await client.get("/busy")
        assert (other.status_code, other.text) == (503, "all connections of this node are in use")
        done.set()
        assert (await occupying).status_code == 200


def test_the_number_of_connections_follows_the_limit_of_open_files() -> None:
    assert connection_limit(1_024) == 256
    assert connection_limit(65_536) == connection_limit(resource.RLIM_INFINITY) == 1_000
    assert ServerLimits().most_connections == connection_limit(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
