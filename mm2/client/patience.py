"""Retries of a request until it succeeds or the timeout expires."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mm2.core.settings.client import ClientSettings
from mm2.kafka.backoff import Backoff
from mm2.kafka.errors import AuthenticationRefused, ClusterError, RequestTimedOut, TlsRefused

T = TypeVar("T")

TIMEOUT = 60.0
"""Default timeout in seconds; Java's default.api.timeout.ms."""


async def answered(attempt: Callable[[], Awaitable[T]], what: str, settings: ClientSettings, *, timeout: float) -> T:
    """Return the result of the first successful attempt within ``timeout`` seconds in total.

    After the timeout, the last error is raised. Rejected passwords and certificates are raised immediately, because a
    retry does not help.
    """
    backoff = Backoff.for_retries(settings)
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
        raise trouble or RequestTimedOut(f"{what}: no response within {timeout:g} s") from None
