"""One lane: what an endless Spark task does, running slots as the node orders (design: engine, lanes, leases)."""

from __future__ import annotations

import asyncio
import gc
import logging
import os

from flows.budget import ByteBudget
from flows.lease import Lease, LeaseLostError
from flows.slot import SlotRunner
from mm2.core.lease import LaneOrders, LaneProgress, LeasePlace, SlotLease
from mm2.core.names import Flow

log = logging.getLogger("mm2.lane")

STOP_WITHIN_S = 2.0
"""After a lost lease nothing may be written any more; open requests get this long to fall, then the process ends."""


async def run_lane(place: LeasePlace, *, lane: int, token: str, attempt: int) -> None:
    """Hold the lease and carry out its orders until they say end. Raises LeaseLostError when the lease is gone."""
    gc.collect()
    gc.freeze()  # all that PySpark imported: looking through it again and again costs a tenth of a trickle's CPU
    async with Lease(place, lane=lane, token=token, attempt=attempt) as lease:
        orders = await lease.acquire()
        work = Lane(orders.buffer_bytes)
        try:
            await work.carry_out(orders)
            while not orders.end or work.busy:
                await work.carry_out(await lease.report(work.progress()))
                orders = lease.orders
            await lease.report(work.progress())
        except LeaseLostError:
            log.exception("lane %d stops at once", lane)
            raise
        finally:
            async with asyncio.timeout(STOP_WITHIN_S):
                await work.close()


class Lane:
    """The slots of one lane, brought to what the orders say.

    Invariants: (A) at most one runner per slot. (B) a slot that leaves the orders is closed before a runner for the
    same slot with a newer epoch or restart starts.
    """

    def __init__(self, buffer_bytes: int) -> None:
        self._budget = ByteBudget(buffer_bytes)
        self._slots: dict[tuple[Flow, int], SlotRunner] = {}
        self._lives: dict[tuple[Flow, int], tuple[int, int]] = {}
        self._version = -1

    @property
    def busy(self) -> bool:
        """Whether a slot is still running."""
        return bool(self._slots)

    async def carry_out(self, orders: LaneOrders) -> None:
        """Start, change and close slots so that the lane runs what is ordered."""
        if orders.version == self._version:
            return
        wanted = {} if orders.end else {(slot.flow, slot.slot): slot for slot in orders.slots}
        for key, runner in list(self._slots.items()):
            lease = wanted.get(key)
            if lease is None or (lease.epoch, lease.restart) != self._lives[key]:
                del self._slots[key]
                await runner.close()
        for key, lease in wanted.items():
            await self._bring(key, lease)
        self._version = orders.version

    async def _bring(self, key: tuple[Flow, int], lease: SlotLease) -> None:
        runner = self._slots.get(key)
        if runner is None:
            if lease.drain:
                return
            runner = self._slots[key] = SlotRunner(lease, self._budget)
            self._lives[key] = (lease.epoch, lease.restart)
            await runner.start()
        else:
            await runner.apply(lease)
            if lease.drain:
                runner.drain()

    def progress(self) -> LaneProgress:
        """What the node should know now beyond the last ``progress``, which the caller has seen to it that it has."""
        return LaneProgress(
            version=self._version,
            pid=os.getpid(),
            slots=tuple(runner.news() for runner in self._slots.values()),
            buffered_bytes=self._budget.used,
        )

    async def close(self) -> None:
        """Stop all slots where they are; what was not acknowledged is copied again by the next run."""
        for runner in self._slots.values():
            await runner.close()
        self._slots.clear()
