"""Waiting with a deadline and a sentence: the only way tests wait."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

FIRST_PAUSE = 0.01  # seconds: most things in a test are true within milliseconds
LONGEST_PAUSE = 0.25  # seconds: a wait of half a minute should not cost a core


class GaveUp(AssertionError):
    """Something a test waited for did not happen in time; the message is the sentence of what did not happen."""


class _Patience:
    """Counts down one wait and remembers what was seen last, for the message."""

    def __init__(self, timeout: float, sentence: str) -> None:
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._sentence = sentence
        self._pause = FIRST_PAUSE / 2

    def next_pause(self, seen: object) -> float:
        """Seconds until the next look. Raises GaveUp when the deadline has passed."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise GaveUp(f"not within {self._timeout:g} s: {self._sentence} (last seen: {seen!r})")
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return min(self._pause, left)


def wait_until(condition: Callable[[], T], timeout: float, sentence: str) -> T:
    """Call ``condition`` until it returns something true, and return that.

    Raises GaveUp after ``timeout`` seconds, naming ``sentence`` and the last value. What ``condition`` raises is not
    caught: a condition that expects an error says so itself.
    """
    patience = _Patience(timeout, sentence)
    while not (seen := condition()):
        time.sleep(patience.next_pause(seen))
    return seen


@overload
async def until(condition: Callable[[], Awaitable[T]], timeout: float, sentence: str) -> T: ...


@overload
async def until(condition: Callable[[], T], timeout: float, sentence: str) -> T: ...


async def until(condition: Callable[[], T | Awaitable[T]], timeout: float, sentence: str) -> T:
    """`wait_until` for coroutines: ``condition`` may be plain or async, and the loop keeps running in between."""
    patience = _Patience(timeout, sentence)
    while True:
        answer = condition()
        seen: T = await answer if inspect.isawaitable(answer) else answer
        if seen:
            return seen
        await asyncio.sleep(patience.next_pause(seen))
