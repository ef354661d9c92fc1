"""Waiting with a deadline and a message: the only way tests wait.

A missed deadline reads ``not within …``. Such a test is rerun once (only_rerun in pyproject.toml), since a busy machine
explains it; no other failure is.
"""

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
    """A condition that a test waited for did not become true in time; the message names it."""


class _Patience:
    """Counts down one wait and keeps the last value for the message."""

    def __init__(self, timeout: float, sentence: str) -> None:
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._sentence = sentence
        self._pause = FIRST_PAUSE / 2

    def next_pause(self, seen: object) -> float:
        """Return the seconds until the next check. Raises GaveUp if the deadline has passed."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise GaveUp(f"not within {self._timeout:g} s: {self._sentence} (last seen: {seen!r})")
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return min(self._pause, left)


def require_within(seconds: float, limit: float, sentence: str) -> None:
    """Raise GaveUp if the measured ``seconds`` are not below ``limit``."""
    if seconds >= limit:
        raise GaveUp(f"not within {limit:g} s: {sentence} (it took {seconds:.1f} s)")


def wait_until(condition: Callable[[], T], timeout: float, sentence: str) -> T:
    """Call ``condition`` until it returns something true, and return that.

    Raises GaveUp after ``timeout`` seconds, naming ``sentence`` and the last value. Exceptions of ``condition`` are not
    caught: a condition that expects an error catches it itself.
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
    """`wait_until` for coroutines: ``condition`` can be plain or async, and the loop keeps running in between."""
    patience = _Patience(timeout, sentence)
    while True:
        answer = condition()
        seen: T = await answer if inspect.isawaitable(answer) else answer
        if seen:
            return seen
        await asyncio.sleep(patience.next_pause(seen))
