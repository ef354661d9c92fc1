"""Trying again until a deadline, for requests that do no harm when repeated."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mm2.core.client_settings import ClientSettings
from mm2.kafka.backoff import Backoff
from mm2.kafka.errors import ClusterError

T = TypeVar("T")

API_TIMEOUT_MS = 60_000  # Java's default.api.timeout.ms: one call with all its retries


async def retried(attempt: Callable[[], Awaitable[T]], settings: ClientSettings, *, timeout_ms: int) -> T:
    """The result of the first attempt that works; retriable errors count for nothing until the deadline.

    The deadline bounds when the last attempt begins, not how long it takes: that is request.timeout.ms.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
    while True:
        try:
            return await attempt()
        except ClusterError as error:
            pause = backoff.next()
            if not error.retriable or time.monotonic() + pause > deadline:
                raise
        await asyncio.sleep(pause)
