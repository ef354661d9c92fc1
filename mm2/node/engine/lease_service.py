"""The lane board behind the REST endpoints: adds the clock, long polling, and current start offsets for each lease.

Records for which a query failed pass it on their way from a lane to the engine, and back with Spark's message.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Protocol
from weakref import WeakSet

from mm2.core.lanes.engine_orders import (
    MESSAGE_WITHIN_S,
    EngineOrders,
    EngineReport,
    EngineRole,
    FailedRecord,
    RecordError,
)
from mm2.core.lanes.lease import (
    FlowLease,
    LaneQuery,
    LeaseGrant,
    LeaseNotReadyError,
    LeaseRefusedError,
    LeaseRenewal,
    LeaseRequest,
    SourceTaskLease,
    SourceTaskShare,
)
from mm2.core.lanes.progress_reports import LaneProgress
from mm2.core.lanes.query_trials import FrameSpan
from mm2.core.masking import hide
from mm2.core.naming.names import Flow
from mm2.core.plugins import PluginError
from mm2.kafka.errors import ClusterError
from mm2.node.engine.lane_board import LaneBoard
from mm2.node.engine.lane_readiness import LaneReadiness
from mm2.node.engine.managed_lane import SourceTaskKey
from mm2.node.engine.tokens import is_same_secret, new_token

MAX_ORDERED = 8
"""Records in one order. Their queries are evaluated one after the other, and each order has them again (A), so more
would only make the orders larger."""

MAX_ORDERED_BYTES = 8 * 1024 * 1024
"""Limit for the batches of one order that has several records, in characters of base64."""

OnMessage = Callable[[str | None], None]
"""Receives Spark's message; None if the query did not fail."""


class FailedRecords:
    """The records whose errors the engine should find."""

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[int, tuple[FailedRecord, OnMessage]] = {}
        self._ordered: set[int] = set()
        self._engine: int | None = None

    def add(self, query: LaneQuery, topic: str, partition: int, batch: str, done: OnMessage) -> int:
        """Ask for the error of the record in ``batch``, which is in base64; return its number."""
        number, self._next = self._next, self._next + 1
        record = FailedRecord(number=number, query=query, topic=topic, partition=partition, batch=batch)
        self._waiting[number] = record, done
        return number

    def give_up(self, number: int) -> None:
        """Forget a record."""
        self._waiting.pop(number, None)
        self._ordered.discard(number)

    def take(self, engine: int, errors: Iterable[RecordError]) -> None:
        """Pass on the answers in a report of the engine process with pid ``engine``."""
        if engine != self._engine:
            self._engine = engine
            self._ordered.clear()
        for error in errors:
            if (waiting := self._waiting.get(error.number)) is not None:
                self.give_up(error.number)
                waiting[1](error.message)

    @property
    def has_new(self) -> bool:
        """Whether the next order has a record that was not part of one yet."""
        return any(record.number not in self._ordered for record in self._due())

    @property
    def has_ordered(self) -> bool:
        """Whether the engine has a record to answer."""
        return bool(self._ordered)

    def orders(self) -> tuple[FailedRecord, ...]:
        """Return the records for an order to the engine, the oldest first."""
        records = self._due()
        self._ordered = {record.number for record in records}
        return records

    def _due(self) -> tuple[FailedRecord, ...]:
        """Return the oldest records, as many as an order has."""
        records: list[FailedRecord] = []
        size = 0
        for record, _ in itertools.islice(self._waiting.values(), MAX_ORDERED):
            size += len(record.batch)
            if records and size > MAX_ORDERED_BYTES:
                break
            records.append(record)
        return tuple(records)


log = logging.getLogger("mm2.node")

LEASE_MARGIN_S = 1.0
"""A lane stops this long before its lease is granted again, and before the node's membership can end: time for what
was sent last to arrive."""

NOT_FAILED_AGAIN = "the query did not fail for the record when Spark evaluated it alone"

ANSWERED_AFTER_S = 0.1
"""Long-poll time of the engine while it evaluates queries of failed records, for whose messages lanes wait."""


