from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
import time

import httpx
import pytest
import trustme
from fastapi import FastAPI

from mm2.core.settings.listener import ClientAuth, ServerTls
from mm2.core.settings.tls import TlsSettings
from mm2.rest.server.listeners import Listener, ListenerError
from mm2.rest.server.server import RestServer, close_listeners, open_listeners
from tests.lab.waiting import require_within


def slow_app(seconds: float, arrived: asyncio.Event | None = None) -> FastAPI:
    app = FastAPI()

    @app.get("/slow")
    async def slow() -> str:
        if arrived is not None:
            arrived.set()
        await asyncio.sleep(seconds)
        return "done"

    @app.get("/quick")
    async def quick() -> str:
        return "quick"

    return app


async def test_port_0_and_start_waits_until_the_server_accepts_requests() -> None:
    server = RestServer(slow_app(0))
    await server.start()
    try:
        assert server.port > 0
        async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
            assert (await client.get(f"{server.url}/quick")).text == '"quick"'
    finally:
        await server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=1)


async def test_signal_handlers_are_not_replaced() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    server = RestServer(slow_app(0))
    await server.start()
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    await server.stop()


async def test_requests_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "uvicorn.access")
    server = RestServer(slow_app(0))
    await server.start()
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        await client.get(f"{server.url}/quick")
    await server.stop()
    assert [record for record in caplog.records if "quick" in record.getMessage() and "uvicorn" in record.name] == []


async def test_small_responses_do_not_wait_for_a_delayed_ack() -> None:
    server = RestServer(slow_app(0))
    await server.start()
    try:
        async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
            await client.get(f"{server.url}/quick")
            took = []
            for _ in range(5):
                began = time.perf_counter()
                await client.get(f"{server.url}/quick")
                took.append(time.perf_counter() - began)
    finally:
        await server.stop()
    # Nagle's algorithm with a delayed ACK adds 40 ms per request
    require_within(min(took), 0.03, "the fastest of five responses arrives")


async def test_port_in_use_is_an_error_and_closes_all_sockets() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        first = Listener(scheme="http", host="127.0.0.1", port=0)
        second = Listener(scheme="http", host="127.0.0.1", port=port)
        with pytest.raises(ListenerError, match=f"cannot listen on http://127.0.0.1:{port}: the port is in use"):
            await open_listeners(slow_app(0), [first, second])
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("rest ")] == []


@pytest.mark.parametrize(
    ("host", "message"),
    [("no-such-host.invalid", "unknown host name"), ("192.0.2.1", "does not belong to this machine")],
)
async def test_host_of_another_machine_is_an_error(host: str, message: str) -> None:
    with pytest.raises(ListenerError, match=message):
        await RestServer(slow_app(0), host).start()


async def test_stop_waits_for_running_requests() -> None:
    arrived = asyncio.Event()
    server = RestServer(slow_app(0.5, arrived))
    await server.start()
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        request = asyncio.create_task(client.get(f"{server.url}/slow"))
        await asyncio.wait_for(arrived.wait(), 5)
        await server.stop(within=5)
        assert (await request).text == '"done"'


async def test_stop_cancels_requests_after_the_timeout(caplog: pytest.LogCaptureFixture) -> None:
    arrived = asyncio.Event()
    server = RestServer(slow_app(60, arrived))
    await server.start()
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        request = asyncio.create_task(client.get(f"{server.url}/slow"))
        await asyncio.wait_for(arrived.wait(), 5)
        began = time.monotonic()
        await server.stop(within=0.5)
        require_within(time.monotonic() - began, 2, "the request is cancelled")
        with pytest.raises(httpx.TransportError):
            await request
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"{server.url}: cancelled 1 requests that did not end within 0.5 s"
    ]


async def test_wildcard_host_listens_on_all_interfaces() -> None:
    server = RestServer(slow_app(0), "")
    await server.start()
    try:
        async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
            assert (await client.get(f"http://127.0.0.1:{server.port}/quick")).text == '"quick"'
    finally:
        await server.stop()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_tls(authority: trustme.CA, client_auth: ClientAuth) -> ServerTls:
    issued = authority.issue_cert("127.0.0.1")
    return ServerTls(
        tls=TlsSettings(
            ca_pem=authority.cert_pem.bytes().decode(),
            certificate_pem=b"".join(blob.bytes() for blob in issued.cert_chain_pems).decode(),
            key_pem=issued.private_key_pem.bytes().decode(),
        ),
        client_auth=client_auth,
    )


def client_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_http_and_https_listeners(authority: trustme.CA) -> None:
    listeners = [Listener(scheme=scheme, host="127.0.0.1", port=0) for scheme in ("http", "https")]
    servers = await open_listeners(slow_app(0), listeners, server_tls(authority, ClientAuth.NONE))
    try:
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=client_context(authority)) as client:
            for server, scheme in zip(servers, ("http", "https"), strict=True):
                assert server.url.startswith(f"{scheme}://127.0.0.1:")
                assert (await client.get(f"{server.url}/quick")).text == '"quick"'
    finally:
        await close_listeners(servers)


async def test_mutual_tls(authority: trustme.CA) -> None:
    server = RestServer(slow_app(0), tls=server_tls(authority, ClientAuth.REQUIRED))
    await server.start()
    known = client_context(authority)
    authority.issue_cert("client").configure_cert(known)
    try:
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=known) as client:
            assert (await client.get(f"{server.url}/quick")).text == '"quick"'
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=client_context(authority)) as client:
            with pytest.raises(httpx.HTTPError):
                await client.get(f"{server.url}/quick")
    finally:
        await server.stop()


async def test_https_without_a_certificate_is_an_error() -> None:
    with pytest.raises(ListenerError, match="needs a certificate"):
        await open_listeners(slow_app(0), [Listener.parse("https://127.0.0.1:0")])


async def test_key_that_does_not_match_the_certificate_is_an_error(authority: trustme.CA) -> None:
    good = server_tls(authority, ClientAuth.NONE).tls
    other = authority.issue_cert("127.0.0.1").private_key_pem.bytes().decode()
    mixed = ServerTls(tls=TlsSettings(certificate_pem=good.certificate_pem, key_pem=other))
    with pytest.raises(ListenerError, match="check that the key matches the certificate"):
        RestServer(slow_app(0), tls=mixed)
