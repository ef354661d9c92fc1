"""SASL on an open connection: SaslHandshake, SaslAuthenticate, and the lifetime of the session (KIP-152, KIP-368)."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import aiokafka.errors as aiokafka_errors
from aiokafka.protocol.admin import SaslAuthenticateRequest, SaslHandShakeRequest

from mm2.kafka.sasl.login import CredentialsRejected, Exchange, Login, LoginFailed
from mm2.kafka.sasl.login_threads import in_login_thread

Send = Callable[[Any], Awaitable[Any]]
"""Sends a request of aiokafka's kind, and returns the response."""


async def authenticate(send: Send, mechanism: str, login: Login, host: str) -> float | None:
    """Authenticate a connection to the broker at ``host``, or authenticate it again.

    Returns the seconds until the broker ends the session unless the client authenticates again (its
    connections.max.reauth.ms, or the lifetime of the credentials); None: it does not end. Raises aiokafka's errors for
    what the broker rejects, and LoginFailed before anything is sent.
    """
    exchange = login.exchange(host)
    message = await in_login_thread(login, _next, exchange, None)  # if it fails, the connection remains usable
    handshake = await send(SaslHandShakeRequest(mechanism))
    _check(handshake.error_code, f"{mechanism}; enabled are {', '.join(handshake.enabled_mechanisms)}")
    lifetime_ms = 0
    while message is not None:
        answer = await send(SaslAuthenticateRequest(message))
        if answer.error_code == aiokafka_errors.SaslAuthenticationFailed.errno:
            await in_login_thread(login, _reject, exchange)
        _check(answer.error_code, answer.error_message)
        lifetime_ms = getattr(answer, "session_lifetime_ms", 0)  # from version 1 on (Kafka 2.2)
        message = await in_login_thread(login, _next, exchange, answer.sasl_auth_bytes or b"")
    return lifetime_ms / 1000 if lifetime_ms > 0 else None


def _next(exchange: Exchange, answer: bytes | None) -> bytes | None:
    """Return the next message, None after the last one."""
    try:
        return next(exchange) if answer is None else exchange.send(answer)
    except StopIteration:
        return None
    except LoginFailed as error:
        if answer is None:
            raise
        raise aiokafka_errors.AuthenticationFailedError(str(error)) from error
    except (ValueError, KeyError) as error:  # aiokafka's parser raises both for an invalid message
        raise aiokafka_errors.AuthenticationFailedError(f"invalid answer of the broker: {error}") from error


def _reject(exchange: Exchange) -> None:
    """End an exchange whose message the broker has rejected, so that the login learns of it."""
    with contextlib.suppress(CredentialsRejected):
        exchange.throw(CredentialsRejected())


def _check(code: int, message: str | None) -> None:
    error = aiokafka_errors.for_code(code)
    if error is not aiokafka_errors.NoError:
        raise error(message or error.description)