class Wake(Enum):
    """Why waiters are woken."""

    ORDERS = "the orders of lanes, or of the engine, have changed"
    REPORT = "a lane has reported something new, has started, or has ended"
    TURN = "another frame can pass through a query"
    ASSIGNMENT = "the membership of a flow, or its assigned tasks, have changed"
    CONFIGS = "the leader has published lists, pauses or other records"
    FENCED = "earlier owners or runs of a source task are fenced, or the target permits what it did not"
    RELEASED = "a task was released, or the release of one was stored"
    LOSSES = "a loss was recorded or accepted"
    REQUEST = "an operator has requested something"


ANY = frozenset(Wake)


class ChangeEvent:
    """Collects the reasons for which its waiter is to be woken, from its creation on."""

    def __init__(self, reasons: Collection[Wake]) -> None:
        self._wanted = frozenset(reasons)
        self._happened: set[Wake] = set()
        self._event = asyncio.Event()

    def happened(self, reasons: Collection[Wake]) -> None:
        """Wake the waiter if it waits for one of these reasons."""
        if found := self._wanted.intersection(reasons):
            self._happened |= found
            self._event.set()

    async def wait(self, timeout: float) -> frozenset[Wake]:
        """Wait up to ``timeout`` seconds; return why it was woken, nothing if it was not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()
        return frozenset(self._happened)


class SourceTaskHost(Protocol):
    """What a flow of this node does for the lanes that run its source tasks.

    `mm2.node.source.source_task_runner.SourceTaskRunner`, and `mm2.mirror1.stream.Stream` of kafka-mirror-maker.
    """

    async def prepare_lease(self, source_task: int) -> None:
        """Fence an earlier run of a source task, and read where it continues. Raises ClusterError and PluginError."""

    def hand_out_lease(self, source_task: int) -> SourceTaskLease | None:
        """Return the lease for a lane that starts, as it was prepared; None if the task does not run here any more."""

    def certain_for(self) -> float:
        """Return for how many seconds the node is certainly a member of the flow's group."""

    def fetch_share(self, source_task: int) -> int | None:
        """Return how many bytes per second a source task may fetch; None: any number."""


