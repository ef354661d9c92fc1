"""Opening a connection: credentials, TCP and TLS, and SASL on it."""

from __future__ import annotations

import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiokafka.errors as aiokafka_errors
from aiokafka.conn import CloseReason

from mm2.core.settings.client import ClientSettings
from mm2.core.settings.sasl import SaslLogin
from mm2.kafka.connection.certificates import SHOWN
from mm2.kafka.connection.diagnosis import BrokerEndpoint
from mm2.kafka.connection.frames import FramedConnection
from mm2.kafka.connection.sockets import SocketBuffers
from mm2.kafka.sasl.login import Login, LoginFailed
from mm2.kafka.sasl.logins import Send, authenticate, login_of, renewed
from mm2.kafka.sasl.session import SHARES, Session, SessionShares

SETUP_ERRORS = (aiokafka_errors.KafkaError, OSError, ValueError, KeyError, AssertionError, LoginFailed)
"""What the functions of this module raise; ValueError, KeyError and AssertionError are aiokafka's for invalid
responses."""

LOGIN_SECONDS = 30.0
"""Maximum time to obtain a token or a ticket. Logins have shorter limits of their own."""

_NEVER_MS = 2**31 - 1  # for aiokafka's request timer: the caller limits the whole setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """How connections authenticate with SASL.

    ``login_of`` returns the login for settings. ``authenticate``: see `mm2.kafka.sasl.logins.authenticate`.
    """

    login_of: Callable[[SaslLogin], Login] = login_of
    authenticate: Callable[[Send, str, Login, str], Awaitable[float | None]] = authenticate
    shares: SessionShares = SHARES

    async def log_in(self, settings: ClientSettings) -> None:
        """Obtain credentials, if they are missing or expire soon: before connecting, since a broker would close the
        connection meanwhile."""
        if settings.login is not None:
            await renewed(self.login_of(settings.login))

    async def session(self, connection: FramedConnection, settings: ClientSettings, host: str) -> Session | None:
        """Authenticate an open connection, for the first time or again. Returns its session; None: without SASL, or if
        the broker does not end sessions."""
        if settings.login is None:
            return None
        mechanism = str(settings.login.mechanism)
        began = time.monotonic()
        lifetime = await self.authenticate(connection.send, mechanism, self.login_of(settings.login), host)
        return None if lifetime is None else Session.of(lifetime, since=began, shares=self.shares)


AUTHENTICATION = Authentication()


async def dial(
    endpoint: BrokerEndpoint,
    settings: ClientSettings,
    client_id: str,
    context: ssl.SSLContext | None,
    authentication: Authentication,
) -> tuple[FramedConnection, Session | None]:
    """Open and authenticate a connection. ``context`` None: without TLS."""
    connection = FramedConnection(
        endpoint.host,
        endpoint.port,
        client_id=client_id,
        request_timeout_ms=_NEVER_MS,
        buffers=SocketBuffers.of(settings, client_id),
        context=context,
        max_idle_ms=settings.connections_max_idle_ms if settings.connections_max_idle_ms > 0 else None,
    )
    try:
        await connection.connect()
        if (tls := connection.tls) is not None:
            SHOWN.take(settings.alias, str(endpoint), connection, tls)
        return connection, await authentication.session(connection, settings, endpoint.host)
    except BaseException:
        connection.close(CloseReason.AUTH_FAILURE)
        _abort(connection)
        raise


def _abort(connection: FramedConnection) -> None:
    """Abort the socket of a connection whose setup failed.

    It has been closed gracefully, which over TLS waits for the peer's close_notify.
    """
    protocol = connection._protocol
    if protocol is not None and protocol._transport is not None:
        protocol._transport.abort()
