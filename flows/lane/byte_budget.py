"""The bytes a lane may hold between fetch and acknowledgement, shared by all its fetchers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

MIN_PROMISE_DIVISOR = 8
"""The smallest promise is an eighth of a share: if fetchers waited for a whole share, partitions holding slightly more
than half of the budget would block all others."""


class ByteBudget:
    """Counts bytes promised to fetch requests in flight, and bytes fetched but not yet acknowledged.

    (A) A promise is given only if the total stays within ``limit``. What a broker sends beyond its promise (the first
        batch of a response is always complete, however large) is counted too, so that the next promise waits.
    (B) Promises are given in the order of the requests.
    (C) One fetcher is promised at most ``share``, so that long polls that wait for data reserve at most half of the
        budget; less, down to an eighth of a share, if there is no more room.
    """

    def __init__(self, limit: int) -> None:
        if limit < 2:
            raise ValueError(f"a budget of {limit} bytes cannot be shared")
        self._limit = limit
        self._used = 0
        self._promised = 0  # to fetch requests in flight; part of `_used`
        self._fetchers = 0
        self._waiting: deque[tuple[int, float, asyncio.Future[int]]] = deque()  # bytes wanted, since when, result

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def used(self) -> int:
        """Bytes promised or held now."""
        return self._used

    @property
    def held(self) -> int:
        """Bytes fetched and not yet acknowledged."""
        return self._used - self._promised

    @property
    def share(self) -> int:
        """The most one fetcher is promised at a time."""
        return max(1, self._limit // (2 * max(1, self._fetchers)))

    @contextmanager
    def fetcher(self) -> Iterator[None]:
        """Count one more fetcher while the block runs."""
        self._fetchers += 1
        try:
            yield
        finally:
            self._fetchers -= 1

    def waited(self, now: float) -> float:
        """Return for how many seconds the first in the queue has waited; ``now`` is the event loop's time."""
        return now - self._waiting[0][1] if self._waiting else 0.0

    async def promise(self, wanted: int) -> int:
        """Wait for room and reserve it. Returns how many bytes may be fetched; `settle` it after the request."""
        promised = 0 if self._waiting else self._room_for(wanted)
        if promised:
            self._used += promised
            self._promised += promised
            return promised
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[int] = loop.create_future()
        self._waiting.append((wanted, loop.time(), turn))
        try:
            promised = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(turn.result())
            raise
        self._promised += promised
        return promised

    def settle(self, promised: int, *, kept: int) -> None:
        """End a promise: its fetch request has ended, and ``kept`` bytes were fetched, to be released later."""
        self._promised -= promised
        self.release(promised - kept)

    def release(self, count: int) -> None:
        """Release ``count`` bytes; negative: more was fetched than promised."""
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
        """Return how much can be promised now; 0 if it is less than the smallest promise."""
        most = min(wanted, self.share)
        room = min(most, self._limit - self._used)
        return room if room >= max(1, most // MIN_PROMISE_DIVISOR) else 0
