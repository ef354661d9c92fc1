"""Which slot runs in which lane, and which lanes the engine should be running.

A state machine over values: events in (`put`, `grant`, `lane_report`, `engine_report`, …), orders out. No clock and no
I/O inside; times are seconds of a monotonic clock, handed in, so that an incident replays as a unit test.

Invariants:
(A) A slot is in at most one lane's orders.
(B) At most one session per lane is valid; granting a newer (token, attempt) voids the older one.
(C) A lane is ordered from the engine only while it has slots or is kept warm, or has not yet reported that it left.
(D) A slot that moves to another lane leaves one that holds no lease, and cannot come to one for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hmac import compare_digest

from mm2.core.lease import (
    EngineOrders,
    EngineReport,
    LaneOrders,
    LaneProgress,
    LaneStart,
    LeaseRefusedError,
    LeaseRequest,
    SlotLease,
)
from mm2.node.executors import LOST_AFTER_S, MOVED_AFTER_S, SAID_AFTER_S, STARVED_FOR_S, no_executor
from mm2.node.lane import Lane, LaneWord, SlotKey

LEASE_SECONDS = 15.0
"""Long enough for a stalled garbage collection or a busy node, short enough that a dead lane is replaced soon."""

START_WITHIN_S = 120.0
"""A lane that was ordered but never asked for its lease: Spark lost it."""


class LaneBoard:
    """All lanes of one node. ``lanes`` is how many may run; they come into being when slots need them. ``cluster``:
    the Spark master they wait for executors of, None where none is needed."""

    def __init__(
        self, *, lanes: int, buffer_bytes: int, new_secret: Callable[[], str], cluster: str | None = None
    ) -> None:
        self._lanes = [Lane(number=number, token=new_secret()) for number in range(lanes)]
        self._buffer_bytes = buffer_bytes
        self._new_secret = new_secret
        self._cluster = cluster
        self._version = 0
        self._ending = False
        self._warm = 0
        self.engine: EngineReport | None = None

    # -- what should run

    def put(self, lease: SlotLease) -> None:
        """Run this slot, or change what it runs. A new slot goes to the lane with the fewest partitions, if possible
        one that does not starve."""
        key = (lease.flow, lease.slot)
        lane = self._lane_of(key) or min(self._lanes, key=lambda lane: lane.preference)
        if lane.slots.get(key) != lease:
            lane.slots[key] = lease
            self._bump(lane)

    def remove(self, key: SlotKey) -> None:
        """Stop this slot where it is. Drain it first if its offsets should be stored."""
        lane = self._lane_of(key)
        if lane is not None:
            del lane.slots[key]
            self._bump(lane)
            lane.removed[key] = lane.version

    def keep_warm(self, lanes: int) -> None:
        """Keep so many lanes running though they have no slots: a slot that is given to one begins at once."""
        if lanes != self._warm:
            self._warm = lanes
            for lane in self._lanes:
                self._bump(lane)

    def move(self, lease: SlotLease, now: float) -> None:
        """Run this slot in a lane that has an executor, under this lease, if its own is still in vain waiting."""
        key = (lease.flow, lease.slot)
        lane = self._lane_of(key)
        if lane is None or not self._waits_in_vain(lane, now):
            return
        lane.starved_until = now + STARVED_FOR_S
        del lane.slots[key]
        if not lane.slots:
            self._restart(lane, None, now)  # a new token: should it start after all, it gets no lease
        other = min((one for one in self._lanes if one.session is not None), key=lambda lane: lane.preference)
        other.slots[key] = lease
        self._bump(other)

    def drain(self) -> None:
        """Let every slot finish what is in flight and store its offsets."""
        for lane in self._lanes:
            for key, lease in lane.slots.items():
                lane.slots[key] = replace(lease, drain=True)
            self._bump(lane)

    def end(self) -> None:
        """Let every lane leave."""
        self._ending = True
        for lane in self._lanes:
            self._bump(lane)

    # -- what lanes say

    def slots_of(self, lane_number: int) -> tuple[SlotKey, ...]:
        """The slots a lane should run."""
        return tuple(self._lane(lane_number).slots)

    def grant(self, lane_number: int, request: LeaseRequest, now: float) -> str:
        """Give the lane to this attempt; returns the session secret. Raises LeaseRefusedError.

        The same process may ask again while it has not reported anything: its first answer was lost.
        """
        lane = self._lane(lane_number)
        again = request.attempt == lane.attempt and request.pid == lane.pid and lane.progress is None
        if not compare_digest(request.token, lane.token) or not (request.attempt > lane.attempt or again):
            raise LeaseRefusedError(f"lane {lane_number}: another run has the lease")
        session = self._new_secret()
        lane.begin(session, request.attempt, request.pid, now)
        return session

    def check(self, lane_number: int, session: str) -> None:
        """Raises LeaseRefusedError when ``session`` is not the lane's."""
        held = self._lane(lane_number).session
        if held is None or not compare_digest(session, held):
            raise LeaseRefusedError(f"lane {lane_number}: another run has the lease")

    def lane_report(self, lane_number: int, session: str, progress: LaneProgress, now: float) -> bool:
        """Take a lane's progress; whether it says anything new. Raises LeaseRefusedError when its session is void."""
        self.check(lane_number, session)
        return self._lane(lane_number).take(progress, now)

    def lane_orders(self, lane_number: int) -> LaneOrders:
        """Everything this lane should be running."""
        lane = self._lane(lane_number)
        return LaneOrders(
            version=lane.version,
            slots=tuple(lane.slots.values()),
            end=self._ending or not self._wanted(lane),
            buffer_bytes=self._buffer_bytes,
        )

    # -- what the engine says

    def engine_report(self, report: EngineReport, now: float) -> None:
        """Take the engine's report: jobs that ended get a new token after their waiting time."""
        self.engine = report
        for lane in self._lanes:
            lane.unplaced = lane.number in report.unplaced
        for end in report.ended:
            lane = self._lane(end.lane)
            if end.token == lane.token:
                self._restart(lane, end.error, now)

    def engine_lost(self, now: float) -> None:
        """The engine process is gone and all its lanes with it."""
        self.engine = None
        for lane in self._lanes:
            if lane.session is not None or lane.ordered_at is not None:
                self._restart(lane, None, now)
                lane.not_before = now  # the engine's own restart waits already

    def expire(self, now: float) -> list[str]:
        """Take the lease from lanes not heard of for too long, and find those that wait for Spark; returns a sentence
        for each, once."""
        said = []
        for lane in self._lanes:
            if lane.starved_until is not None and now > lane.starved_until:
                lane.starved_until = None
            if lane.session is not None and lane.heard_at is not None and now - lane.heard_at > LEASE_SECONDS:
                sentence = f"lane {lane.number} was not heard of for {LEASE_SECONDS:.0f} s: it is started again"
                self._restart(lane, sentence, now)
            elif lane.unplaced and lane.heard_at is not None and now - lane.heard_at > LOST_AFTER_S:
                sentence = f"lane {lane.number} lost its executor, and there is no other: it is started again"
                self._restart(lane, sentence, now)
            elif lane.session is not None or lane.ordered_at is None:
                continue
            elif self._is_unplaced(lane):
                if now - lane.ordered_at <= SAID_AFTER_S:
                    continue
                given = self.engine.executors if self.engine is not None else 0
                sentence = f"lane {lane.number}: {no_executor(self._cluster, given)}"
                if lane.error == sentence:
                    continue
                lane.error = sentence
            elif now - lane.ordered_at > START_WITHIN_S:
                sentence = f"lane {lane.number} did not start within {START_WITHIN_S:.0f} s: it is started again"
                self._restart(lane, sentence, now)
            else:
                continue
            said.append(sentence)
        return said

    def in_vain(self, now: float) -> tuple[SlotKey, ...]:
        """Slots whose lane waits for an executor while other lanes have one: to be moved there."""
        return tuple(key for lane in self._lanes if self._waits_in_vain(lane, now) for key in lane.slots)

    def _waits_in_vain(self, lane: Lane, now: float) -> bool:
        if not self._is_unplaced(lane) or lane.ordered_at is None:
            return False
        began = [one.granted_at for one in self._lanes if one.granted_at is not None]
        return bool(began) and now - max(lane.ordered_at, *began) > MOVED_AFTER_S

    def _is_unplaced(self, lane: Lane) -> bool:
        return self._cluster is not None and lane.session is None and lane.unplaced

    def engine_orders(self, now: float) -> EngineOrders:
        """The lanes the engine should be running now."""
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

    # -- what is known

    def progress(self, key: SlotKey) -> LaneWord | None:
        """The last report about a slot; None when its lane has not said anything yet."""
        lane = self._lane_of(key)
        return None if lane is None else lane.word(key)

    def trouble(self, key: SlotKey) -> str | None:
        """Why the lane of a slot does not run, if it is known."""
        lane = self._lane_of(key)
        return None if lane is None else lane.error

    def idle(self, key: SlotKey) -> bool:
        """Whether the slot's lane has not begun it, and will not under its present orders if they are to drain it."""
        lane = self._lane_of(key)
        if lane is None or lane.session is None:
            return True
        return lane.current and key not in lane.words

    def runs(self, key: SlotKey) -> bool:
        """Whether some lane may be running the slot, whatever its orders are."""
        return any(lane.may_run(key) for lane in self._lanes)

    @property
    def alive(self) -> bool:
        """Whether a lane runs and has spoken."""
        return any(lane.session is not None and lane.progress is not None for lane in self._lanes)

    def lane_has(self, key: SlotKey) -> bool:
        """Whether the slot is among a lane's orders."""
        return self._lane_of(key) is not None

    @property
    def drained(self) -> bool:
        """Whether every slot that runs somewhere has reported that it is drained."""
        return all(lane.drained for lane in self._lanes)

    def _lane(self, number: int) -> Lane:
        if not 0 <= number < len(self._lanes):
            raise LeaseRefusedError(f"there is no lane {number}")
        return self._lanes[number]

    def _lane_of(self, key: SlotKey) -> Lane | None:
        return next((lane for lane in self._lanes if key in lane.slots), None)

    def _wanted(self, lane: Lane) -> bool:
        return bool(lane.slots) or lane.number < self._warm

    def _bump(self, lane: Lane) -> None:
        lane.version += 1
        self._version += 1

    def _restart(self, lane: Lane, error: str | None, now: float) -> None:
        lane.end(self._new_secret(), error, now, wanted=self._wanted(lane))
        self._bump(lane)
