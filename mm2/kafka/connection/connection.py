"""One connection to one broker, opened on demand and reopened with backoff after a loss, and the
renewal of its SASL session (KIP-368)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
import time
from collections.abc import Callable, Coroutine
from copy import copy
from dataclasses import dataclass
from typing import Any

import aiokafka.errors as aiokafka_errors
from aiokafka.conn import CloseReason

from mm2.core.settings.client import ClientSettings
from mm2.kafka.backoff import Backoff
from mm2.kafka.connection.connecting import AUTHENTICATION, LOGIN_SECONDS, SETUP_ERRORS, Authentication, dial
from mm2.kafka.connection.diagnosis import BrokerEndpoint, explain, silent
from mm2.kafka.connection.frames import FramedConnection
from mm2.kafka.errors import ClusterClosed, ClusterError, LeaseExpired, RequestTimedOut, Unreachable
from mm2.kafka.protocol.raw_request import DeferredResponse
from mm2.kafka.sasl.login import LoginFailed
from mm2.kafka.sasl.session import Session

log = logging.getLogger(__name__)


@dataclass(slots=True)
class LiveConnection:
    """A connection on which requests can be sent. ``has_responded``: the broker has answered one. ``session``: None
    without SASL, or if the broker does not end sessions."""

    connection: FramedConnection
    peer: BrokerEndpoint
    settings: ClientSettings
    authentication: Authentication
    has_responded: bool = False
    session: Session | None = None
    _renewal: asyncio.Task[bool] | None = None

    @property
    def is_open(self) -> bool:
        return bool(self.connection.connected())

    @property
    def is_usable(self) -> bool:
        """Whether a request can be sent now, without authenticating again first."""
        return self.is_open and (self.session is None or not self.session.is_due)

    async def renew(self) -> bool:
        """Authenticate again, after the session has become due. Returns False if the connection cannot be used any
        longer.

        Without new credentials the connection keeps its session until that ends. A caller that is cancelled does not
        interrupt the exchange, which the broker could not resume: the next one waits for the same renewal.
        """
        session = self.session
        assert session is not None, "only sessions become due"
        if self._renewal is None:
            if not session.may_be_renewed:
                return False  # the credentials were about to expire
            self._renewal = asyncio.create_task(self._renew(session), name=f"authenticate again to {self.peer}")
        renewal = self._renewal
        await asyncio.wait([renewal])
        if renewal is self._renewal:
            self._renewal = None
        return not renewal.cancelled() and renewal.result()

    def give_up(self) -> asyncio.Task[bool] | None:
        """Cancel a renewal in progress, and return it: the connection is being closed."""
        if self._renewal is not None:
            self._renewal.cancel()
        return self._renewal

    async def _renew(self, session: Session) -> bool:
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                await self.authentication.log_in(self.settings)
        except (LoginFailed, TimeoutError) as error:
            return self._postponed(session, error)
        try:
            async with asyncio.timeout(self.settings.request_timeout_ms / 1000):
                self.session = await self.authentication.session(self.connection, self.settings, self.peer.host)
        except LoginFailed as error:  # nothing has been sent
            return self._postponed(session, error)
        except SETUP_ERRORS as error:  # the broker closes the connection when it has rejected the credentials
            log.warning("%s", explain(error, self.peer, self.settings, has_responded=True))
            return False
        return True

    def _postponed(self, session: Session, error: BaseException) -> bool:
        log.warning("%s", explain(error, self.peer, self.settings, has_responded=True))
        session.postpone()
        return not session.is_over


# It logs for each connection what our errors report once, and warns of SASL PLAIN without TLS at each reconnect.
logging.getLogger("aiokafka.conn").setLevel(logging.ERROR)

_SETUP_SECONDS = 10.0  # TCP, TLS, versions and SASL together; Java's socket.connection.setup.timeout.ms
_CLOSE_SECONDS = 1.0  # for TLS close_notify; asyncio alone would wait 30 s for a dead peer
_ABORT_SECONDS = 0.5  # for the loop to report an aborted socket as closed, with a margin for a busy machine


LEASE_EXPIRED = "the lease of this task was not renewed in time; nothing is sent until it is"

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with a timeout of 0


class Connection:
    """A connection that is opened by the first request, and again after it was lost.

    A. Requests are written in the order in which ``send`` was called, also across a reconnect.
    B. After a failed attempt there is no other before the backoff is over; callers wait for it. Callers that waited
       for the same attempt share its failure instead of trying one after the other.
    C. The backoff is reset only after the broker has answered a request: a port that accepts connections and closes
       them again is not dialled in a tight loop.
    D. A request is written, and a connection opened for it, only if ``may_send`` returns True immediately before.
    E. Before its SASL session ends, a connection authenticates again (KIP-368). Requests in flight are not affected,
       new ones wait for the broker's answers.
    """

    def __init__(
        self,
        endpoint: Callable[[], BrokerEndpoint | None],
        settings: ClientSettings,
        *,
        client_id: str,
        ssl_context: ssl.SSLContext | None,
        may_send: Callable[[], bool],
        authentication: Authentication = AUTHENTICATION,
    ) -> None:
        self._authentication = authentication
        self._endpoint = endpoint
        self._may_send = may_send
        self._settings = settings
        self._client_id = client_id
        self._ssl_context = ssl_context
        self._live: LiveConnection | None = None
        self._opening = asyncio.Lock()
        self._queued = 0  # requests that wait for the connection to be opened and are not written yet
        self._backoff = Backoff(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms)
        self._not_before = 0.0
        self._attempts = 0
        self._failure: ClusterError | None = None  # of the last attempt
        self._closed = False
        self._closing: set[asyncio.Future[Any]] = set()
        self._setup: asyncio.Timeout | None = None  # of the current connection attempt

    @property
    def connected(self) -> bool:
        """Whether it is open: a request may have to wait, but not for a connection attempt."""
        return self._live is not None and self._live.is_open

    @property
    def round_trip_s(self) -> float | None:
        """The round trip as TCP measures it; None: unknown, or not connected."""
        return None if self._live is None else self._live.connection.round_trip_s

    @property
    def failing(self) -> bool:
        """Whether the last attempt failed."""
        return self._backoff.failures > 0

    async def send(self, request: Any, *, timeout: float, expect_response: bool = True) -> Any:
        """Send a request and wait ``timeout`` seconds for the response, excluding the time to connect.

        Returns aiokafka's response struct, or None if no response is expected. Raises ClusterError.
        """
        live = self._live
        if live is not None and not self._queued and live.is_usable:
            pending = self._write(live, request, expect_response)
        else:
            attempts = self._attempts
            self._queued += 1
            try:
                async with self._opening:  # the lock is fair: invariant A
                    live = await self._open(attempts)
                    pending = self._write(live, request, expect_response)
            finally:
                self._queued -= 1
        return await self._answer(live, pending, request, timeout)

    def _write(self, live: LiveConnection, request: Any, expect_response: bool) -> Any:
        if not self._may_send():
            raise LeaseExpired(LEASE_EXPIRED)
        try:
            pending = live.connection.send(request, expect_response=expect_response)
        except (aiokafka_errors.KafkaError, NotImplementedError, OSError) as error:
            raise explain(error, live.peer, self._settings, has_responded=live.has_responded) from error
        return pending

    async def versions(self) -> dict[int, tuple[int, int]]:
        """Return the (lowest, highest) version of each API key that the broker supports."""
        attempts = self._attempts
        async with self._opening:
            return dict((await self._open(attempts)).connection._versions)

    def disconnect(self) -> None:
        """Close the connection; the next request reopens it."""
        self._drop(CloseReason.SHUTDOWN)

    def abort(self) -> None:
        """Close the connection and discard what is not sent yet; the next request reopens it.

        Requests in flight fail with ConnectionLost. Bytes that the kernel has already sent cannot be recalled.
        """
        live, self._live = self._live, None
        if live is None:
            return
        writer = live.connection._writer
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()
        live.give_up()
        live.connection.close(CloseReason.SHUTDOWN)

    def close(self) -> Coroutine[Any, Any, None]:
        """Close permanently. Requests in flight fail with ConnectionLost. Waiting for the result takes up to 1.5 s, for
        the peer; the connection is closed even if the caller does not wait."""
        self._closed = True
        if self._setup is not None:
            self._setup.reschedule(0)  # in the past: an attempt in progress times out immediately
        self._drop(CloseReason.SHUTDOWN)
        return self._all_closed()

    async def _all_closed(self) -> None:
        if self._closing:
            await asyncio.wait(self._closing, timeout=_CLOSE_SECONDS + _ABORT_SECONDS)

    async def _answer(self, live: LiveConnection, pending: Any, request: Any, timeout: float) -> Any:
        try:
            answer = await _within(timeout, pending)
        except TimeoutError as error:
            self._discard(live, CloseReason.CONNECTION_TIMEOUT)
            asked = f"{type(request).__name__} within {timeout:g} s"
            raise RequestTimedOut(silent(live.peer, self._settings, asked)) from error
        except (aiokafka_errors.KafkaError, OSError) as error:
            self._discard(live, CloseReason.CONNECTION_BROKEN)
            if not live.has_responded:
                self._failed()
            raise explain(error, live.peer, self._settings, has_responded=live.has_responded) from error
        if answer is not None:
            live.has_responded = True
            self._backoff.reset()
        return await asyncio.to_thread(answer.decode) if isinstance(answer, DeferredResponse) else answer

    async def _open(self, attempts: int) -> LiveConnection:
        """Return an open connection. ``attempts``: their number when the caller started to wait."""
        while (live := self._live) is not None and live.is_open and not self._closed:
            if live.is_usable:
                return live
            if not await live.renew():
                break
        if self._closed:
            raise ClusterClosed("the client is closed")
        self._drop(CloseReason.CONNECTION_BROKEN)
        if not self._may_send():
            raise LeaseExpired(LEASE_EXPIRED)
        if self._failure is not None and self._attempts > attempts:
            raise copy(self._failure)
        await asyncio.sleep(max(0.0, self._not_before - time.monotonic()))
        endpoint = self._endpoint()
        if endpoint is None:
            raise Unreachable("the broker is no longer part of the cluster")
        try:
            live = await self._dial(endpoint)
        except ClusterError as error:
            if self._closed:
                raise ClusterClosed("the client is closed") from error
            self._attempts += 1
            self._failure = error
            self._failed()
            args = self._client_id, endpoint, max(0.0, self._not_before - time.monotonic()), error
            log.debug("client %s: not connected to %s; next attempt in %.1f s at the earliest: %s", *args)
            raise
        self._failure = None
        if self._closed:  # meanwhile
            self._discard(live, CloseReason.SHUTDOWN)
            raise ClusterClosed("the client is closed")
        self._live = live
        log.debug("client %s: connected to %s", self._client_id, endpoint)
        return live

    async def _dial(self, endpoint: BrokerEndpoint) -> LiveConnection:
        settings, authentication = self._settings, self._authentication
        try:
            async with asyncio.timeout(LOGIN_SECONDS) as self._setup:
                await authentication.log_in(settings)
            async with asyncio.timeout(min(_SETUP_SECONDS, settings.request_timeout_ms / 1000)) as self._setup:
                connection, session = await dial(endpoint, settings, self._client_id, self._ssl_context, authentication)
        except SETUP_ERRORS as error:
            raise explain(error, endpoint, settings, has_responded=False) from error
        finally:
            self._setup = None
        return LiveConnection(connection, endpoint, settings, authentication, session=session)

    def _failed(self) -> None:
        self._not_before = time.monotonic() + self._backoff.next()

    def _drop(self, reason: CloseReason) -> None:
        if self._live is not None:
            self._discard(self._live, reason)

    def _discard(self, live: LiveConnection, reason: CloseReason) -> None:
        """Close the connection, and abort the socket if the peer does not answer close_notify."""
        if live is self._live:
            self._live = None
        writer = live.connection._writer
        if (renewal := live.give_up()) is not None:
            self._wait_for(renewal)
        closed: asyncio.Future[None] | None = live.connection.close(reason)
        if closed is None or closed.done():
            return
        self._wait_for(closed)
        if writer is not None:
            abort = asyncio.get_running_loop().call_later(_CLOSE_SECONDS, writer.transport.abort)
            closed.add_done_callback(lambda _: abort.cancel())

    def _wait_for(self, closing: asyncio.Future[Any]) -> None:
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


async def _within(timeout: float, pending: Any) -> Any:
    """Return the result of ``pending``. Raises TimeoutError and the connection's errors."""
    if not asyncio.isfuture(pending):  # no response is expected: only writing takes time
        async with asyncio.timeout(timeout):
            return await pending
    expiry = asyncio.get_running_loop().call_later(timeout, _expire, pending)  # a third of what asyncio.timeout costs
    try:
        return await pending
    finally:
        expiry.cancel()


def _expire(pending: asyncio.Future[Any]) -> None:
    if not pending.done():
        pending.set_exception(TimeoutError())
