"""Detection of changes to the node's configuration file. The consumer of the events applies them.

Invariants: (A) `FileWatch.reading` is valid; an invalid file never replaces it. A file with a temporary error, such as
an expired certificate in a key store, is invalid unless the former one has an error of the same key: the node started
with it. (B) A file is read when it has been unchanged for `SETTLE_S`, or after `LONGEST_S` of changes. (C) The errors
of a file are reported once, until they change, the file was valid in between, or a request asks for them. (D) Every
request (`FileWatch.ask`, SIGHUP) produces an event. (E) Each diff starts from the file of the previous diff, so that no
change is lost or applied twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from mm2.config.grammar.problems import Problem
from mm2.config.keys.update_mode import UpdateMode
from mm2.config.load import load_file
from mm2.config.reload.changes import Change, FileDiff
from mm2.config.reload.comparison import ParsedConfig, compare, of_nodes
from mm2.config.reload.sources import LoadedConfig, LoadFile, Signature, sign, take
from mm2.node.common.daemon_thread import in_daemon_thread

log = logging.getLogger(__name__)

_THREAD = "read the configuration file"

LOOK_EVERY_S = 2.0
"""Operators watch the log after they save the file. A check reads a few small files, well under a millisecond.
Notifications by the kernel would be faster, but do not work for network file systems and replaced symbolic links."""

SETTLE_S = 1.0
"""Writing a file takes milliseconds; editors and ``rsync`` write and rename within one second."""

LONGEST_S = 30.0
"""A file that never stops changing is read after this time as it is."""


class Clock(Protocol):
    """The clock of a watch; tests replace it."""

    def now(self) -> float:
        """Return monotonic seconds."""

    async def wait(self, asked: asyncio.Event, within: float) -> None:
        """Wait until ``asked`` is set, for at most ``within`` seconds."""


class LoopClock:
    """The clock of the event loop."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def wait(self, asked: asyncio.Event, within: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await asked.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanged:
    """A valid file that differs from the last valid one by ``diff``.

    ``pending`` are the changes, of this file or an earlier one, that take effect when the node is restarted.
    ``warnings`` are those of the whole file, with the temporary errors that flows wait for.
    """

    reading: ParsedConfig = field(repr=False)
    diff: FileDiff
    pending: tuple[Change, ...]
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUnchanged:
    """A valid file with the settings of the last valid one. ``repaired``: the file was invalid in between."""

    reading: ParsedConfig = field(repr=False)
    pending: tuple[Change, ...]
    repaired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInvalid:
    """An invalid file with all its problems; the last valid one remains in effect."""

    problems: tuple[Problem, ...]


Event = FileChanged | FileUnchanged | FileInvalid


class SettleTimer:
    """Decides when to read files that are possibly still being written. Without I/O; times are in seconds."""

    def __init__(self, handled: Signature) -> None:
        self._handled = handled
        self._seen = handled
        self._since = 0.0
        self._began: float | None = None

    def handled(self, signature: Signature) -> None:
        """Record that the files with this signature were read."""
        self._handled = self._seen = signature
        self._began = None

    def is_over(self, found: Signature, now: float) -> bool:
        """Return whether to read the files, whose current signature is ``found``, now."""
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
        """Seconds until the next check."""
        return LOOK_EVERY_S if self._began is None else SETTLE_S


class FileWatch:
    """Watches a configuration file and all files that it refers to.

    ``reading`` and ``digest`` belong to the last valid file, ``began`` to the first.
    """

    def __init__(
        self,
        first: LoadedConfig,
        clock: Clock | None = None,
        *,
        load: LoadFile = load_file,
        compare_configs: Callable[[ParsedConfig, ParsedConfig], FileDiff] = compare,
    ) -> None:
        """``first`` is the valid file that the node was started with."""
        self._load = load
        self._compare = compare_configs
        assert first.reading is not None, "a node does not start with an invalid file"
        self.path = first.path
        self._clusters = first.clusters
        self._clock: Clock = clock or LoopClock()
        self.began = first.reading
        self.reading = first.reading
        self.digest = first.digest
        self._signature = first.signature
        self._waits_for = first.waits_for
        self._accepted = first.accepted
        self._settle_timer = SettleTimer(first.signature)
        self._reported: tuple[Problem, ...] = ()
        self._asked = asyncio.Event()

    @property
    def sha256(self) -> str:
        """Digest of the file as it was read last, also if it is invalid; a reason if it could not be read."""
        return self._signature[self.path]

    def ask(self) -> None:
        """Request that the file be read now even if it has not changed, as SIGHUP does. Call it on the event loop."""
        self._asked.set()

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield events until cancelled. Files are read in a thread, so that a hanging mount blocks neither the node
        nor its exit.
        """
        while True:
            await self._clock.wait(self._asked, self._settle_timer.pause)
            asked = self._asked.is_set()
            self._asked.clear()
            found = await in_daemon_thread(partial(sign, self._signature), _THREAD)
            if self._settle_timer.is_over(found, self._clock.now()) or asked:
                event = await self._read(asked=asked)
                if event is not None:
                    yield event

    async def _read(self, *, asked: bool) -> Event | None:
        try:
            taken, event = await in_daemon_thread(self._look, _THREAD)
        except Exception:
            log.exception("failed to reload %s (unexpected error); keeping the current configuration", self.path)
            signature = await in_daemon_thread(partial(sign, self._signature), _THREAD)
            taken = LoadedConfig(
                path=self.path, clusters=self._clusters, reading=None, problems=self._unforeseen(), signature=signature
            )
            event = FileInvalid(problems=taken.problems)
        self._signature = taken.signature
        self._settle_timer.handled(taken.signature)
        if taken.reading is not None:
            self._reported, self.reading, self.digest = (), taken.reading, taken.digest
            self._waits_for = taken.waits_for
            return event
        errors = tuple(problem for problem in taken.problems if not problem.is_warning)
        again, self._reported = errors == self._reported, errors
        return event if asked or not again else None

    def _look(self) -> tuple[LoadedConfig, Event]:
        """Read the file and compare it. Runs in a thread and does not change this object."""
        taken = take(self.path, self._clusters, self._signature, accepted=self._accepted, load=self._load)
        if taken.reading is None or not taken.waits_for <= self._waits_for:
            return replace(taken, reading=None), FileInvalid(problems=taken.problems)
        diff = self._compare(self.reading, taken.reading)
        pending = tuple(
            change for change in of_nodes(self.began, taken.reading) if change.update_mode is UpdateMode.NODE
        )
        if diff.says_the_same:
            return taken, FileUnchanged(reading=taken.reading, pending=pending, repaired=bool(self._reported))
        warnings = tuple(problem for problem in taken.problems if problem.is_warning or problem.is_temporary)
        return taken, FileChanged(reading=taken.reading, diff=diff, pending=pending, warnings=warnings)

    def _unforeseen(self) -> tuple[Problem, ...]:
        problem = Problem(
            file=str(self.path),
            line=None,
            key=None,
            value=None,
            rule="not reloaded because of an unexpected error",
            fix="see the log of this node",
            is_warning=False,
        )
        return (problem,)
