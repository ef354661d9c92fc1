"""The Spark task of a lane: all that travels inside the Spark plan.

A lane id, where the node is and a token, nothing secret beyond that; everything else comes with the lease. What the
lane does is imported only where it runs: the engine, which imports this module too, needs none of it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark import TaskContext

from mm2.core.lease import LeasePlace

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
INIT = 1  # the parent of orphans


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTask:
    """The function of one Spark task. ``token`` is good for one run of the lane."""

    lane: int
    place: LeasePlace
    token: str = field(repr=False)

    def __call__(self, rows: Iterable[None]) -> Iterable[None]:
        """Run the lane until it is told to end; takes and gives no rows (`RDD.mapPartitions`)."""
        end_with_parent()
        if is_orphan(os.getppid(), os.getpgrp()):  # Spark's daemon, which forked us, is gone already
            os._exit(1)
        from flows.lane import run_lane  # noqa: PLC0415 see above

        for _ in rows:
            continue
        context = TaskContext.get()
        attempt = context.attemptNumber() if context else 0
        asyncio.run(run_lane(self.place, lane=self.lane, token=self.token, attempt=attempt))
        return iter(())


def is_orphan(parent: int, group: int) -> bool:
    """Whether who forked us is gone. In a container an executor's JVM may itself be process 1, and have forked us: then
    we are of its process group."""
    return parent == INIT and group != INIT


def end_with_parent() -> None:
    """Ask the kernel to end this process when the one that forked it dies, so that no worker outlives a killed JVM and
    no engine its node."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)
