"""How long a member of a consumer group can be certain of its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mm2.core.mirror1.settings import GroupMembership
from mm2.kafka.clock import session_clock

_NEVER = float("-inf")


class MemberSession:
    """The clock of one membership in one event loop. Times are seconds of `session_clock`.

    The broker removes a member that is silent for session.timeout.ms, and one that has not rejoined
    max.poll.interval.ms after the start of a rebalance. Both are measured so that this clock is never late:

    A. The session timeout starts when a request is sent, not when it is answered.
    B. A rebalance starts at the earliest when the last request was sent whose response did not report one.
    C. A session that is over is not extended; it ends by `expired` first, also if the loop's timer is late.
    """

    def __init__(
        self,
        group: GroupMembership,
        expired: Callable[[str], None],
        *,
        clock: Callable[[], float] = session_clock,
    ) -> None:
        """``expired`` is called with the reason, once for each `hold`."""
        self._group = group
        self._expired = expired
        self._clock = clock
        self._contact = _NEVER  # when the newest answered request was sent
        self._quiet = _NEVER  # when the newest one was sent whose response did not report a rebalance
        self._held = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def contact(self) -> float:
        """When the newest answered request was sent that proved the membership."""
        return self._contact

    def certain_for(self) -> float:
        """Return for how many seconds the partitions are certainly this member's; 0 if it has none."""
        return max(0.0, self._until() - self._clock()) if self._held else 0.0

    def hold(self) -> None:
        """Start the clock: the member has partitions from now on."""
        self._held = True
        self._set_timer()

    def release(self) -> None:
        """Stop the clock: the member has no partitions any more."""
        self._held = False
        self._stop_timer()

    def prove(self, sent: float, *, rebalancing: bool = False) -> None:
        """Extend the session: the coordinator knew this member in its response to a request sent at ``sent``."""
        if self._held and self._clock() >= self._until():
            self._expire()
        self._contact = max(self._contact, sent)
        if not rebalancing:
            self._quiet = max(self._quiet, sent)
        if self._held:
            self._set_timer()

    def _until(self) -> float:
        silent = self._contact + self._group.session_timeout_ms / 1000
        return min(silent, self._quiet + self._group.max_poll_interval_ms / 1000)

    def _set_timer(self) -> None:
        self._stop_timer()
        delay = max(0.0, self._until() - self._clock())
        self._timer = asyncio.get_running_loop().call_later(delay, self._check)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        """End the session if its time is over; the loop's clock can be a little ahead."""
        if self._clock() < self._until():
            self._set_timer()
        else:
            self._expire()

    def _expire(self) -> None:
        group = self._group
        if self._contact + group.session_timeout_ms / 1000 <= self._clock():
            reason = f"the coordinator answered no heartbeat for session.timeout.ms ({group.session_timeout_ms} ms)"
        else:
            limit = f"max.poll.interval.ms ({group.max_poll_interval_ms} ms)"
            reason = f"a rebalance was not joined within {limit}: records in flight took too long"
        self.release()
        self._expired(reason)
