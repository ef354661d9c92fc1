"""Serves an application inside the event loop that is already running.

uvicorn only implements HTTP: it installs no signal handlers (the node's own handlers drain it), logs no requests and
does not end the process. Sockets are bound here, so that a port in use is reported with a fix.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mm2.core.settings.listener import ServerTls
from mm2.rest.server.connections import AcceptedConnection, Connections, connection_limit, open_files
from mm2.rest.server.listeners import Listener, ListenerError
from mm2.rest.server.tls import RenewableContext, server_context

log = logging.getLogger("mm2.rest")

KEEP_ALIVE_S = 30
"""Longer than our clients reuse idle connections (httpx: 5 s), so that no connection is closed during a request."""

STOP_WITHIN_S = 5.0
"""A scrape or long poll in flight ends well within this time; other requests are cancelled."""

CUT_OFF_WITHIN_S = 1.0
"""A cancelled request ends immediately; uvicorn checks every 0.1 s."""


BACKLOG = 128

START_WITHIN_S = 10.0
"""The sockets are bound before uvicorn starts: only an overloaded machine reaches this limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What clients of a listener may occupy."""

    request_within_s: float = 60.0
    """Seconds for a client to send a whole request: the largest from a lane, over a slow link. Who sends nothing must
    not occupy a connection for ever."""
    handshake_within_s: float = 10.0
    """Seconds for a TLS handshake: three round trips and some milliseconds of CPU."""
    most_connections: int = field(default_factory=lambda: connection_limit(open_files()))
    """Connections of one listener (`mm2.rest.server.connections`)."""


PROBES = "/health"
"""Path of the probes, and the beginning of their paths."""


class RestServer:
    """One application on one listener.

    With ``port`` 0 the system chooses a port, which the property `port` returns after `start`. ``tls`` enables https.
    """

    def __init__(
        self,
        app: FastAPI,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        tls: ServerTls | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        self._listener = Listener(scheme="http" if tls is None else "https", host=host, port=port)
        context = None if tls is None else RenewableContext(server_context(tls))
        self._context = context
        config = _Config(
            limits or ServerLimits(),
            app,
            http=_Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            workers=1,  # otherwise uvicorn reads WEB_CONCURRENCY
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            backlog=BACKLOG,
        )
        self._server = _Server(config, context)
        self._task: asyncio.Task[None] | None = None

    @property
    def listener(self) -> Listener:
        """The listener; after `start` with the port actually bound."""
        return self._listener

    @property
    def port(self) -> int:
        """The bound port."""
        return self._listener.port

    @property
    def url(self) -> str:
        """``http://host:port`` as bound."""
        return str(self._listener)

    async def start(self) -> None:
        """Bind and serve. Raises ListenerError if the address cannot be bound."""
        bound = await _bind(self._listener)
        self._listener = Listener(scheme=self._listener.scheme, host=self._listener.host, port=bound.getsockname()[1])
        self._server.accepted.name = self.url
        self._task = asyncio.create_task(self._server.serve([bound]), name=f"rest {self.url}")
        self._task.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(START_WITHIN_S):
                await self._server.serving.wait()
        except TimeoutError:
            await self._cancel()
            bound.close()
            raise ListenerError(f"listeners: {self.url} did not start within {START_WITHIN_S:.0f} s") from None
        if self._task.done():
            self._task.result()

    def renew(self, tls: ServerTls) -> None:
        """Use these certificates for new connections to an https listener. Raises ListenerError, and keeps the
        former."""
        if self._context is not None:
            self._context.renew(server_context(tls))

    async def stop(self, within: float = STOP_WITHIN_S) -> None:
        """Stop accepting connections, wait ``within`` seconds for requests in flight, then cancel them."""
        if self._task is None:
            return
        self._server.should_exit = True
        await asyncio.wait({self._task}, timeout=within)
        if not self._task.done():
            open_requests = self._server.cut_off()
            log.warning("%s: cancelled %d requests that did not end within %.1f s", self.url, open_requests, within)
            await asyncio.wait({self._task}, timeout=CUT_OFF_WITHIN_S)
            await self._cancel()
        self._task = None

    async def _cancel(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=CUT_OFF_WITHIN_S)
        self._server.cut_off()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._server.serving.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: REST interface failed: %s", self.url, error, exc_info=error)


async def open_listeners(app: FastAPI, listeners: Sequence[Listener], tls: ServerTls | None = None) -> list[RestServer]:
    """Serve ``app`` on all listeners. If one fails, close the others and raise ListenerError.

    ``tls`` is required if one of them is https.
    """
    opened: list[RestServer] = []
    try:
        for listener in listeners:
            server = _server_for(app, listener, tls)
            await server.start()
            opened.append(server)
    except BaseException:
        await close_listeners(opened)
        raise
    return opened


def _server_for(app: FastAPI, listener: Listener, tls: ServerTls | None) -> RestServer:
    if listener.scheme == "http":
        return RestServer(app, listener.host, listener.port)
    if tls is None:
        raise ListenerError(
            f"listeners: {listener} needs a certificate: set ssl.keystore.type=PEM and ssl.keystore.location, or"
            " ssl.keystore.certificate.chain and ssl.keystore.key"
        )
    return RestServer(app, listener.host, listener.port, tls=tls)


