"""Work on batches in steps, between which the event loop can do something else.

One batch of a megabyte can hold more than a million records, which take seconds to rewrite. Such work is a generator
that yields after each step of some milliseconds; its return value is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar, cast

STEP_BYTES = 32 * 1024
"""Uncompressed records per step. The smallest record has 7 bytes, so a step has at most 4,700 records: about 15 ms."""

LIGHT_RECORDS = 20_000
"""Rewriting up to this many records is light work: about 60 ms."""

_T = TypeVar("_T")
Steps = Generator[None, None, _T]
IsOver = Callable[[], bool]
"""Whether the turn is over, so that work has to be interrupted after the current step."""


def never() -> bool:
    """Return False: the turn is never over."""
    return False


def run(steps: Steps[_T], is_over: IsOver) -> _T | None:
    """Do at least one step, and more until the turn is over. Return the result; None: there is more to do.

    Raises what the steps raise.
    """
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result
        if is_over():
            return None


def finish(steps: Steps[_T]) -> _T:
    """Do all steps and return the result. Raises what the steps raise."""
    return cast("_T", run(steps, never))  # None only if that is the result
