"""Long loops over names, which leave the event loop to others in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

Item = TypeVar("Item")

TURN_S = 0.02
"""Seconds that a loop takes at most, and one item more, which can take as long as one match of a regular expression
(`mm2.config.regex.java_regex.MATCHED_WITHIN_S`)."""

MOST_ITEMS = 500
"""Items of a turn: about 8 ms for names of topics that are matched and renamed."""


async def in_turns(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield ``items``; other tasks run after each turn."""
    began = time.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        if number % MOST_ITEMS == 0 or time.monotonic() - began >= TURN_S:
            await asyncio.sleep(0)
            began = time.monotonic()
