"""The bytes a lane may hold between fetch and acknowledgement, shared by all its fetchers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

WORTHWHILE = 8
"""An eighth of a share is worth a fetch: to wait for a whole one would let partitions that hold half of everything, and
a few bytes more, stop all others."""


class ByteBudget:
    """Counts bytes promised to fetch requests under way and bytes fetched and not yet done with.

    (A) A promise is given only while everything counted stays within ``limit``. What a broker sends beyond its promise
        (the first batch of an answer is sent whole, however large) is counted too, so that the next promise waits.
    (B) Promises are given in the order of asking.
    (C) One fetcher is promised at most ``share``, so that long polls that wait for data hold at most half of the whole;
        less, down to an eighth of that, if there is not more room.
    """

    def __init__(self, limit: int) -> None:
        if limit < 2:
            raise ValueError(f"a budget of {limit} bytes cannot be shared")
        self._limit = limit
        self._used = 0
        self._fetchers = 0
        self._waiting: deque[tuple[int, float, asyncio.Future[int]]] = deque()  # bytes wanted, since when, turn

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def used(self) -> int:
        """Bytes promised or held now."""
        return self._used

    @property
    def share(self) -> int:
        """The most one fetcher is promised at a time."""
        return max(1, self._limit // (2 * max(1, self._fetchers)))

    @contextmanager
    def fetcher(self) -> Iterator[None]:
        """While the block runs, one more asks for promises."""
        self._fetchers += 1
        try:
            yield
        finally:
            self._fetchers -= 1

    def waited(self, now: float) -> float:
        """Seconds for which the first in line has been waiting; ``now`` is the event loop's time."""
        return now - self._waiting[0][1] if self._waiting else 0.0

    async def promise(self, wanted: int) -> int:
        """Wait for room and count it; how many bytes may be fetched. Give back with ``release`` what did not come."""
        promised = 0 if self._waiting else self._room_for(wanted)
        if promised:
            self._used += promised
            return promised
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[int] = loop.create_future()
        self._waiting.append((wanted, loop.time(), turn))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(turn.result())
            raise

    def release(self, count: int) -> None:
        """Bytes are done with; negative: more came than was promised."""
        self._used -= count
        while self._waiting:
            wanted, _, turn = self._waiting[0]
            if not turn.done():
                promised = self._room_for(wanted)
                if not promised:
                    return
                self._used += promised
                turn.set_result(promised)
            self._waiting.popleft()

    def _room_for(self, wanted: int) -> int:
        """What can be promised now; 0 if that is not worth it."""
        most = min(wanted, self.share)
        room = min(most, self._limit - self._used)
        return room if room >= max(1, most // WORTHWHILE) else 0
