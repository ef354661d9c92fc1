"""The assignment of source tasks to lanes, and of lanes to the engine.

A state machine without clock and I/O: events in (`put`, `grant`, `lane_report`, `engine_report`, …), orders out. Times
are arguments, in seconds of a monotonic clock, so that an incident can be replayed as a unit test.

Invariants:
(A) A source task is in the orders of at most one lane.
(B) At most one session per lane is valid; granting a newer (token, attempt) invalidates the older one.
(C) The engine is ordered to run a lane only while the lane has source tasks, is kept warm, or has not yet ended.
(D) A source task is moved only from a lane that has no lease, and that lane cannot get a lease for it later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hmac import compare_digest

from mm2.core.lanes.lease import (
    EngineOrders,
    EngineReport,
    LaneOrders,
    LaneStart,
    LeaseRefusedError,
    LeaseRequest,
    SourceTaskLease,
)
from mm2.core.lanes.progress_reports import LaneProgress
from mm2.node.engine.executors import LOG_AFTER_S, LOST_AFTER_S, MOVED_AFTER_S, STARVED_FOR_S, no_executor
from mm2.node.engine.managed_lane import LaneState, ManagedLane, SourceTaskKey

LEASE_SECONDS = 15.0
"""Longer than a garbage collection pause or a busy node, and short enough to replace a dead lane soon."""

START_WITHIN_S = 120.0
"""Time for an ordered lane to request its lease; after that it is restarted, as Spark has lost it."""


class LaneBoard:
    """All lanes of one node.

    ``lanes`` is the maximum number of lanes; a lane is started when source tasks need it. ``cluster`` is the Spark
    master whose executors the lanes wait for, None if they need no executors.
    """

    def __init__(
        self, *, lanes: int, buffer_bytes: int, new_secret: Callable[[], str], cluster: str | None = None
    ) -> None:
        self._lanes = [ManagedLane(number=number, token=new_secret()) for number in range(lanes)]
        self._buffer_bytes = buffer_bytes
        self._new_secret = new_secret
        self._cluster = cluster
        self._version = 0
        self._ending = False
        self._warm = 0
        self.engine: EngineReport | None = None

    # -- orders of the flows

    def put(self, lease: SourceTaskLease) -> None:
        """Run this source task, or change its lease.

        A new source task is assigned to the lane with the fewest partitions, if possible one that has an executor.
        """
        key = (lease.flow, lease.source_task)
        lane = self._lane_of(key) or min(self._lanes, key=lambda lane: lane.preference)
        if lane.source_tasks.get(key) != lease:
            lane.source_tasks[key] = lease
            self._bump(lane)

    def remove(self, key: SourceTaskKey) -> None:
        """Stop this source task without draining it."""
        lane = self._lane_of(key)
        if lane is not None:
            del lane.source_tasks[key]
            self._bump(lane)
            lane.removed[key] = lane.version

    def keep_warm(self, lanes: int) -> None:
        """Keep this number of lanes running even without source tasks, so that new source tasks start immediately."""
        if lanes != self._warm:
            self._warm = lanes
            for lane in self._lanes:
                self._bump(lane)

    def move(self, lease: SourceTaskLease, now: float) -> None:
        """Move this source task, with this lease, to a lane that has an executor, if its own lane still has none."""
        key = (lease.flow, lease.source_task)
        lane = self._lane_of(key)
        if lane is None or not self._waits_in_vain(lane, now):
            return
        lane.starved_until = now + STARVED_FOR_S
        del lane.source_tasks[key]
        if not lane.source_tasks:
            self._restart(lane, None, now)  # a new token, so that it gets no lease if it starts later
        other = min((one for one in self._lanes if one.session is not None), key=lambda lane: lane.preference)
        other.source_tasks[key] = lease
        self._bump(other)

    def drain(self) -> None:
        """Have every source task complete the records in flight and store its offsets."""
        for lane in self._lanes:
            for key, lease in lane.source_tasks.items():
                lane.source_tasks[key] = replace(lease, drain=True)
            self._bump(lane)

    def end(self) -> None:
        """Have every lane end."""
        self._ending = True
        for lane in self._lanes:
            self._bump(lane)

    # -- reports of lanes

    def source_tasks_of(self, lane_number: int) -> tuple[SourceTaskKey, ...]:
        """Return the source tasks that are assigned to a lane."""
        return tuple(self._lane(lane_number).source_tasks)

    def grant(self, lane_number: int, request: LeaseRequest, now: float) -> str:
        """Grant the lane's lease to this attempt; return the session secret. Raises LeaseRefusedError.

        The same process can repeat its request until its first report, in case the response was lost.
        """
        lane = self._lane(lane_number)
        again = request.attempt == lane.attempt and request.pid == lane.pid and lane.progress is None
        if not compare_digest(request.token, lane.token) or not (request.attempt > lane.attempt or again):
            raise LeaseRefusedError(f"lane {lane_number}: another attempt holds the lease")
        session = self._new_secret()
        lane.begin(session, request.attempt, request.pid, now)
        return session

    def check(self, lane_number: int, session: str) -> None:
        """Raise LeaseRefusedError if ``session`` is not the current session of the lane."""
        held = self._lane(lane_number).session
        if held is None or not compare_digest(session, held):
            raise LeaseRefusedError(f"lane {lane_number}: another attempt holds the lease")

    def lane_report(self, lane_number: int, session: str, progress: LaneProgress, now: float) -> bool:
        """Apply a lane's report; return whether it contains changes. Raises LeaseRefusedError for an old session."""
        self.check(lane_number, session)
        return self._lane(lane_number).take(progress, now)

    def lane_orders(self, lane_number: int) -> LaneOrders:
        """Return the orders of a lane."""
        lane = self._lane(lane_number)
        return LaneOrders(
            version=lane.version,
            source_tasks=tuple(lane.source_tasks.values()),
            end=self._ending or not self._wanted(lane),
            buffer_bytes=self._buffer_bytes,
        )

    # -- reports of the engine

    def engine_report(self, report: EngineReport, now: float) -> None:
        """Apply the engine's report: lanes whose job has ended are restarted with a new token after their backoff."""
        self.engine = report
        for lane in self._lanes:
            lane.unplaced = lane.number in report.unplaced
        for end in report.ended:
            lane = self._lane(end.lane)
            if end.token == lane.token:
                self._restart(lane, end.error, now)

    def engine_lost(self, now: float) -> None:
        """Restart all lanes, because the engine process has exited and they with it."""
        self.engine = None
        for lane in self._lanes:
            if lane.session is not None or lane.ordered_at is not None:
                self._restart(lane, None, now)
                lane.not_before = now  # the restart of the engine already has a backoff

    def expire(self, now: float) -> list[str]:
        """Expire the leases of lanes that have not reported, and find lanes that wait for Spark.

        Return one message per lane; a lane that continues to wait is not repeated.
        """
        found = []
        for lane in self._lanes:
            if lane.starved_until is not None and now > lane.starved_until:
                lane.starved_until = None
            if lane.session is not None and lane.heard_at is not None and now - lane.heard_at > LEASE_SECONDS:
                message = f"lane {lane.number}: no progress report for {LEASE_SECONDS:.0f} s; restarting"
                self._restart(lane, message, now)
            elif lane.unplaced and lane.heard_at is not None and now - lane.heard_at > LOST_AFTER_S:
                message = f"lane {lane.number}: executor lost, and no other is free; restarting"
                self._restart(lane, message, now)
            elif lane.session is not None or lane.ordered_at is None:
                continue
            elif self._is_unplaced(lane):
                if now - lane.ordered_at <= LOG_AFTER_S:
                    continue
                given = self.engine.executors if self.engine is not None else 0
                message = f"lane {lane.number}: {no_executor(self._cluster, given)}"
                if lane.error == message:
                    continue
                lane.error = message
            elif now - lane.ordered_at > START_WITHIN_S:
                message = f"lane {lane.number}: did not start within {START_WITHIN_S:.0f} s; restarting"
                self._restart(lane, message, now)
            else:
                continue
            found.append(message)
        return found

    def in_vain(self, now: float) -> tuple[SourceTaskKey, ...]:
        """Return the source tasks to move, as their lane waits for an executor while other lanes have one."""
        return tuple(key for lane in self._lanes if self._waits_in_vain(lane, now) for key in lane.source_tasks)

    def _waits_in_vain(self, lane: ManagedLane, now: float) -> bool:
        if not self._is_unplaced(lane) or lane.ordered_at is None:
            return False
        began = [one.granted_at for one in self._lanes if one.granted_at is not None]
        return bool(began) and now - max(lane.ordered_at, *began) > MOVED_AFTER_S

    def _is_unplaced(self, lane: ManagedLane) -> bool:
        return self._cluster is not None and lane.session is None and lane.unplaced

    def engine_orders(self, now: float) -> EngineOrders:
        """Return the lanes that the engine is to run now."""
        starts = []
        for lane in self._lanes:
            if self._ending and lane.session is None:
                continue
            if not self._wanted(lane) and lane.session is None:
                continue
            if now < lane.not_before:
                continue
            if lane.ordered_at is None:
                lane.ordered_at = now
            starts.append(LaneStart(lane=lane.number, token=lane.token, description=lane.description))
        return EngineOrders(version=self._version, lanes=tuple(starts))

    # -- state

    def progress(self, key: SourceTaskKey) -> LaneState | None:
        """Return the last report about a source task; None before its lane's first report."""
        lane = self._lane_of(key)
        return None if lane is None else lane.state_of(key)

    def trouble(self, key: SourceTaskKey) -> str | None:
        """Return why the lane of a source task is not running, if known."""
        lane = self._lane_of(key)
        return None if lane is None else lane.error

    def idle(self, key: SourceTaskKey) -> bool:
        """Return whether the lane has not started the source task, and will not start it if the orders drain it."""
        lane = self._lane_of(key)
        if lane is None or lane.session is None:
            return True
        return lane.current and key not in lane.accumulated

    def runs(self, key: SourceTaskKey) -> bool:
        """Return whether a lane is possibly running the source task, regardless of the orders."""
        return any(lane.may_run(key) for lane in self._lanes)

    @property
    def alive(self) -> bool:
        """Whether a lane is running and has reported."""
        return any(lane.session is not None and lane.progress is not None for lane in self._lanes)

    def lane_has(self, key: SourceTaskKey) -> bool:
        """Return whether the source task is in the orders of a lane."""
        return self._lane_of(key) is not None

    @property
    def drained(self) -> bool:
        """Whether every running source task has reported that it is drained."""
        return all(lane.drained for lane in self._lanes)

    def _lane(self, number: int) -> ManagedLane:
        if not 0 <= number < len(self._lanes):
            raise LeaseRefusedError(f"there is no lane {number}")
        return self._lanes[number]

    def _lane_of(self, key: SourceTaskKey) -> ManagedLane | None:
        return next((lane for lane in self._lanes if key in lane.source_tasks), None)

    def _wanted(self, lane: ManagedLane) -> bool:
        return bool(lane.source_tasks) or lane.number < self._warm

    def _bump(self, lane: ManagedLane) -> None:
        lane.version += 1
        self._version += 1

    def _restart(self, lane: ManagedLane, error: str | None, now: float) -> None:
        lane.end(self._new_secret(), error, now, wanted=self._wanted(lane))
        self._bump(lane)
