"""The logins of this process, by their settings."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import lru_cache, partial
from weakref import WeakKeyDictionary

from mm2.core.settings.kerberos import KerberosLogin
from mm2.core.settings.oauth import OAuthLogin
from mm2.core.settings.sasl import PasswordLogin, SaslLogin, UnusableLogin
from mm2.kafka.sasl.kerberos.kerberos_tickets import kerberos_login
from mm2.kafka.sasl.login import Exchange, Login, LoginFailed
from mm2.kafka.sasl.login_threads import in_login_thread
from mm2.kafka.sasl.oauthbearer import OAuthBearerLogin
from mm2.kafka.sasl.passwords import PasswordExchanges

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
            return OAuthBearerLogin(settings)
        case KerberosLogin():
            return kerberos_login(settings)
        case UnusableLogin():
            return NoLogin(settings)


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
