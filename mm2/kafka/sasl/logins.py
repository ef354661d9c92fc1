"""The logins of this process by their settings, and SASL on an open connection: SaslHandshake, SaslAuthenticate, and
the lifetime of the session (KIP-152, KIP-368). The messages of SCRAM are aiokafka's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import aiokafka.errors as aiokafka_errors
from aiokafka.conn import ScramAuthenticator
from aiokafka.protocol.admin import SaslAuthenticateRequest, SaslHandShakeRequest

from mm2.core.settings.kerberos import KerberosLogin
from mm2.core.settings.oauth import OAuthLogin
from mm2.core.settings.sasl import PasswordLogin, SaslLogin, SaslMechanism, UnusableLogin
from mm2.kafka.sasl.kerberos.kerberos_tickets import KerberosTickets, kerberos_login
from mm2.kafka.sasl.login import CredentialsRejected, Exchange, Login, LoginFailed
from mm2.kafka.sasl.oauthbearer import OAuthBearerLogin

P = ParamSpec("P")
T = TypeVar("T")

THREADS_OF_A_KIND = 8
"""Logins of one kind that can wait at the same time. A node has one login for each cluster, and a few connections that
authenticate at the same time."""

NAME = "login-"


async def in_login_thread(login: Login, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of a call of ``login`` that may block.

    asyncio's own threads are few (cores + 4), and look up the addresses of hosts: while they wait for a login, no
    connection to any cluster is opened. A kind of login has threads of its own, so that one that uses Kerberos does not
    delay one with a password.
    """
    return await asyncio.get_running_loop().run_in_executor(_threads_of(type(login)), partial(call, *args, **kwargs))


@lru_cache
def _threads_of(kind: type[Login]) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS_OF_A_KIND, thread_name_prefix=f"{NAME}{kind.__name__}")


MIN_ITERATIONS = 4096
"""Kafka's minimum (ScramMechanism). A broker that asks for fewer would make the password easy to guess."""

MAX_ITERATIONS = 1_000_000
"""About a second of CPU for a password. A broker that asks for more would keep its clients busy; Kafka's own tools
allow 16,384."""


@dataclass(frozen=True, slots=True)
class PasswordExchanges:
    """The login of a user with a password, which does not expire."""

    login: PasswordLogin

    @property
    def is_due(self) -> bool:
        return False

    def renew(self) -> None:
        """Do nothing."""

    def exchange(self, host: str) -> Exchange:
        return _plain(self.login) if self.login.mechanism is SaslMechanism.PLAIN else _scram(self.login)


def _plain(login: PasswordLogin) -> Exchange:
    answer = yield f"\0{login.username}\0{login.password}".encode()  # RFC 4616, without an authorization id, as in Java
    if answer:
        raise ValueError("the broker answered PLAIN with a challenge")


def _scram(login: PasswordLogin) -> Exchange:
    scram = _Scram(login)
    server_first = yield scram.first_message().encode()
    scram.process_server_first_message(_text(server_first))
    server_final = yield scram.final_message().encode()
    scram.process_server_final_message(_text(server_final))


def _text(message: bytes) -> str:
    """Return a message of the broker. An error (``e=…``, RFC 5802) is raised as ValueError."""
    text = message.decode()
    if text.startswith("e="):
        raise ValueError(f"the broker answered: {text.removeprefix('e=')}")
    return text


class _Scram(ScramAuthenticator):  # type: ignore[misc]
    """One exchange, with limits for the iterations."""

    def __init__(self, login: PasswordLogin) -> None:
        super().__init__(
            loop=None,
            sasl_plain_username=login.username,
            sasl_plain_password=login.password,
            sasl_mechanism=str(login.mechanism),
        )
        self._token_auth = login.token_auth

    def first_message(self) -> str:
        header, bare = "n,,", str(super().first_message()).removeprefix("n,,")
        if self._token_auth:
            bare += ",tokenauth=true"  # Kafka's ScramExtensions
            self._auth_message = bare
        return header + bare

    def create_salted_password(self, salt: bytes, iterations: int) -> None:
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ValueError(
                f"the broker asks for {iterations} SCRAM iterations; allowed are {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            )
        super().create_salted_password(salt, iterations)


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


_MOST_LOGINS = 64
"""Logins that are kept. More than a node has; those of earlier configurations are dropped."""


@dataclass(frozen=True, slots=True)
class NoLogin:
    """A `Login` that always fails, with the reason of its settings. New settings follow the change of the file."""

    settings: UnusableLogin

    @property
    def is_due(self) -> bool:
        return True

    def renew(self) -> None:
        raise LoginFailed(self.settings.reason, self.settings.key)

    def exchange(self, host: str) -> Exchange:
        raise LoginFailed(self.settings.reason, self.settings.key)


@lru_cache(_MOST_LOGINS)
def login_of(settings: SaslLogin) -> Login:
    """Return the login for ``settings``: the same one for all clients, so that they share a token or ticket."""
    match settings:
        case PasswordLogin():
            return PasswordExchanges(settings)
        case OAuthLogin():
            _renewing[settings] = login = OAuthBearerLogin(settings)
            return login
        case KerberosLogin():
            _renewing[settings] = tickets = kerberos_login(settings)
            return tickets
        case UnusableLogin():
            return NoLogin(settings)


def renewal_failure(settings: SaslLogin) -> LoginFailed | None:
    """Return why the newest renewal of the token or ticket with these settings has failed in this process; None: it has
    not, or there is none yet."""
    if not isinstance(settings, OAuthLogin | KerberosLogin) or settings not in _renewing:
        return None
    return _renewing[settings].renewal_failure


_renewing: WeakValueDictionary[SaslLogin, OAuthBearerLogin | KerberosTickets] = WeakValueDictionary()

_renewals: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, asyncio.Task[None]]] = WeakKeyDictionary()


async def renewed(login: Login) -> None:
    """Call ``login.renew()`` in a thread if it is due. Callers at the same time share one call. Raises LoginFailed."""
    if not login.is_due:
        return
    running = _renewals.setdefault(asyncio.get_running_loop(), {})
    task = running.get(id(login))
    if task is None:
        task = running[id(login)] = asyncio.create_task(in_login_thread(login, login.renew))
        task.add_done_callback(partial(_ended, running, id(login)))
    await asyncio.shield(task)


def _ended(running: dict[int, asyncio.Task[None]], key: int, task: asyncio.Task[None]) -> None:
    del running[key]
    if not task.cancelled():
        task.exception()  # otherwise asyncio logs the failure if every caller has stopped waiting
