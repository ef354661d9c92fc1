"""An interruptible sleep, for work that runs at intervals and also on request."""

from __future__ import annotations

import asyncio
import contextlib


class Wakeup:
    """Interrupts the sleep of one asyncio task. A `ring` between two sleeps ends the next one immediately."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """End the current sleep, or the next one."""
        self._rung.set()

    async def sleep(self, seconds: float) -> bool:
        """Sleep for ``seconds`` or until `ring`; return whether the sleep was cut short."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        rung = self._rung.is_set()
        self._rung.clear()
        return rung
