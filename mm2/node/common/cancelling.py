"""Cancellation of asyncio tasks that may miss it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

AGAIN_S = 1.0
"""How long to wait before a task is cancelled again."""


async def cancel_and_wait(tasks: Collection[asyncio.Task[None]], *, again_s: float = AGAIN_S) -> None:
    """Cancel these tasks and wait until they have ended; their errors are not raised.

    A task that does not end within ``again_s`` seconds is cancelled again: before Python 3.13, `asyncio.TaskGroup`
    raises only the error of a task if it is cancelled at the same moment, and a loop that retries after errors then
    continues.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=again_s)
