"""How busy the event loop of a lane is."""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import Any


class IdleTimeSelector(selectors.DefaultSelector):
    """Counts the seconds for which the loop had nothing to do, ``idle_s``.

    The rest is work, or waiting for a core: for what the lane copies it is the same. It costs two readings of the clock
    for each time that the loop has to wait.
    """

    def __init__(self) -> None:
        super().__init__()
        self.idle_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for sockets and timers, as asyncio's loop calls it."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        began = time.monotonic()
        try:
            return super().select(timeout)
        finally:
            self.idle_s += time.monotonic() - began


class LaneLoop(asyncio.SelectorEventLoop):
    """The event loop of a lane: asyncio's usual one, which knows how busy it is."""

    def __init__(self) -> None:
        self._idle_time = IdleTimeSelector()
        super().__init__(self._idle_time)

    @property
    def idle_s(self) -> float:
        """Seconds without work since the loop was created."""
        return self._idle_time.idle_s


class BusyShare:
    """The share of the time for which the running loop worked since the last question."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        """``now`` is monotonic seconds. Of a loop that is no `LaneLoop`, the share is unknown."""
        self._loop = loop if isinstance(loop, LaneLoop) else None
        self._asked_at = now
        self._idle_s = self._loop.idle_s if self._loop is not None else 0.0

    def take(self, now: float) -> float | None:
        """Return the share since the last call, from 0 to 1; None: unknown."""
        if self._loop is None or now <= self._asked_at:
            return None
        idle_s = self._loop.idle_s
        share = 1 - (idle_s - self._idle_s) / (now - self._asked_at)
        self._asked_at, self._idle_s = now, idle_s
        return min(1.0, max(0.0, share))


def run(main: Any) -> None:
    """Run the coroutine of a lane to its end, as `asyncio.run`, in a `LaneLoop`."""
    with asyncio.Runner(loop_factory=LaneLoop) as runner:
        runner.run(main)
