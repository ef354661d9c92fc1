"""Leads a flow again and again, for as long as the election says that this node does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from mm2.core.names import Flow
from mm2.core.plugins import PluginError
from mm2.election.protocol import Election, Joined
from mm2.kafka.backoff import Backoff
from mm2.kafka.errors import ClusterError, first_error
from mm2.node.leadership import Leadership
from mm2.node.trouble import LASTING_S, troubled

log = logging.getLogger(__name__)

RETRY_FIRST_MS = 1_000
RETRY_LONGEST_MS = 10_000
"""Who leads and cannot tries again after one second, then more rarely: somebody may be repairing what it is."""

Make = Callable[[int, Leadership | None], Leadership]
"""From a generation, and this node's leadership under other settings, to the next one."""


class FlowLeader:
    """``leadership`` is the present one. ``trouble``: what keeps it from beginning, None when nothing does.

    Invariants: (A) a leadership begins only while this node is the leader of its generation. (B) nothing that goes
    wrong in leading comes out of here.
    """

    def __init__(self, flow: Flow, make: Make) -> None:
        self._flow = flow
        self._make = make
        self._otherwise = asyncio.Event()
        self.leadership: Leadership | None = None
        self.trouble: str | None = None

    def begin_anew(self) -> None:
        """Settings are others now: lead by them, under the same generation."""
        self._otherwise.set()

    async def lead(self, election: Election) -> None:
        """Until cancelled, or until another node leads; through everything that can be waited out."""
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        before: Leadership | None = None
        while isinstance(joined := election.membership, Joined) and joined.is_leader:
            self._otherwise.clear()
            former, before = before, None
            began = time.monotonic()
            try:
                leadership = self.leadership = self._make(joined.generation, former)
                async with asyncio.TaskGroup() as term:
                    term.create_task(leadership.run(on_ready=self._well), name=f"{self._flow} leadership")
                    term.create_task(self._until_otherwise(), name=f"{self._flow} other settings")
            except* _SettingsChanged:
                before = leadership
            except* (ClusterError, PluginError) as group:
                self.trouble = troubled(log, self._flow, self.trouble, f"lead the flow: {first_error(group)}")
            except* Exception:
                log.exception("%s: unexpected error, leading begins again", self._flow)
                self.trouble = "lead the flow: an unexpected error, see the log"
            finally:
                self.leadership = before
            if time.monotonic() - began > LASTING_S:
                backoff.reset()
            if before is None:
                await asyncio.sleep(backoff.next())  # Fenced too: if another leads, the election is about to say so
        self.leadership = None

    async def _until_otherwise(self) -> None:
        await self._otherwise.wait()
        raise _SettingsChanged

    def _well(self) -> None:
        """Leading has begun."""
        self.trouble = None


class _SettingsChanged(Exception):
    """Leading begins anew at once."""
