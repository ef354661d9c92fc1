"""One lane: the long-running Spark task that runs source tasks by the node's orders."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from flows import log_lines
from flows.lane.byte_budget import ByteBudget
from flows.lane.lease_client import LeaseClient, LeaseLostError
from flows.lane.lease_deadline import LeaseDeadline
from flows.lane.loop_turns import LoopTurns
from flows.partition.frame_transform import LaneTransforms
from flows.process_memory import ProcessMemory
from flows.source.fetch_limit import FetchLimit
from flows.source_task.source_task import SourceTask
from mm2.core.lanes.lease import LaneOrders, LeaseEndpoint
from mm2.core.lanes.progress_reports import LaneProgress
from mm2.core.lanes.query_trials import FrameSpan
from mm2.core.log_records import work_in_lane
from mm2.core.naming.names import Flow

if TYPE_CHECKING:
    from flows.sql.exchange import QueryInput

log = logging.getLogger(__name__)

STOP_WITHIN_S = 2.0
"""After its lease is lost, a lane must not write: open requests are cancelled within this time, then the process
ends."""


async def run_lane(place: LeaseEndpoint, *, lane: int, token: str, query: QueryInput | None = None) -> None:
    """Hold the lease and follow its orders until they end the lane. ``query``: the rows of a SQL lane.

    Raises LeaseLostError when the lease is lost, and QueryFailed when the query has ended or does not answer.
    """
    log_lines.set_up()
    work_in_lane(lane)
    gc.collect()
    gc.freeze()  # excludes what PySpark imported from collections, a tenth of the CPU under a light load
    async with LeaseClient(place, lane=lane, token=token) as lease:
        if query is None:
            await _follow_orders(lease, lane)
            return
        from flows.sql.exchange import RowExchange  # noqa: PLC0415 it needs pyarrow, which only SQL lanes have
        from flows.sql.query_stage import LaneQueryRun  # noqa: PLC0415

        exchange = RowExchange(query, partial(_announce, lease))
        await exchange.open()
        try:
            await first_to_end(
                _follow_orders(
                    lease, lane, LaneQueryRun(exchange, lease.failure_of), lambda: (os.getpid(), exchange.feeder_pid)
                ),
                exchange.run(),
            )
        finally:
            await exchange.close()


async def _announce(lease: LeaseClient, frame: FrameSpan | None) -> None:
    """Announce a frame that enters the query. Never returns if the lease is lost, which ends the lane."""
    try:
        await lease.announce(frame)
    except LeaseLostError:
        await asyncio.get_running_loop().create_future()


async def first_to_end(*work: Coroutine[Any, Any, None]) -> None:
    """Run these until the first has ended, then cancel the others. Raises the error of the first; logs later ones."""
    tasks = [asyncio.create_task(one) for one in work]
    ended: list[asyncio.Task[None]] = []  # in this order
    for task in tasks:
        task.add_done_callback(ended.append)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for later in ended[1:]:
        if not later.cancelled() and (error := later.exception()) is not None:
            log.error("unexpected error while the lane was closed", exc_info=error)
    ended[0].result()


async def _follow_orders(
    lease: LeaseClient,
    lane: int,
    query: LaneTransforms | None = None,
    pids: Callable[[], Iterable[int | None]] = lambda: (os.getpid(),),
) -> None:
    """``pids``: the Python processes of the lane."""
    orders = await lease.acquire()
    memory = ProcessMemory(pids).bytes
    lane_runner = LaneRunner(orders.buffer_bytes, lease.deadlines, lease.limits, query, memory=memory)
    try:
        await lane_runner.apply(orders)
        while not orders.end or lane_runner.busy:
            await lane_runner.apply(await lease.report(lane_runner.progress()))
            orders = lease.orders
        await lease.report(lane_runner.progress())
    except LeaseLostError:
        log.exception("lane %d: lease lost; stopping immediately", lane)
        raise
    finally:
        async with asyncio.timeout(STOP_WITHIN_S):
            await lane_runner.close()


class LaneRunner:
    """Starts, changes and closes the source tasks of one lane by its orders.

    (A) There is at most one runner per source task.
    (B) A source task that leaves the orders is closed before a runner for the same source task with a newer epoch or
        restart starts.
    """

    def __init__(
        self,
        buffer_bytes: int,
        deadlines: Mapping[Flow, LeaseDeadline],
        limits: Mapping[tuple[Flow, int], FetchLimit],
        query: LaneTransforms | None = None,
        *,
        memory: Callable[[], int | None] = lambda: None,
    ) -> None:
        """``deadlines``: until when the source tasks of each flow may send anything. ``limits``: of what each source
        task fetches. ``query``: of a SQL lane. ``memory`` returns the bytes of the lane's processes, if they are known.
        """
        self._query = query
        self._memory = memory
        self._budget = ByteBudget(buffer_bytes)
        self._turns = LoopTurns()
        self._deadlines = deadlines
        self._limits = limits
        self._source_tasks: dict[tuple[Flow, int], SourceTask] = {}
        self._epochs: dict[tuple[Flow, int], tuple[int, int]] = {}
        self._version = -1

    @property
    def busy(self) -> bool:
        """Whether a source task is still running."""
        return bool(self._source_tasks)

    async def apply(self, orders: LaneOrders) -> None:
        """Start, change and close source tasks so that the lane runs those in ``orders``."""
        if orders.version == self._version:
            return
        log_lines.set_levels(orders.log_levels)
        if self._query is not None:
            self._query.follow(orders.trial)
        leases = () if orders.end else orders.source_tasks
        wanted = {(lease.flow, lease.source_task): lease for lease in leases}
        await self._close(
            key
            for key in self._source_tasks
            if (lease := wanted.get(key)) is None or (lease.epoch, lease.restart) != self._epochs[key]
        )
        for key, lease in wanted.items():
            if (running := self._source_tasks.get(key)) is not None:
                running.apply(lease)
                if lease.drain:
                    running.drain()
            elif not lease.drain:
                runner = self._source_tasks[key] = SourceTask(
                    lease,
                    self._budget,
                    self._deadlines[lease.flow],
                    self._query,
                    turns=self._turns,
                    limit=self._limits[key],
                )
                self._epochs[key] = (lease.epoch, lease.restart)
                runner.start()
        self._version = orders.version

    def progress(self) -> LaneProgress:
        """Return the progress since the last ``progress``, which the node must have received."""
        return LaneProgress(
            version=self._version,
            pid=os.getpid(),
            source_tasks=tuple(runner.news() for runner in self._source_tasks.values()),
            buffered_bytes=self._budget.held,
            memory_bytes=self._memory(),
        )

    async def close(self) -> None:
        """Stop all source tasks immediately; unacknowledged batches are copied again by the next run."""
        await self._close(self._source_tasks)

    async def _close(self, keys: Iterable[tuple[Flow, int]]) -> None:
        """Stop source tasks immediately and at the same time: none sends anything while another one is closing."""
        closing = [self._source_tasks.pop(key) for key in list(keys)]
        await asyncio.gather(*(runner.close() for runner in closing))
