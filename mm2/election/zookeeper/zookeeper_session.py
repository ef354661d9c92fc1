"""One session with ZooKeeper, for asyncio. The only module of a node that uses kazoo's client and its threads.

kazoo's client starts a new session after the old one expired, without its ephemeral znodes. Here an object represents
one session; a new session requires a new object.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    SASLException,
    SessionClosedRequireSaslError,
    SessionExpiredError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL, Auth, Connect
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import CREATOR_ALL_ACL

from mm2.core.masking import hide
from mm2.core.settings.tls import TlsSettings
from mm2.core.settings.zookeeper import AuthScheme, ZooKeeperAuth, ZooKeeperSettings
from mm2.kafka.connection.security import ssl_context
from mm2.kafka.errors import SecuritySettingsInvalid

log = logging.getLogger(__name__)

_CONNECT_SECONDS = 3.0  # for a TCP connection; kazoo would wait the session timeout, even while it is being closed
_GOODBYE_SECONDS = 2.0  # for the servers to confirm the end of the session, so that the others need not wait for it
_HANG_UP_SECONDS = _CONNECT_SECONDS + 1.0  # after that, for a connection attempt in progress to fail
_HANGING = 0.5  # share of the session timeout after which an event loop that has not run counts as blocked
_TICK = 0.1  # share of the session timeout: how often the loop shows that it runs
_RETRY = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_jitter": 0.4, "max_delay": 2.0}
"""Seconds between connection attempts. An outage must not use up much more of a session than it lasts; kazoo's default
delay grows up to an hour."""

_MOST_ERRORS = 5  # per outage: servers can fail in different ways, and the list must stay readable

LOOK_AT_IDENTITY = "Check mm2.zookeeper.auth.scheme, username and password"


_KEYS = "mm2.zookeeper.ssl"

_OTHER_HOST = f"the server's certificate is for another host; check {_KEYS}.endpoint.identification.algorithm"

_REASONS = {
    "Hostname mismatch": _OTHER_HOST,
    "IP address mismatch": _OTHER_HOST,
    "CERTIFICATE_VERIFY_FAILED": f"the server's certificate is not trusted; check {_KEYS}.truststore.*",
    "_ALERT_": f"the server rejected the client certificate, or requires one; check {_KEYS}.keystore.*",
    "WRONG_VERSION_NUMBER": f"the port does not use TLS; check {_KEYS}.client.enable",
    "EOF": f"the port does not use TLS, or requires a client certificate; check {_KEYS}.client.enable and .keystore.*",
}
"""What to check, by a text in the message of OpenSSL; the first that fits."""


class TlsSockets:
    """Encrypts connections with ``tls``."""

    def __init__(self, tls: TlsSettings) -> None:
        self._tls = tls

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl_context(self._tls)

    def encrypt(self, connection: socket.socket, host: str, within: float) -> ssl.SSLSocket:
        """Return ``connection``, to ``host``, after the handshake. It is closed if that takes longer than ``within``
        seconds, or fails. Raises OSError with the reason."""
        try:
            connection.settimeout(within)
            return self._context.wrap_socket(connection, server_hostname=host)
        except TimeoutError:
            connection.close()
            raise TimeoutError(errno.ETIMEDOUT, "no answer to the TLS handshake") from None
        except (OSError, SecuritySettingsInvalid) as error:
            connection.close()
            raise OSError(errno.EPROTO, explained(str(error))) from error


def explained(text: str) -> str:
    """Return an error message of OpenSSL with what to check. An error after the handshake, such as the rejection of a
    certificate in TLS 1.3, is found in kazoo's log."""
    if _KEYS in text:
        return text
    reason = next((reason for sign, reason in _REASONS.items() if sign in text), None)
    return text if reason is None else f"{reason} ({text})"


class NotConnected(Exception):
    """The servers cannot be reached now; the session can continue. The message is the reason, if known."""


class SessionOver(Exception):
    """The session has ended, and its ephemeral znodes with it. The message is the reason."""


