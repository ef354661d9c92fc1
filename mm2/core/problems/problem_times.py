"""How long the flows of a node have had problems: what /health reports at once, and what makes it 503.

A flow is *down* if it has a problem, and

A. it has had no moment without a problem since the node runs it: nothing is UP that was never seen to run; or
B. it has had problems for `ProblemTimes.limit_s`. The seconds of problems add up, whichever problems they are, and
   start at zero again only after `limit_s` without any: a problem that comes and goes is not hidden by starting the
   count again, and short interruptions, such as those of a rebalance, are no alarm.

A problem at one place continues if it returns there within ``limit_s``: its time is that of its first occurrence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

LIMIT_S = 30.0
"""Time for what repairs itself: a rebalance, a restart of a lane or a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    since: float
    seen: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flow:
    """``ran``: it has had no problem once. ``lasted_s``: seconds with problems. ``seen``: when it last had one."""

    ran: bool = False
    lasted_s: float = 0.0
    observed: float = 0.0
    seen: float | None = None
    places: Mapping[str, _Place] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemTimes:
    """When problems of flows began. ``limit_s``: see the module."""

    limit_s: float = LIMIT_S
    flows: Mapping[str, _Flow] = field(default_factory=dict)

    def observed(self, problems: Mapping[str, Collection[str]], *, now: float, time: float) -> ProblemTimes:
        """Return the times after another observation.

        Args:
            problems: the places that have a problem, of each flow of the node; an empty place is the flow itself.
            now: monotonic seconds.
            time: seconds since 1970.
        """
        flows = {flow: self._flow(self.flows.get(flow), places, now, time) for flow, places in problems.items()}
        return ProblemTimes(limit_s=self.limit_s, flows=flows)

    def is_down(self, flow: str) -> bool:
        """Return whether a flow that has a problem now is down. A flow that was never observed is."""
        found = self.flows.get(flow, _Flow())
        return not found.ran or found.lasted_s >= self.limit_s

    def since(self, flow: str, places: Collection[str]) -> float | None:
        """Return when the first of the problems at ``places`` began, in seconds since 1970; None: not observed yet."""
        known = self.flows.get(flow, _Flow()).places
        return min((known[place].since for place in places if place in known), default=None)

    def _flow(self, before: _Flow | None, places: Collection[str], now: float, time: float) -> _Flow:
        before = before or _Flow(observed=now)
        had_one = before.seen is not None and before.seen == before.observed
        lasted_s = before.lasted_s + (now - before.observed if places and had_one else 0.0)
        if not places and (before.seen is None or now - before.seen >= self.limit_s):
            lasted_s = 0.0
        kept = {place: one for place, one in before.places.items() if now - one.seen < self.limit_s}
        current = {place: _Place(since=kept[place].since if place in kept else time, seen=now) for place in places}
        return _Flow(
            ran=before.ran or not places,
            lasted_s=lasted_s,
            observed=now,
            seen=now if places else before.seen,
            places={**kept, **current},
        )
