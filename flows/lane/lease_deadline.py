"""Until when a lease is valid."""

from __future__ import annotations

from collections.abc import Callable

from mm2.kafka.clock import session_clock


class LeaseDeadline:
    """The end of a lease that its holder has to renew.

    A lease counts from the moment at which the request for it was sent: the one who grants it counts from a later
    moment, and so never ends it before its holder does.
    """

    def __init__(self, *, clock: Callable[[], float] = session_clock) -> None:
        self._clock = clock
        self._ends = float("-inf")

    def renew(self, sent: float, seconds: float) -> None:
        """Set the end to ``seconds`` after ``sent``, the `session_clock` time at which the request was sent."""
        self._ends = sent + seconds

    @property
    def remaining(self) -> float:
        """Seconds until the end; negative after it."""
        return self._ends - self._clock()

    @property
    def valid(self) -> bool:
        """Whether the lease has not ended."""
        return self._clock() < self._ends
