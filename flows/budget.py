"""The bytes a lane may hold between fetch and acknowledgement, shared by all its fetchers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class ByteBudget:
    """Counts bytes promised to fetch requests under way and bytes fetched and not yet done with.

    (A) A promise is given only while everything counted stays within ``limit``. What a broker sends beyond its promise
        (the first batch of an answer is sent whole, however large) is counted too, so that the next promise waits.
    (B) Promises are given in the order of asking.
    (C) One fetcher is promised at most ``share``, so that long polls that wait for data hold at most half of the whole.
    """

    def __init__(self, limit: int) -> None:
        if limit < 2:
            raise ValueError(f"a budget of {limit} bytes cannot be shared")
        self._limit = limit
        self._used = 0
        self._fetchers = 0
        self._waiting: deque[tuple[int, float, asyncio.Future[None]]] = deque()  # bytes, since when, turn

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
        promised = min(wanted, self.share)
        if self._waiting or self._used + promised > self._limit:
            loop = asyncio.get_running_loop()
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append((promised, loop.time(), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self.release(promised)
                raise
            return promised
        self._used += promised
        return promised

    def charge(self, count: int) -> None:
        """Count bytes nobody asked for room for."""
        self._used += count

    def release(self, count: int) -> None:
        """Bytes are done with."""
        self._used -= count
        if self._waiting:
            self._serve()

    def _serve(self) -> None:
        while self._waiting:
            promised, _, turn = self._waiting[0]
            if not turn.done():
                if self._used + promised > self._limit:
                    return
                self._used += promised
                turn.set_result(None)
            self._waiting.popleft()
