"""Whether the node's lanes can take over source tasks from other nodes."""

from __future__ import annotations

import logging

log = logging.getLogger("mm2.node")

RETURNS_WITHIN_S = 10.0
"""Time for the lanes to come back before the node withdraws its capacity. A dead lane is replaced in a second, a dead
JVM in less than ten."""

FIRST_PROBATION_S = 60.0
LONGEST_PROBATION_S = 600.0
"""How long lanes must run before source tasks return to them, from the second failure on; doubled with each one. Each
move of all source tasks interrupts copying for some seconds on all nodes."""

STABLE_S = 600.0
"""Lanes that ran for this long have not failed."""

STOOD_STILL_S = 5.0
"""If observations are further apart, the node itself has stood still, and its lanes with it: that is no failure."""


class LaneReadiness:
    """Observes the lanes of a node.

    Invariants: (A) lanes that return within `RETURNS_WITHIN_S` remain ready. (B) After one failure they are ready as
    soon as they are back. (C) Lanes that fail again and again are not ready, so that the source tasks do not follow
    them there and back. (D) A node that stood still, such as a suspended virtual machine, has not failed.
    """

    def __init__(self) -> None:
        self._observed_at: float | None = None
        self._alive_at: float | None = None
        self._back_at = 0.0
        self._failures = 0

    def observe(self, now: float, *, alive: bool) -> None:
        """Record whether a lane is running. Call it about once a second.

        ``now`` is in seconds of a monotonic clock.
        """
        pause = 0.0 if self._observed_at is None else now - self._observed_at
        self._observed_at = now
        if pause > STOOD_STILL_S and self._alive_at is not None:
            self._alive_at += pause
        if alive:
            if self._is_away(now):
                self._return(now)
            self._alive_at = now

    def is_ready(self, now: float) -> bool:
        """Return whether a source task would start immediately, and probably stay."""
        return not self._is_away(now) and now - self._back_at >= self._probation_s

    def _is_away(self, now: float) -> bool:
        return self._alive_at is None or now - self._alive_at > RETURNS_WITHIN_S

    @property
    def _probation_s(self) -> float:
        if self._failures < 2:
            return 0.0
        return min(FIRST_PROBATION_S * 2.0 ** min(self._failures - 2, 10), LONGEST_PROBATION_S)

    def _return(self, now: float) -> None:
        """Record that lanes run, for the first time or after a failure."""
        if self._alive_at is not None:
            self._failures = 1 if self._alive_at - self._back_at >= STABLE_S else self._failures + 1
        self._back_at = now
        if self._probation_s:
            log.warning(
                "the lanes of this node have failed %d times; taking over source tasks again when they have run for"
                " %.0f s",
                self._failures,
                self._probation_s,
            )
