"""Asking a cluster until it answers or the time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mm2.core.client_settings import ClientSettings
from mm2.kafka.backoff import Backoff
from mm2.kafka.errors import AuthenticationRefused, ClusterError, RequestTimedOut, TlsRefused

T = TypeVar("T")

TIMEOUT = 60.0
"""Seconds; Java's default.api.timeout.ms."""


async def answered(attempt: Callable[[], Awaitable[T]], what: str, settings: ClientSettings, *, timeout: float) -> T:
    """The result of the first attempt that works, within ``timeout`` seconds, however long single attempts take.

    When the time is up, what kept it from working is raised. Refused passwords and certificates are raised at once:
    nobody changes them while a program waits.
    """
    backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
    trouble: ClusterError | None = None
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    return await attempt()
                except (AuthenticationRefused, TlsRefused):
                    raise
                except ClusterError as error:
                    if not error.retriable:
                        raise
                    trouble = error
                await asyncio.sleep(backoff.next())
    except TimeoutError:
        raise trouble or RequestTimedOut(f"{what}: no answer within {timeout:g} s") from None
