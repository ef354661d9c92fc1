"""The lane board behind the REST endpoints: adds waiting, the clock, and start offsets read when a lease is given."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable

from mm2.core.lease import (
    EngineOrders,
    EngineReport,
    LaneOrders,
    LaneProgress,
    LeaseGrant,
    LeaseRefusedError,
    LeaseRequest,
    SlotLease,
)
from mm2.core.names import Flow
from mm2.node.lane import SlotKey
from mm2.node.lanes import LEASE_SECONDS, LaneBoard

log = logging.getLogger("mm2.node")

RETURNS_WITHIN_S = 10.0
"""A lane that died is replaced in a second, a JVM in less than ten; after that other nodes had better take over."""

FreshLease = Callable[[int], Awaitable[SlotLease | None]]
"""Gives a slot's lease with start offsets read from the target now; None when the flow no longer runs that slot."""


class Desk:
    """Answers engine and lanes (`mm2.rest.leases.LeaseDesk`) from a `LaneBoard`, and tells waiters of changes.

    Invariant (A): a lane that starts (again) gets offsets that were read after its predecessor lost the lease, so that
    nothing its predecessor stored is copied twice.

    ``capacity`` is how many lanes the node offers, ``url`` where lanes reach it once it serves.
    """

    def __init__(self, board: LaneBoard, *, capacity: int) -> None:
        self.board = board
        self.capacity = capacity
        self.url = ""
        self.engine_token = secrets.token_hex(16)
        self._flows: dict[Flow, FreshLease] = {}
        self._alive_at = float("-inf")
        self._changed = asyncio.Event()

    # -- for the flows of this node

    def register(self, flow: Flow, fresh_lease: FreshLease) -> None:
        """From now on slots of this flow get their leases from ``fresh_lease``."""
        self._flows[flow] = fresh_lease

    def put(self, lease: SlotLease) -> None:
        """Run this slot, or change what it runs."""
        self.board.put(lease)
        self.wake()

    def remove(self, key: SlotKey) -> None:
        """Stop a slot."""
        self.board.remove(key)
        self.wake()

    @property
    def ready(self) -> bool:
        """Whether a slot that is given to this node now begins at once: a lane runs, or ran a moment ago."""
        now = time.monotonic()
        if self.board.alive:
            self._alive_at = now
        return now - self._alive_at <= RETURNS_WITHIN_S

    def keep_warm(self) -> None:
        """Other nodes may hand slots over at any time: have all lanes running."""
        self.board.keep_warm(self.capacity)

    async def move_starving(self) -> None:
        """Have slots that wait in vain for an executor run where there is one, from offsets read now. Raises
        ClusterError when they cannot be read; the slots wait on."""
        for flow, slot in self.board.in_vain(time.monotonic()):
            fresh = await self._flows[flow](slot) if flow in self._flows else None
            if fresh is not None:
                log.warning("%s: slot %d moves to another lane: there is no executor for its own", flow, slot)
                self.board.move(fresh, time.monotonic())
                self.wake()

    def wake(self) -> None:
        """Something changed: answer those who wait."""
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def news(self) -> asyncio.Event:
        """Set by the next change; for who looks at things first and then waits, and must miss none in between."""
        return self._changed

    async def changed(self, timeout: float, news: asyncio.Event | None = None) -> bool:
        """Wait for the next change, or for ``news`` taken before, at most ``timeout`` seconds; whether there was
        one."""
        try:
            async with asyncio.timeout(timeout):
                await (news or self._changed).wait()
        except TimeoutError:
            return False
        return True

    # -- LeaseDesk

    async def engine(self, secret: str, report: EngineReport, wait: float) -> EngineOrders:
        if not secrets.compare_digest(secret, self.engine_token):
            raise LeaseRefusedError("this is not the engine of this node")
        self.board.engine_report(report, time.monotonic())
        if report.ended:
            self.wake()
        await self._until(lambda: self.board.engine_orders(time.monotonic()).version > report.version, wait)
        return self.board.engine_orders(time.monotonic())

    async def lease(self, lane: int, request: LeaseRequest) -> LeaseGrant:
        session = self.board.grant(lane, request, time.monotonic())
        for flow, slot in self.board.slots_of(lane):
            fresh = await self._flows[flow](slot) if flow in self._flows else None
            if (flow, slot) not in self.board.slots_of(lane):
                continue  # it was taken away while its offsets were read
            if fresh is None:
                self.board.remove((flow, slot))
            else:
                self.board.put(fresh)
        return LeaseGrant(session=session, lease_seconds=LEASE_SECONDS, orders=self.board.lane_orders(lane))

    def check(self, lane: int, secret: str) -> None:
        self.board.check(lane, secret)

    async def progress(self, lane: int, secret: str, progress: LaneProgress, wait: float) -> LaneOrders | None:
        if self.board.lane_report(lane, secret, progress, time.monotonic()):
            self.wake()
        await self._until(lambda: self.board.lane_orders(lane).version > progress.version, wait)
        orders = self.board.lane_orders(lane)
        return orders if orders.version > progress.version else None

    async def _until(self, condition: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not condition() and (left := deadline - time.monotonic()) > 0:
            await self.changed(left)
