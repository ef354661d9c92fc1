"""A pause that somebody can cut short: rounds that come at intervals, and now when an operator asks."""

from __future__ import annotations

import asyncio
import contextlib


class Alarm:
    """For one sleeper. A ring while nobody sleeps counts for the next pause."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """End the pause, or the next one."""
        self._rung.set()

    async def sleep(self, seconds: float) -> bool:
        """Pause for so long; True when it was cut short."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        rung = self._rung.is_set()
        self._rung.clear()
        return rung