class ZooKeeperSession:
    """Async context manager: entering starts to connect, leaving ends the session, or gives up after a few seconds.

    A. No request is sent while disconnected: a write must not be delayed and then be outdated.
    B. kazoo's threads keep a session alive, but not while the event loop is blocked: a node that hangs has to be
       replaced.
    C. After leaving, no thread remains; one that hangs in a name lookup is abandoned and ends by itself.
    """

    def __init__(self, settings: ZooKeeperSettings, on_change: Callable[[], None]) -> None:
        """``on_change`` is called in the loop whenever the state changes or a watch fires."""
        hide(*settings.secrets)
        self._settings = settings
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._handler = _Handler(settings.session_timeout_ms, settings.tls)
        self._log = _KazooLog()
        self._client = _client(settings, self._handler, self._log)
        self._connection = _Connection(self._client, self._log, settings.auth)
        self._client._connection = self._connection
        self._client.add_listener(self._state_changed)
        self._connected = False
        self._over: str | None = None
        self._ticking: asyncio.TimerHandle | None = None

    @property
    def timeout_ms(self) -> int:
        """The session timeout granted by the servers, in milliseconds."""
        return self._connection.timeout_ms or self._settings.session_timeout_ms

    @property
    def connected(self) -> bool:
        """Whether requests can be sent. Raises SessionOver."""
        if self._over is not None:
            raise SessionOver(self._over)
        return self._connected

    @property
    def last_error(self) -> str:
        """The connection errors, one per server; empty if there are none yet."""
        return "; ".join(self._log.errors)

    def watch(self, _: object) -> None:
        """A watch for requests that accept one; any event calls ``on_change``."""
        self._tell(self._on_change)

    async def __aenter__(self) -> Self:
        self._tick()
        self._client.start_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        ended = asyncio.Event()
        ending = threading.Thread(target=self._end, args=(ended,), name="zookeeper end", daemon=True)
        ending.start()  # kazoo waits for its threads, some of which wait for the servers
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await ended.wait()
        self._handler.disconnect()
        try:
            async with asyncio.timeout(_HANG_UP_SECONDS):
                await ended.wait()
        except TimeoutError:
            log.warning("zookeeper %s: abandoning a connection that did not close", ",".join(self._settings.servers))

    async def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Send a request by the name of its method in kazoo's client, such as ``get``, and return the response.

        Raises NotConnected, SessionOver, and errors of the servers as kazoo's ZookeeperError.
        """
        if not self.connected:
            raise NotConnected(self.last_error)
        question = getattr(self._client, f"{method}_async")
        return await self._answer(lambda: question(*arguments, **options))

    async def write_if(self, existing: str, path: str, data: bytes, version: int) -> int:
        """Write ``path`` atomically if the znode ``existing`` exists and ``path`` has ``version``.

        Return the new version. Raises as `ask` does; after BadVersionError and NoNodeError nothing was written.
        """
        if not self.connected:
            raise NotConnected(self.last_error)
        transaction = self._client.transaction()
        transaction.check(existing, -1)
        transaction.set_data(path, data, version)
        results = await self._answer(transaction.commit_async)
        refusals = [one for one in results if isinstance(one, Exception)]
        for refusal in sorted(refusals, key=lambda one: getattr(one, "code", 0)):
            raise refusal  # the lowest code: the others only report that the rest was not done either
        return int(results[1].version)

    async def _answer(self, question: Callable[[], Any]) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()

        def answered(result: Any) -> None:
            self._tell(lambda: None if future.done() else _settle(future, result))

        try:
            async with asyncio.timeout(self.timeout_ms / 1000):
                question().rawlink(answered)
                return await future
        except TimeoutError:
            raise NotConnected(f"no response within {self.timeout_ms} ms") from None
        except AuthFailedError as error:
            raise SessionOver(_ENDS[KeeperState.AUTH_FAILED]) from error
        except SessionExpiredError as error:
            raise SessionOver(self._over or str(error) or "the session expired") from error
        except ConnectionLoss as error:
            raise NotConnected(self.last_error) from error

    # -- in kazoo's threads

    def _state_changed(self, state: str) -> None:
        reason: str | None = None
        if state == KazooState.LOST:
            reason = _ENDS.get(self._client.client_state, "the connection ended unexpectedly")
            if last_error := self._log.failure:
                reason = f"{reason} ({last_error})"
        self._tell(lambda: self._take(connected=state == KazooState.CONNECTED, over=reason))

    def _tell(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: this thread was abandoned, see C
            self._loop.call_soon_threadsafe(what)

    def _end(self, ended: asyncio.Event) -> None:
        try:
            self._client.stop()
            self._client.close()
        finally:
            self._tell(ended.set)

    # -- in the event loop

    def _tick(self) -> None:
        self._handler.last_alive = time.monotonic()
        self._ticking = self._loop.call_later(self.timeout_ms / 1000 * _TICK, self._tick)

    def _take(self, *, connected: bool, over: str | None) -> None:
        self._connected = connected
        if connected:
            self._log.errors = ()
        self._over = self._over or over
        self._on_change()


_ENDS = {
    KeeperState.EXPIRED_SESSION: "the session expired: no contact with the servers within the session timeout",
    KeeperState.AUTH_FAILED: f"the servers rejected the user or password. {LOOK_AT_IDENTITY}",
    KeeperState.CLOSED: "closed",
}


def _client(settings: ZooKeeperSettings, handler: _Handler, logger: _KazooLog) -> Any:
    auth = settings.auth
    digest = [("digest", f"{auth.username}:{auth.password}")] if auth and auth.scheme is AuthScheme.DIGEST else None
    return KazooClient(
        hosts=",".join(settings.servers),
        timeout=settings.session_timeout_ms / 1000,
        handler=handler,
        connection_retry=_RETRY,
        auth_data=digest,
        default_acl=CREATOR_ALL_ACL if auth else None,
        logger=logger,
    )


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if result.exception is None:
        future.set_result(result.value)
    else:
        future.set_exception(result.exception)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """kazoo's threads, with a socket that can be shut down from outside, and with our own TLS."""

    def __init__(self, timeout_ms: int, tls: TlsSettings | None) -> None:
        super().__init__()
        self._tls = None if tls is None else TlsSockets(tls)
        self.last_alive = time.monotonic()
        self.timeout_ms = timeout_ms  # of the session
        self._socket: socket.socket | None = None

    def create_connection(self, *arguments: Any, **options: Any) -> Any:
        self._check_loop()
        options["timeout"] = min(options.get("timeout") or _CONNECT_SECONDS, _CONNECT_SECONDS)
        self._socket = super().create_connection(*arguments, **options)
        if self._tls is not None:
            self._socket = self._tls.encrypt(self._socket, options["hostname"], options["timeout"])
        return self._socket

    def select(self, readable: Any, *arguments: Any, **options: Any) -> Any:
        self._check_loop()
        pending = [one for one in readable if isinstance(one, ssl.SSLSocket) and one.pending()]
        if pending:  # decrypted already, so the system has nothing more to read
            arguments = (*arguments[:2], 0)
        found = super().select(readable, *arguments, **options)
        return ([*pending, *(one for one in found[0] if one not in pending)], *found[1:])

    def disconnect(self) -> None:
        """Wake up threads that wait for the servers."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _check_loop(self) -> None:
        if time.monotonic() - self.last_alive > self.timeout_ms / 1000 * _HANGING:
            raise TimeoutError(errno.ETIMEDOUT, "this node's event loop is blocked")


class _Connection(ConnectionHandler):  # type: ignore[misc] # kazoo has no types
    """kazoo's connection, extended: kazoo does not expose the session timeout that the servers granted, and some
    authentication failures end its thread with an uncaught exception."""

    def __init__(self, client: Any, logger: _KazooLog, auth: ZooKeeperAuth | None) -> None:
        sasl = None
        if auth and auth.scheme is AuthScheme.SASL:
            sasl = {"mechanism": "DIGEST-MD5", "username": auth.username, "password": auth.password}
        super().__init__(client, client._conn_retry.copy(), logger=logger, sasl_options=sasl)
        self.timeout_ms = 0

    def zk_loop(self) -> None:
        try:
            super().zk_loop()
        except Exception as error:  # noqa: BLE001 - the end of the session was reported; this is its cause
            log.debug("zookeeper: a connection failed unexpectedly: %r", error)

    def _connect(self, *arguments: Any) -> Any:
        try:
            read_ms, connect_ms = super()._connect(*arguments)
        except (SASLException, SessionClosedRequireSaslError) as error:
            raise AuthFailedError(repr(error)) from error
        self.timeout_ms = self.handler.timeout_ms = round(read_ms * 3 / 2)  # kazoo waits two thirds for an answer
        return read_ms, connect_ms


class _KazooLog(logging.LoggerAdapter[logging.Logger]):
    """Collects kazoo's warnings, the only place where it reports failures, and logs them at DEBUG.

    ``errors``: each failure once, so that the reported reason is stable while servers fail in different ways.
    """

    def __init__(self) -> None:
        super().__init__(logging.getLogger("kazoo"), {})
        self.errors: tuple[str, ...] = ()
        self.failure = ""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level >= logging.WARNING and args and len(self.errors) < _MOST_ERRORS:
            self.errors = tuple(dict.fromkeys((*self.errors, explained(str(msg) % args))))
        if level >= logging.ERROR:
            self.failure = repr(sys.exception())  # of kazoo's own thread, which ends with it
        if not any(isinstance(one, Auth | Connect | SASL) for one in args):  # they contain passwords
            super().log(min(level, logging.DEBUG), msg, *args, **kwargs)
