"""Notices that the node's file has changed, and says what that means: the eyes of hot reload. What is done about it is
the consumer's part.

Invariants: (A) What `FileWatch.reading` says was found good; a broken file never replaces it. (B) A file is read when
it has looked the same for `SETTLE_S`, or after `LONGEST_S` of unrest. (C) What is wrong with a file is told once, until
it is wrong in another way, was good in between, or somebody asks. (D) Who asks (`FileWatch.ask`, SIGHUP) gets an
answer. (E) Each diff goes on where the one before ended, so that none is lost and none counts twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mm2.config.changes import Change, FileDiff
from mm2.config.comparison import Reading, compare, of_nodes
from mm2.config.problems import Problem
from mm2.config.reach import Reach
from mm2.config.sources import Signature, Taken, sign, take

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
"""Somebody who saves the file waits for the log to answer; a look is a few small files read, well under a millisecond.
Notifications of the kernel would be quicker, and do not work for network file systems and swapped links."""

SETTLE_S = 1.0
"""Writers take milliseconds, editors and ``rsync`` rename within one second; nobody waits long for one more."""

LONGEST_S = 30.0
"""A file that something writes to all the time is read after so long, as it is."""


class Clock(Protocol):
    """Time as the watch sees it."""

    def now(self) -> float:
        """Seconds that never go back."""

    async def wait(self, asked: asyncio.Event, within: float) -> None:
        """Return when ``asked`` is set, after ``within`` seconds at the latest."""


class LoopClock:
    """The event loop's."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def wait(self, asked: asyncio.Event, within: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await asked.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A good file that says something else than the last good one did: ``diff``. ``pending``: what in it has been
    waiting for the node to be started again, from this file or an earlier one. ``warnings``: of the whole file."""

    reading: Reading = field(repr=False)
    diff: FileDiff
    pending: tuple[Change, ...]
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """A good file that says what the last good one did. ``repaired``: a broken one stood there in between."""

    reading: Reading = field(repr=False)
    pending: tuple[Change, ...]
    repaired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A file that cannot be taken over, and everything that is to say about it; the last good one stays in force."""

    problems: tuple[Problem, ...]


Event = Changed | Unchanged | Broken


class Unrest:
    """When files are to be read that may be in the middle of being written. Values in, values out; seconds."""

    def __init__(self, handled: Signature) -> None:
        self._handled = handled
        self._seen = handled
        self._since = 0.0
        self._began: float | None = None

    def handled(self, signature: Signature) -> None:
        """The files were read when they looked like this."""
        self._handled = self._seen = signature
        self._began = None

    def is_over(self, found: Signature, now: float) -> bool:
        """Whether files that look like ``found`` are to be read now."""
        if found != self._seen:
            self._seen, self._since = found, now
        if found == self._handled:
            self._began = None
            return False
        if self._began is None:
            self._began = now
        return now - self._since >= SETTLE_S or now - self._began >= LONGEST_S

    @property
    def pause(self) -> float:
        """Seconds until the next look is worth it."""
        return LOOK_EVERY_S if self._began is None else SETTLE_S


class FileWatch:
    """Watches the file that ``first`` was taken from, and all that it takes something from. ``reading`` and ``digest``
    are of the last good one, ``began`` of the first."""

    def __init__(self, first: Taken, clock: Clock | None = None) -> None:
        """``first``: what the node began with, a good file."""
        assert first.reading is not None, "a node does not begin with a broken file"
        self.path = first.path
        self._clusters = first.clusters
        self._clock: Clock = clock or LoopClock()
        self.began = first.reading
        self.reading = first.reading
        self.digest = first.digest
        self._signature = first.signature
        self._unrest = Unrest(first.signature)
        self._told: tuple[Problem, ...] = ()
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Have the file read now, whether it looks changed or not: what SIGHUP does. To be called on the event loop."""
        self._asked.set()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are watched."""
        return tuple(self._signature)

    async def events(self) -> AsyncGenerator[Event, None]:
        """What there is to say, until cancelled. Files are read in a thread: one on a mount that hangs holds up
        nobody else."""
        while True:
            await self._clock.wait(self._asked, self._unrest.pause)
            asked = self._asked.is_set()
            self._asked.clear()
            found = await asyncio.to_thread(sign, self._signature)
            if self._unrest.is_over(found, self._clock.now()) or asked:
                event = await self._read(asked=asked)
                if event is not None:
                    yield event

    async def _read(self, *, asked: bool) -> Event | None:
        try:
            taken, event = await asyncio.to_thread(self._look)
        except Exception:
            log.exception("unexpected error while %s was read again", self.path)
            signature = await asyncio.to_thread(sign, self._signature)
            taken = Taken(
                path=self.path, clusters=self._clusters, reading=None, problems=self._unforeseen(), signature=signature
            )
            event = Broken(problems=taken.problems)
        self._signature = taken.signature
        self._unrest.handled(taken.signature)
        if taken.reading is not None:
            self._told, self.reading, self.digest = (), taken.reading, taken.digest
            return event
        errors = tuple(problem for problem in taken.problems if not problem.is_warning)
        again, self._told = errors == self._told, errors
        return event if asked or not again else None

    def _look(self) -> tuple[Taken, Event]:
        """Read and compare. Runs in a thread and changes nothing here."""
        taken = take(self.path, self._clusters, self._signature)
        if taken.reading is None:
            return taken, Broken(problems=taken.problems)
        diff = compare(self.reading, taken.reading)
        pending = tuple(change for change in of_nodes(self.began, taken.reading) if change.reach is Reach.NODE)
        if diff.says_the_same:
            return taken, Unchanged(reading=taken.reading, pending=pending, repaired=bool(self._told))
        warnings = tuple(problem for problem in taken.problems if problem.is_warning)
        return taken, Changed(reading=taken.reading, diff=diff, pending=pending, warnings=warnings)

    def _unforeseen(self) -> tuple[Problem, ...]:
        text = "cannot be taken over: an unexpected error, see the log."
        return (Problem(file=str(self.path), line=None, key=None, value=None, text=text, is_warning=False),)
