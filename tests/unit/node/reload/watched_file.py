"""A file with a watch on it, and a simulated clock."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from mm2.config.reload.sources import take
from mm2.node.reload.file_watch import Event, FileChanged, FileWatch
from tests.unit.config.files import CLUSTERS


class _Over(Exception):
    """The time that a test gives its watch."""


class SimulatedClock:
    """A simulated clock, which runs scheduled actions at their time."""

    def __init__(self) -> None:
        self._now = 0.0
        self._until = 0.0
        self._plan: list[tuple[float, Callable[[], object]]] = []

    def at(self, when: float, deed: Callable[[], object]) -> None:
        self._plan.append((when, deed))

    def now(self) -> float:
        return self._now

    async def wait(self, asked: asyncio.Event, within: float) -> None:
        await asyncio.sleep(0)
        end = self._now + within
        while not asked.is_set() and self._now < end:
            self._now = min([end, *(when for when, _ in self._plan)])
            if self._now > self._until:
                raise _Over
            for due in [one for one in self._plan if one[0] <= self._now]:
                self._plan.remove(due)
                due[1]()

    async def run(self, watch: FileWatch, seconds: float) -> list[tuple[float, Event]]:
        """Return the events of the watch within ``seconds``, with their times."""
        self._until = self._now + seconds
        said: list[tuple[float, Event]] = []
        async with aclosing(watch.events()) as events:
            with contextlib.suppress(_Over):
                while True:
                    event = await anext(events)
                    said.append((self._now, event))
        return said


class WatchedFile:
    """A file, a watch on it, and a simulated clock."""

    def __init__(self, directory: Path, lines: str = "", **options: Any) -> None:
        """``options``: of `FileWatch`."""
        self.path = directory / "mm2.properties"
        self.write(lines)
        self.clock = SimulatedClock()
        self.watch = FileWatch(take(self.path), self.clock, **options)

    def write(self, lines: str) -> None:
        self.path.write_text(CLUSTERS + lines)

    def rename(self, lines: str) -> None:
        """Write and rename, as editors do."""
        new = self.path.with_suffix(".new")
        new.write_text(CLUSTERS + lines)
        new.rename(self.path)

    async def run(self, seconds: float = 60) -> list[tuple[float, Event]]:
        return await self.clock.run(self.watch, seconds)

    @property
    def tasks_max(self) -> int:
        return self.watch.reading.settings.flows[0].source.tasks_max


def keys_of(event: Event) -> list[str]:
    assert isinstance(event, FileChanged)
    changed = [change for flow in event.diff.changed for change in flow.changes]
    return [change.key for change in (*changed, *event.diff.node, *event.diff.idle)]