async def close_listeners(servers: Sequence[RestServer], within: float = STOP_WITHIN_S) -> None:
    """Stop all of them in parallel, each within ``within`` seconds."""
    await asyncio.gather(*(server.stop(within) for server in servers))


async def _bind(listener: Listener) -> socket.socket:
    try:
        if not listener.host:
            return _tcp(_bind_everywhere(listener.port))
        found = await asyncio.get_running_loop().getaddrinfo(
            listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, *_, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)  # as Java: IPv4 first
        return _tcp(socket.create_server(address[:2], family=family, backlog=BACKLOG))
    except OSError as error:
        raise ListenerError(f"listeners: cannot listen on {listener}: {_why(error)}") from error


def _bind_everywhere(port: int) -> socket.socket:
    """Listen on all interfaces: IPv4 and IPv6 in one socket, or only IPv4 if the system has no IPv6."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:  # IPv6 is compiled in but disabled
                raise
    return socket.create_server(("", port), family=socket.AF_INET, backlog=BACKLOG)


def _tcp(bound: socket.socket) -> socket.socket:
    """Return the same socket with TCP's protocol number: asyncio sets TCP_NODELAY only with it, and create_server does
    not set it. Without TCP_NODELAY every small response waits 40 ms for a delayed ACK."""
    return socket.socket(fileno=bound.detach())


def _why(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "unknown host name. Use a name or address of this machine"
    match error.errno:
        case errno.EADDRINUSE:
            return (
                "the port is in use, perhaps by another mm2 or Kafka Connect. Stop that process or choose another port"
            )
        case errno.EACCES:
            return "ports below 1024 need additional privileges. Choose a higher port"
        case errno.EADDRNOTAVAIL:
            return "the address does not belong to this machine. Use one that does, or none for all interfaces"
    return error.strerror or str(error)


_INCOMPLETE = ("IDLE", "SEND_BODY")
"""States of h11 for a client whose request has not arrived completely."""


class _Config(uvicorn.Config):
    """uvicorn's configuration, and our limits for its connections."""

    def __init__(self, limits: ServerLimits, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.limits = limits


class _Connection(H11Protocol):
    """uvicorn's connection, closed if a request does not arrive within `ServerLimits.request_within_s`.

    At shutdown it is closed immediately if it is idle: asyncio would wait up to 30 s for the TLS shutdown of a
    connection that monitoring keeps open.
    """

    _expecting: asyncio.TimerHandle | None = None

    def __init__(self, connection: AcceptedConnection, accepted: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._connection = connection
        self._accepted = accepted
        if connection.only_probes:
            self.app = _OnlyProbes(self.app)

    @property
    def waiting(self) -> bool:
        """Whether the client has not sent a complete request."""
        return self._expecting is not None or self.cycle is None or self.cycle.response_complete

    def abort(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]  # uvicorn's type is narrower than asyncio's
        self._connection.protocol = self
        self._expect()

    def on_response_complete(self) -> None:
        self._connection.since = time.monotonic()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state.__name__ in _INCOMPLETE:
            self._expect()
        else:
            self._expect_nothing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._accepted.closed(self._connection)
        self._expect_nothing()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self._expecting is None:
            assert isinstance(self.config, _Config)
            self._expecting = self.loop.call_later(self.config.limits.request_within_s, self.transport.abort)

    def _expect_nothing(self) -> None:
        if self._expecting is not None:
            self._expecting.cancel()
            self._expecting = None

    def shutdown(self) -> None:
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.transport.get_extra_info("ssl_object") is not None:
            self.transport.abort()
        else:
            super().shutdown()


class _OnlyProbes:
    """An application that answers probes, and 503 to all other requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == PROBES or scope["path"].startswith(f"{PROBES}/"):
            await self._app(scope, receive, send)
        else:
            answer = PlainTextResponse("all connections of this node are in use", 503, {"AcceptedConnection": "close"})
            await answer(scope, receive, send)


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, with connections of `Connections`."""

    def __init__(self, config: _Config, context: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self.serving = asyncio.Event()
        self.servers: list[asyncio.Server] = []
        self.accepted = Connections(
            serve=self._connection,
            context=context,
            most=config.limits.most_connections,
            handshake_within_s=config.limits.handshake_within_s,
        )
        self._accepting: list[asyncio.Task[None]] = []

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        self._accepting = [asyncio.create_task(self.accepted.accept(one), name="accept") for one in sockets or ()]
        self.started = True
        self.serving.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._accept_no_more()
        await super().shutdown(sockets)

    async def _accept_no_more(self) -> None:
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await self.accepted.abort_handshakes()

    def _connection(self, connection: AcceptedConnection) -> asyncio.Protocol:
        return _Connection(
            connection,
            self.accepted,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

    def cut_off(self) -> int:
        """Close all connections and cancel all requests; return the number of requests."""
        self.force_exit = True
        for task in self._accepting:
            task.cancel()
        self.accepted.abort()
        for request in list(self.server_state.tasks):
            request.cancel()
        return len(self.server_state.tasks)


def _not_cut_off(record: logging.LogRecord) -> bool:
    """uvicorn logs a cancelled request as an error with its traceback; `RestServer.stop` has logged it already."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


logging.getLogger("uvicorn.error").addFilter(_not_cut_off)
