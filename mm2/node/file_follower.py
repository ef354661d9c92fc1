"""What becomes of a file that changed while the node runs: said in the log, shown, and put in force."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from mm2.config.change_lines import broken_lines, broken_reason, changed_lines, pending_reason, unchanged_line
from mm2.config.changes import Change
from mm2.config.in_force import in_force
from mm2.config.settings import NodeSettings
from mm2.node.file_watch import Broken, Changed, Event, FileWatch, Unchanged
from mm2.node.node_identity import NodeIdentity
from mm2.node.published import FileStatus
from mm2.node.supervisor import Node

log = logging.getLogger("mm2.node")


class FileFollower:
    """Invariants: (A) One file is put in force after the other. (B) What goes wrong with one ends neither the node nor
    the watching.
    """

    def __init__(
        self, watch: FileWatch, node: Node, identity: NodeIdentity, on_good: Callable[[NodeSettings], None]
    ) -> None:
        """``on_good`` is called with what comes in force by a good file, just before."""
        self._watch = watch
        self._node = node
        self._identity = identity
        self._on_good = on_good

    async def run(self) -> None:
        """Follow the file until cancelled."""
        async with aclosing(self._watch.events()) as events:
            async for event in events:
                try:
                    await self._take(event)
                except Exception:
                    log.exception("unexpected error while a new configuration was put in force: start the node again")

    async def _take(self, event: Event) -> None:
        path = self._watch.path
        match event:
            case Changed():
                settings = in_force(self._watch.began, event.reading)
                self._on_good(settings)
                for line in changed_lines(event.diff, event.pending):
                    log.info("%s", line)
                for warning in event.warnings:
                    log.warning("%s", warning)
                self._identity.reads(event.reading)
                self._node.file = file_status(self._watch, event.pending)
                await self._node.reload(settings, event.diff)
                log.info("%s is in force", path)
            case Unchanged():
                log.info("%s", unchanged_line(path, repaired=event.repaired))
                self._node.file = file_status(self._watch, event.pending)
            case Broken():
                for line in broken_lines(path, event.problems):
                    log.error("%s", line)
                self._node.file = _broken(self._node.file, event, path)


def file_status(watch: FileWatch, pending: tuple[Change, ...] = ()) -> FileStatus:
    """A good file, read now."""
    return FileStatus(
        path=str(watch.path),
        digest=watch.digest,
        loaded_at=time.time(),
        pending=tuple(dict.fromkeys(change.key for change in pending)),
        reasons=(pending_reason(pending),) if pending else (),
    )


def _broken(before: FileStatus, event: Broken, path: Path) -> FileStatus:
    """What is in force stays as it is."""
    errors = tuple(str(problem) for problem in event.problems if not problem.is_warning)
    return FileStatus(
        path=str(path),
        digest=before.digest,
        loaded_at=before.loaded_at,
        pending=before.pending,
        problems=errors,
        reasons=(broken_reason(event.problems),),
    )
