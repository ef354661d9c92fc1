"""Runs leader terms of a flow while this node is elected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mm2.core.naming.names import Flow
from mm2.core.plugins import PluginError
from mm2.election.protocol import Election, Joined, Membership
from mm2.kafka.clock import session_clock
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.leader.leader_term import LeaderTerm

log = logging.getLogger(__name__)

CONFIRMED_EVERY_S = 0.1
"""How often a fenced leader checks whether the election has confirmed it. Heartbeats are seconds apart."""

MakeTerm = Callable[[int, LeaderTerm | None], LeaderTerm]
"""From a generation, and this node's term under earlier settings, to the next term."""


class LeaderLoop:
    """Starts and stops leader terms.

    ``leader_term`` is the current term, None while this node is not the leader. ``error`` is why it cannot start.

    Invariants: (A) a term starts only while this node is the leader of its generation. (B) Errors of the leader are
    retried, never raised. (C) A term that was fenced is followed by another one only after the election has confirmed
    this node since then: otherwise it would take the transactional ID back from the leader that replaced it.
    """

    def __init__(self, flow: Flow, make_term: MakeTerm) -> None:
        self._flow = flow
        self._make_term = make_term
        self._settings_changed = asyncio.Event()
        self._leading: asyncio.Task[None] | None = None
        self._generation = -1
        self._fenced_at: float | None = None  # in seconds of `session_clock`
        self.leader_term: LeaderTerm | None = None
        self.error = CurrentError(log, flow)

    def settings_changed(self) -> None:
        """Start another term with the new settings, under the same generation."""
        self._settings_changed.set()

    async def follow(self, membership: Membership) -> None:
        """Stop leading if another node is the leader, or was in a generation that this node missed."""
        generation = membership.generation if isinstance(membership, Joined) else -1
        leads = isinstance(membership, Joined) and membership.is_leader
        if self._leading is not None and not leads:
            log.warning("%s: lost leadership (generation %d)", self._flow, self._generation)
        if not leads or generation - self._generation not in (0, 1):
            await self.stop()
        self._generation = generation

    def start(self, election: Election) -> None:
        """Start leading unless this node is already the leader; a new membership ends it."""
        if self._leading is None:
            self._leading = asyncio.create_task(self.lead(election), name=f"{self._flow} lead")

    async def stop(self) -> None:
        """Stop leading."""
        leading, self._leading = self._leading, None
        if leading is not None:
            await cancel_and_wait([leading])
            self.error.clear()

    async def lead(self, election: Election) -> None:
        """Lead until cancelled, or until another node is the leader.

        Fenced is retried, too: the broker also returns it after it aborted a transaction that took too long. If there
        is a new leader, the election will report it.
        """
        await keep_trying(
            lambda: self._lead(election),
            self.error,
            "lead the flow",
            expected=(ClusterError, PluginError),
            unexpected="leader failed unexpectedly; retrying (see the log)",
        )

    async def _lead(self, election: Election) -> None:
        previous: LeaderTerm | None = None
        while self._is_unconfirmed(election):  # noqa: ASYNC110 - an election has one reader of its events
            await asyncio.sleep(CONFIRMED_EVERY_S)
        try:
            while isinstance(joined := election.membership, Joined) and joined.is_leader:
                self._settings_changed.clear()
                previous = self.leader_term = self._make_term(joined.generation, previous)
                await self._run_until_settings_change(previous)
        except* Fenced:
            self._fenced_at = session_clock()
            raise
        finally:
            self.leader_term = None

    def _is_unconfirmed(self, election: Election) -> bool:
        """Return whether the last term was fenced and this node's membership has not been proven since."""
        joined = isinstance(election.membership, Joined)
        return joined and self._fenced_at is not None and election.contact <= self._fenced_at

    async def _run_until_settings_change(self, term: LeaderTerm) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(term.run(on_ready=self.error.clear), name=f"{self._flow} leader term")
                group.create_task(self._raise_settings_change(), name=f"{self._flow} settings change")
        except* _SettingsChanged:
            pass

    async def _raise_settings_change(self) -> None:
        await self._settings_changed.wait()
        raise _SettingsChanged


class _SettingsChanged(Exception):
    """Ends the tasks of a term."""
