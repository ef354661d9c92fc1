"""Retries until a deadline, for idempotent requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mm2.core.settings.client import ClientSettings
from mm2.kafka.backoff import Backoff
from mm2.kafka.errors import ClusterError

T = TypeVar("T")

API_TIMEOUT_MS = 60_000  # Java's default.api.timeout.ms: one call with all its retries


async def retried(attempt: Callable[[], Awaitable[T]], settings: ClientSettings, *, timeout_ms: int) -> T:
    """Return the result of the first successful attempt; retriable errors are ignored until the deadline.

    The deadline limits when the last attempt starts; request.timeout.ms limits how long it takes.
    """
    return await retried_until(attempt, settings, time.monotonic() + timeout_ms / 1000)


async def retried_until(attempt: Callable[[], Awaitable[T]], settings: ClientSettings, deadline: float) -> T:
    """As `retried`, with the deadline in monotonic seconds, which several requests can share."""
    backoff = Backoff.for_retries(settings)
    while True:
        try:
            return await attempt()
        except ClusterError as error:
            pause = backoff.next()
            if not error.retriable or time.monotonic() + pause > deadline:
                raise
        await asyncio.sleep(pause)
