"""Observes how long the flows of this node have had problems, for /health."""

from __future__ import annotations

import time
from collections.abc import Callable

from mm2.core.problems.problem_times import LIMIT_S, ProblemTimes
from mm2.node.status.status_model import NodeStatus
from mm2.rest.merge.flow_merge import own_share
from mm2.rest.merge.flow_problems import flow_problems


class ProblemWatch:
    """Keeps `ProblemTimes`: ``times`` is replaced as a whole, so any thread can read it.

    `observe` is called each time the node has published a status, by one thread at a time.
    """

    def __init__(
        self,
        *,
        limit_s: float = LIMIT_S,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """``limit_s``: how long problems may last. ``clock`` returns monotonic seconds, ``wall_clock`` since 1970."""
        self.times = ProblemTimes(limit_s=limit_s)
        self._clock = clock
        self._wall_clock = wall_clock

    def observe(self, status: NodeStatus) -> None:
        """Take the problems of another status."""
        problems = {
            flow.flow: [place for one in flow_problems(flow) if one.counts for place in one.members]
            for flow in own_share(status)
        }
        self.times = self.times.observed(problems, now=self._clock(), time=self._wall_clock())
