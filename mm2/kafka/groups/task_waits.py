"""Waiting for tasks that belong together, without leaving one behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and wait for their end; their exceptions count as seen."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def unless(event: asyncio.Event, work: Coroutine[Any, Any, None], *, name: str) -> None:
    """Run ``work`` as task ``name`` and raise its exceptions; cancel it when ``event`` is set."""
    task = asyncio.create_task(work, name=name)
    waiting = asyncio.create_task(event.wait(), name=f"{name}: {unless.__name__}")
    try:
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        await end(task, waiting)
