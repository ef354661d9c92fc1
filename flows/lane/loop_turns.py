"""Limits how long packing holds the event loop of a lane, for all its producers together."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

TURN_S = 0.05
"""Other work of the lane waits at most this long and one step more (`flows.batch.steps`): reports of progress are due
every second, and a lease ends after 15 s without one."""

NOTICEABLE_S = 0.001
"""A turn is ended only after this much work, since the event loop runs once more for it."""

MAX_UNFINISHED = 2
"""Heavy packing that may be interrupted at a time. Each holds up to twice the uncompressed bytes of a batch, by default
32 MiB: together as much as a lane may hold (mm2.lane.buffer.bytes)."""


class Packs(Protocol):
    """A partition whose packing can be interrupted."""

    @property
    def is_packing(self) -> bool:
        """Whether it was interrupted."""


class LoopTurns:
    """An async context manager, inside which `is_over` tells when to stop.

    (A) Between two runs of the event loop's other work, all that is done inside takes at most ``turn_s``, and one step
        more.
    (B) Those who wait are served in the order in which they came, so that none has all turns.
    """

    def __init__(self, turn_s: float = TURN_S) -> None:
        self._turn_s = turn_s
        self._lock = asyncio.Lock()
        self._entered = 0.0
        self._spent = 0.0  # in this turn, before the block was entered
        self._ends_soon = False
        self._over = False
        self._unfinished: set[Packs] = set()

    async def __aenter__(self) -> LoopTurns:
        await self._lock.acquire()
        self._entered = time.monotonic()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._spent += time.monotonic() - self._entered
        self._over = self._spent >= self._turn_s
        if (self._over or self._spent >= NOTICEABLE_S) and not self._ends_soon:
            self._ends_soon = True
            asyncio.get_running_loop().call_soon(self._next)
        if not self._over:
            self._lock.release()

    def _next(self) -> None:
        self._spent, self._ends_soon = 0.0, False
        if self._over:
            self._over = False
            self._lock.release()

    def is_over(self) -> bool:
        """Return whether the block has to be left."""
        return self._spent + time.monotonic() - self._entered >= self._turn_s

    # -- memory

    def may_begin(self, partition: Packs) -> bool:
        """Return whether the partition may begin or continue heavy packing."""
        if len(self._unfinished) < MAX_UNFINISHED or partition in self._unfinished:
            return True
        self._unfinished = {other for other in self._unfinished if other.is_packing}
        return len(self._unfinished) < MAX_UNFINISHED

    def interrupted(self, partition: Packs) -> None:
        """Heavy packing of the partition is unfinished."""
        self._unfinished.add(partition)

    def finished(self, partition: Packs) -> None:
        """Nothing of the partition is unfinished."""
        self._unfinished.discard(partition)