class LeaseService:
    """Serves the engines and the lanes (`mm2.rest.internal.lease_api.LeaseApi`) from a `LaneBoard`, and wakes waiters.

    Invariant (A): a lane that starts or restarts receives offsets that were read after its predecessor lost the lease,
    so that records whose offsets were stored by the predecessor are not copied again.

    ``capacity`` is the number of lanes that the node offers. ``url`` is the address for lanes, once it is served.
    ``message_within_s``: how long a lane waits for Spark's message for a failed record. ``clock``: for leases and long
    polls, in seconds.
    """

    def __init__(
        self,
        board: LaneBoard,
        *,
        capacity: int,
        message_within_s: float = MESSAGE_WITHIN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.board = board
        self.capacity = capacity
        self._message_within_s = message_within_s
        self._clock = clock
        self.url = ""
        self.engine_tokens = {role: new_token() for role in EngineRole}
        for token in self.engine_tokens.values():
            hide(token)  # longer than those of lanes, which are renewed
        self._hosts: dict[Flow, SourceTaskHost] = {}
        self._readiness = LaneReadiness()
        self._failed_records = {role: FailedRecords() for role in EngineRole}
        self._waiting: WeakSet[ChangeEvent] = WeakSet()

    # -- for the flows of this node

    def register(self, flow: Flow, host: SourceTaskHost) -> None:
        """Ask this host for the leases of this flow's source tasks."""
        self._hosts[flow] = host

    def put(self, lease: SourceTaskLease) -> None:
        """Run this source task, or change its lease."""
        self.board.put(lease)
        self.wake(Wake.ORDERS)

    def use_credentials(self, credentials: Mapping[str, str]) -> None:
        """Send lanes on other machines these contents of files, with their leases."""
        self.board.use_credentials(credentials)
        self.wake(Wake.ORDERS)

    def use_log_levels(self, levels: Mapping[str, str]) -> None:
        """Let engines and lanes log from these levels on, by logger."""
        self.board.use_log_levels(levels)
        self.wake(Wake.ORDERS)

    def retry_records(self, key: SourceTaskKey) -> None:
        """Let the records of a source task pass through its query that have ended it."""
        self.board.retry_records(key)
        self.wake(Wake.ORDERS)

    def remove(self, key: SourceTaskKey) -> None:
        """Stop a source task."""
        self.board.remove(key)
        self.wake(Wake.ORDERS)

    @property
    def ready(self) -> bool:
        """Whether a new source task would start immediately, and the lanes do not fail all the time."""
        self.observe_lanes()
        return self._readiness.is_ready(self._clock())

    def observe_lanes(self) -> None:
        """Note whether lanes are running; call it about once a second."""
        self._readiness.observe(self._clock(), alive=self.board.alive)

    def keep_all_lanes_running(self) -> None:
        """Keep all lanes running, because other nodes can hand source tasks over at any time."""
        self.board.keep_running(self.capacity)
        self.wake(Wake.ORDERS)

    async def move_tasks_without_executor(self) -> None:
        """Move source tasks whose lane gets no executor to lanes that have one, with current start offsets.

        Raises ClusterError if the offsets cannot be read; the source tasks then continue to wait.
        """
        for key in self.board.source_tasks_to_move(self._clock()):
            await self._prepare(key)
            fresh = self._build(key)
            if fresh is not None:
                log.warning("%s: moving source task %d to another lane: no executor for its own lane", *key)
                self.board.move(fresh, self._clock())
                self.wake(Wake.ORDERS)

    def wake(self, *reasons: Wake) -> None:
        """Wake those who wait for one of these reasons."""
        for event in list(self._waiting):
            event.happened(reasons)

    def change_event(self, reasons: Collection[Wake]) -> ChangeEvent:
        """Return an event for these reasons. Get it before reading state, to miss no change until it is waited for."""
        event = ChangeEvent(reasons)
        self._waiting.add(event)
        return event

    async def wait_for_change(self, timeout: float, reasons: Collection[Wake] = ANY) -> frozenset[Wake]:
        """Wait up to ``timeout`` seconds for one of these reasons; return why it was woken, nothing if it was not."""
        return await self.change_event(reasons).wait(timeout)

    # -- LeaseApi

    def check_engine(self, secret: str) -> EngineRole:
        role = next((role for role, token in self.engine_tokens.items() if is_same_secret(secret, token)), None)
        if role is None:
            raise LeaseRefusedError("the request is not from an engine of this node")
        return role

    async def engine(self, engine: EngineRole, report: EngineReport, wait: float) -> EngineOrders:
        for message in self.board.engine_report(report, self._clock(), engine):
            log.warning("%s", message)
        if report.ended:
            self.wake(Wake.ORDERS, Wake.REPORT)
        records = self._failed_records[engine]
        records.take(report.pid, report.record_errors)
        if records.has_ordered:
            wait = min(wait, ANSWERED_AFTER_S)
        await self._until(
            lambda: records.has_new or self.board.engine_orders(self._clock(), engine).version > report.version,
            wait,
            {Wake.ORDERS},
        )
        return replace(self.board.engine_orders(self._clock(), engine), failed_records=records.orders())

    async def lease(self, lane: int, request: LeaseRequest) -> LeaseGrant:
        session = self.board.grant(lane, request, self._clock())
        log.debug("lane %d: lease granted", lane)
        self.wake(Wake.ORDERS)  # the next query may start
        keys = self.board.source_tasks_of(lane)
        try:
            await asyncio.gather(*map(self._prepare, keys))
        except (ClusterError, PluginError) as error:
            raise LeaseNotReadyError(str(error)) from error
        self.board.check(lane, session)  # the lease may have been granted to another process meanwhile
        for key in keys:
            if key not in self.board.source_tasks_of(lane):
                continue  # it was revoked while its offsets were read
            fresh = self._build(key)
            if fresh is None:
                self.board.remove(key)
            else:
                self.board.put(fresh)
        return LeaseGrant(session=session, renewal=self._renewal(lane, -1))

    def check(self, lane: int, secret: str) -> None:
        self.board.check(lane, secret)

    async def progress(self, lane: int, secret: str, progress: LaneProgress, wait: float) -> LeaseRenewal:
        before = self.board.version
        if self.board.lane_report(lane, secret, progress, self._clock()):
            self.wake(Wake.REPORT)
        if self.board.version != before:  # how frames pass through a query
            self.wake(Wake.ORDERS)
        await self._until(lambda: self.board.lane_orders(lane).version > progress.version, wait, {Wake.ORDERS})
        self.board.check(lane, secret)  # the lease may have been granted to another process meanwhile
        return self._renewal(lane, progress.version)

    async def announce(self, lane: int, secret: str, frame: FrameSpan | None, wait: float) -> bool:
        if self.board.announce(lane, secret, frame, self._clock()):
            if frame is None:
                self.wake(Wake.TURN)
            return True
        self.wake(Wake.TURN)  # its last frame has returned, and another lane may be waiting for its turn
        turn = {Wake.TURN, Wake.ORDERS}
        await self._until(lambda: self.board.announce(lane, secret, frame, self._clock()), wait, turn)
        return self.board.announce(lane, secret, frame, self._clock())

    async def failed_record(self, lane: int, topic: str, partition: int, batch: str) -> str | None:
        tasks = self.board.lane_orders(lane).source_tasks
        query = next((task.query for task in tasks if task.query is not None), None)
        if query is None:  # its last source task was revoked meanwhile
            return None
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

        def done(message: str | None) -> None:
            if not answer.done():  # given up
                answer.set_result(NOT_FAILED_AGAIN if message is None else message)

        failed_records = self._failed_records[self.board.query_engine]
        number = failed_records.add(query, topic, partition, batch, done)
        self.wake(Wake.ORDERS)
        try:
            async with asyncio.timeout(self._message_within_s):
                return await answer
        except TimeoutError:
            log.warning(
                "lane %d: no message from Spark for a failed record within %.0f s", lane, self._message_within_s
            )
            return None
        finally:
            failed_records.give_up(number)

    async def _prepare(self, key: SourceTaskKey) -> None:
        flow, source_task = key
        if flow in self._hosts:
            await self._hosts[flow].prepare_lease(source_task)

    def _build(self, key: SourceTaskKey) -> SourceTaskLease | None:
        flow, source_task = key
        return self._hosts[flow].hand_out_lease(source_task) if flow in self._hosts else None

    def _renewal(self, lane: int, version: int) -> LeaseRenewal:
        """Return the lane's lease, and its orders if they are newer than ``version``."""
        keys = self.board.source_tasks_of(lane)
        flows = dict.fromkeys(flow for flow, _ in keys)
        orders = self.board.lane_orders(lane)
        return LeaseRenewal(
            seconds=self.board.lease_s - LEASE_MARGIN_S,
            flows=tuple(FlowLease(flow=flow, seconds=self._certain_for(flow)) for flow in flows),
            fetch_shares=tuple(self._fetch_shares(keys)),
            orders=orders if orders.version > version else None,
        )

    def _fetch_shares(self, keys: Iterable[SourceTaskKey]) -> Iterator[SourceTaskShare]:
        for flow, source_task in keys:
            share = self._hosts[flow].fetch_share(source_task) if flow in self._hosts else None
            if share is not None:
                yield SourceTaskShare(flow=flow, source_task=source_task, bytes_per_second=share)

    def _certain_for(self, flow: Flow) -> float:
        host = self._hosts.get(flow)
        return 0.0 if host is None else max(0.0, host.certain_for() - LEASE_MARGIN_S)

    async def _until(self, condition: Callable[[], bool], timeout: float, reasons: Collection[Wake]) -> None:
        deadline = self._clock() + timeout
        while True:
            event = self.change_event(reasons)
            if condition() or (left := deadline - self._clock()) <= 0:
                return
            await event.wait(left)
