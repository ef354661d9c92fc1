"""Threads for logins, which can wait for seconds for a key distribution centre or a token endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import ParamSpec, TypeVar

from mm2.kafka.sasl.login import Login

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
