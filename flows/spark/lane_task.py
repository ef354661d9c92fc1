"""The Spark task of a lane, which is serialized into the Spark job.

It contains a lane id, the node's address and a token, and no other secret; everything else comes with the lease. The
lane runner is imported only where it runs: the engine, which imports this module too, does not need it.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark import TaskContext

from mm2.core.lanes.lease import LeasePlace

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
INIT = 1  # the parent of orphans


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTask:
    """The function of one Spark task. ``token`` is valid for one run of the lane."""

    lane: int
    place: LeasePlace
    token: str = field(repr=False)

    def __call__(self, rows: Iterable[None]) -> Iterable[None]:
        """Run the lane until its orders end it; consumes and returns no rows (`RDD.mapPartitions`)."""
        end_with_parent()
        if is_orphan(os.getppid(), os.getpgrp()):  # Spark's daemon, which forked us, has ended already
            os._exit(1)
        gc.disable()  # imported modules are not garbage, and examining them takes a quarter of the CPU of an import
        try:
            from flows.lane.lane_runner import run_lane  # noqa: PLC0415 see above
        finally:
            gc.enable()
        for _ in rows:
            continue
        context = TaskContext.get()
        attempt = context.attemptNumber() if context else 0
        asyncio.run(run_lane(self.place, lane=self.lane, token=self.token, attempt=attempt))
        return iter(())


def is_orphan(parent: int, group: int) -> bool:
    """Return whether the process that forked us has ended.

    In a container, the executor's JVM that forked us can itself be process 1; then we are in its process group.
    """
    return parent == INIT and group != INIT


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent dies (Linux only).

    So no worker outlives its JVM, and no engine its node.
    """
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)
