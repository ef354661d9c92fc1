"""Whether a cluster answers, from the answers and failures of a node's requests."""

from __future__ import annotations

from dataclasses import dataclass, replace

SILENT_AFTER_S = 12.0
"""A cluster that has not answered for this long does not answer: a node asks every five seconds, so that two requests
had the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterContact:
    """The newest answer or failure of the requests to a cluster. Times are seconds of a monotonic clock.

    ``reachable`` is None until there was one, and what it is ``since``. ``answered``: the last answer; None: there was
    none. ``error``: the failure after it.
    """

    reachable: bool | None = None
    since: float | None = None
    answered: float | None = None
    error: str | None = None

    def answer(self, now: float) -> ClusterContact:
        """Return the contact after an answer."""
        since = self.since if self.reachable else now
        return ClusterContact(reachable=True, since=since, answered=now)

    def failure(self, now: float, error: str) -> ClusterContact:
        """Return the contact after a failure of all brokers that were asked."""
        since = self.since if self.reachable is False else now
        return replace(self, reachable=False, since=since, error=error)

    def at(self, now: float) -> ClusterContact:
        """Return the contact at ``now``: without an answer for `SILENT_AFTER_S`, the cluster is not reachable."""
        if not self.reachable or self.answered is None or now - self.answered < SILENT_AFTER_S:
            return self
        return replace(
            self,
            reachable=False,
            since=self.answered + SILENT_AFTER_S,
            error="requests are not answered",
        )
