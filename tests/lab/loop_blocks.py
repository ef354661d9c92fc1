"""How long an event loop is kept busy by one callback, in CPU time: what else runs on the machine does not count."""

from __future__ import annotations

import asyncio.events
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class LoopBlocks:
    """The longest callback so far, in CPU seconds of its thread, and what it was."""

    longest: float = 0.0
    callback: str = ""


@contextmanager
def loop_blocks() -> Iterator[LoopBlocks]:
    """Watch every event loop of this process."""
    found = LoopBlocks()
    handle: Any = asyncio.events.Handle
    run = handle._run

    def watched(self: Any) -> None:
        begun = time.thread_time()
        try:
            run(self)
        finally:
            took = time.thread_time() - begun
            if took > found.longest:
                found.longest, found.callback = took, repr(self)

    handle._run = watched
    try:
        yield found
    finally:
        handle._run = run
