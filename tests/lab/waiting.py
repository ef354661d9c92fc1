"""Waiting with a deadline and a message: the only way tests wait (`tests/lint/waits.py` rejects other loops).

A missed deadline reads ``not within 30 s: the group is stable; seen: 'Dead' (0.0 s), 'PreparingRebalance' (1.2 s)``:
what was asked for, and each different answer with the second in which it was first seen.
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
SHOWN = 8  # observations in a message: the first, and the last seven
SHOWN_CHARACTERS = 300  # of one observation


class GaveUp(AssertionError):
    """A condition that a test waited for did not become true in time; the message names it."""


class Observations:
    """What a wait saw: an entry for each change of the value, with the seconds since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first: tuple[float, str] | None = None
        self._last: list[tuple[float, str]] = []
        self._left_out = 0

    def add(self, seen: object) -> None:
        """Note ``seen`` if it differs from the observation before it. It is written down now, since it may change."""
        text = repr(seen)
        previous = self._last[-1] if self._last else self._first
        if previous is not None and previous[1] == text:
            return
        entry = (time.monotonic() - self._began, text)
        if self._first is None:
            self._first = entry
            return
        self._last.append(entry)
        if len(self._last) >= SHOWN:
            del self._last[0]
            self._left_out += 1

    def __str__(self) -> str:
        if self._first is None:
            return "nothing"
        left_out = [f"{self._left_out} more"] if self._left_out else []
        return ", ".join([_shown(*self._first), *left_out, *(_shown(*entry) for entry in self._last)])


def _shown(seconds: float, text: str) -> str:
    cut = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}... ({len(text)} characters)"
    return f"{cut} ({seconds:.1f} s)"


class _Patience:
    """Counts down one wait and keeps what was seen for the message."""

    def __init__(self, timeout: float, sentence: str) -> None:
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._sentence = sentence
        self._pause = FIRST_PAUSE / 2
        self._observations = Observations()

    def next_pause(self, seen: object) -> float:
        """Return the seconds until the next check. Raises GaveUp if the deadline has passed."""
        self._observations.add(seen)
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise GaveUp(f"not within {self._timeout:g} s: {self._sentence}; seen: {self._observations}")
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return min(self._pause, left)


def require_within(seconds: float, limit: float, sentence: str) -> None:
    """Raise GaveUp if the measured ``seconds`` are not below ``limit``."""
    if seconds >= limit:
        raise GaveUp(f"not within {limit:g} s: {sentence} (it took {seconds:.1f} s)")


def wait_until(condition: Callable[[], T], timeout: float, sentence: str, *, accept: Callable[[T], object] = bool) -> T:
    """Call ``condition`` until it returns something that ``accept`` finds true, and return that.

    Without ``accept`` the value itself has to be true. With it, ``condition`` returns what the message shall show, such
    as a state: ``wait_until(state, 30, "it is paused", accept=lambda state: state == "PAUSED")``.

    Raises GaveUp after ``timeout`` seconds, naming ``sentence`` and what was seen. Exceptions of ``condition`` are not
    caught: a condition that expects an error catches it itself.
    """
    patience = _Patience(timeout, sentence)
    while not accept(seen := condition()):
        time.sleep(patience.next_pause(seen))
    return seen


@overload
async def until(
    condition: Callable[[], Awaitable[T]], timeout: float, sentence: str, *, accept: Callable[[T], object] = ...
) -> T: ...


@overload
async def until(
    condition: Callable[[], T], timeout: float, sentence: str, *, accept: Callable[[T], object] = ...
) -> T: ...


async def until(
    condition: Callable[[], T | Awaitable[T]],
    timeout: float,
    sentence: str,
    *,
    accept: Callable[[T], object] = bool,
) -> T:
    """`wait_until` for coroutines: ``condition`` can be plain or async, and the loop keeps running in between."""
    patience = _Patience(timeout, sentence)
    while True:
        answer = condition()
        seen: T = await answer if inspect.isawaitable(answer) else answer
        if accept(seen):
            return seen
        await asyncio.sleep(patience.next_pause(seen))
