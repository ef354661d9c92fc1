"""The states of a source task on a node, and the decision what the node does next with it.

                 the list is published          a producer is acquired           its lane has started
      ASSIGNED ─────────────────────► FENCING ──────────────────────► AWAITS_EXECUTOR ─────────► LEASED ──► RUNNING
                                         ▲                                    ▲                               │ │
                                         └──── it failed, or a restart was requested ─────────────────────────┘ │
                                                                              └──── its lane was lost ──────────┘
      each of them ──► DRAINING ──► RELEASED         revoked: it drains, and its release is stored
                          └─► ABANDONED ──► RELEASED    it did not drain in time, or the membership was lost

`TRANSITIONS` has all of them. `next_step` decides without I/O and clock; `mm2.node.source.source_task_runner` executes
what it returns, so that an incident can be replayed as a unit test.

Invariants:
(A) A lease is granted to a new owner, or to a new run, only with a producer that no run has used: earlier ones are
    fenced. With exactly-once, also only after the leader has fenced lost owners.
(B) A new owner gets no lease while a lane of the node possibly runs the source task from an earlier assignment.
(C) A source task is RELEASED only when no lane of the node can write for it any more: it has drained, has never
    started, or was stopped. Its release is stored before that, if it drained in time.
(D) One that is DRAINING or ABANDONED gets no further partitions. It is not assigned again before it is RELEASED.
(E) Every state is left when what it waits for has happened. `Step.reason` says what that is; None: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

RESTART_FAILED_S = 30.0
"""Longest delay before a source task that failed as a whole is restarted: long enough to see the error in the status,
and to use little CPU while the cause persists."""

FIRST_RESTART_S = 1.0
"""Delay before the first restart, which doubles with each further one. A broker that was away for longer than a
transaction may take has timed it out: the source task then fails once, and continues at once with a new epoch."""

HEALTHY_AFTER_S = 120.0
"""A source task that failed this long after its last restart is restarted as for the first time."""


class SourceTaskState(StrEnum):
    """What a source task on a node is waiting for, or doing.

    ASSIGNED: it has no list yet, or an earlier run has not ended. FENCING: a producer for its next run is acquired,
    which fences earlier ones. AWAITS_EXECUTOR: its lease is in the orders of a lane that Spark has not started. LEASED:
    the lane has it, and has not reported it yet. RUNNING: the lane reports it. DRAINING: it is revoked; the lane
    completes what is in flight. ABANDONED: its lane has to stop it without that. RELEASED: another node can run it.
    """

    ASSIGNED = "ASSIGNED"
    FENCING = "FENCING"
    AWAITS_EXECUTOR = "AWAITS_EXECUTOR"
    LEASED = "LEASED"
    RUNNING = "RUNNING"
    DRAINING = "DRAINING"
    ABANDONED = "ABANDONED"
    RELEASED = "RELEASED"


_ENDING = frozenset({SourceTaskState.DRAINING, SourceTaskState.ABANDONED})

TRANSITIONS: Mapping[SourceTaskState, frozenset[SourceTaskState]] = {
    SourceTaskState.ASSIGNED: frozenset({SourceTaskState.FENCING, SourceTaskState.LEASED}) | _ENDING,
    SourceTaskState.FENCING: frozenset(
        {
            SourceTaskState.ASSIGNED,  # its list has disappeared
            SourceTaskState.AWAITS_EXECUTOR,  # the lane that was to be replaced has ended again
            SourceTaskState.LEASED,
            SourceTaskState.RUNNING,  # the lane reports that it has not failed
        }
    )
    | _ENDING,
    SourceTaskState.AWAITS_EXECUTOR: frozenset(
        {SourceTaskState.FENCING, SourceTaskState.LEASED, SourceTaskState.RUNNING}
    )
    | _ENDING,
    SourceTaskState.LEASED: frozenset(
        {SourceTaskState.FENCING, SourceTaskState.AWAITS_EXECUTOR, SourceTaskState.RUNNING}
    )
    | _ENDING,
    SourceTaskState.RUNNING: frozenset(
        {SourceTaskState.FENCING, SourceTaskState.AWAITS_EXECUTOR, SourceTaskState.LEASED}
    )
    | _ENDING,
    SourceTaskState.DRAINING: frozenset({SourceTaskState.ABANDONED, SourceTaskState.RELEASED}),
    SourceTaskState.ABANDONED: frozenset({SourceTaskState.RELEASED}),
    SourceTaskState.RELEASED: frozenset(),
}
"""The states that can follow each state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskView:
    """What a node knows about one of its source tasks.

    ``since``: when it entered its ``state``, by the clock of `next_step`. ``is_listed``: the leader has published its
    list. ``is_leased``: it got a lease since it was assigned. ``is_due``: its lease is out of date, or it has to be
    restarted (``restarts``). ``awaits_leader``: the leader has to fence lost owners first. ``has_producer``: one that
    no run has used. ``stores_release``: a release can be stored with its producer, which a lane has used or not
    (``is_used``). ``release_stored``: None if none was sent.
    """

    state: SourceTaskState
    since: float
    is_listed: bool = False
    is_leased: bool = False
    is_due: bool = False
    restarts: bool = False
    awaits_leader: bool = False
    has_producer: bool = False
    is_used: bool = False
    stores_release: bool = False
    release_stored: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """What the lanes of a node know about one source task.

    ``has_orders``: a lane has orders to run it. ``is_started``: this lane has its lease. ``is_reported``: the lane has
    reported the source task, which ``has_drained`` or ``has_failed`` by that, and ``is_current``: by its newest orders.
    ``is_idle``: the lane has not started it, and will not start it if the orders drain it. ``may_run``: a lane possibly
    runs it, regardless of the orders.
    """

    has_orders: bool = False
    is_started: bool = False
    is_reported: bool = False
    is_current: bool = False
    has_drained: bool = False
    has_failed: bool = False
    is_idle: bool = True
    may_run: bool = False


class StepKind(StrEnum):
    """What a node does with a source task.

    WAIT: nothing. FENCE: acquire a producer for the next run, in the background. GRANT: read stored offsets and put a
    lease in the orders of a lane. STORE_RELEASE: store that it is released in order. ABANDON: have its lane stop it.
    RELEASE: report that it does not run here any more.
    """

    WAIT = "WAIT"
    FENCE = "FENCE"
    GRANT = "GRANT"
    STORE_RELEASE = "STORE_RELEASE"
    ABANDON = "ABANDON"
    RELEASE = "RELEASE"


@dataclass(frozen=True, slots=True)
class Step:
    """The next step of a source task, and the state that it is in when the step is executed.

    ``reason`` is a message for operators: what it waits for; None: for nothing.
    """

    kind: StepKind
    state: SourceTaskState
    reason: str | None = None


def next_step(task: SourceTaskView, lane: LaneView, now: float, *, drain_within_s: float) -> Step:
    """Return the next step of a source task. ``now`` is in seconds of a monotonic clock."""
    if task.state in _ENDING:
        return _end(task, lane, now, drain_within_s)
    if not task.is_leased and (reason := _not_ready(task, lane)) is not None:
        return _wait(SourceTaskState.ASSIGNED, reason)
    if task.is_leased and not (task.is_listed and task.is_due):
        return _rest(task, lane)
    if task.restarts or not task.is_leased:
        if task.awaits_leader:
            state = SourceTaskState.FENCING if task.is_leased else SourceTaskState.ASSIGNED
            return _wait(state, "waiting for the leader to fence earlier source tasks")
        if not task.has_producer:
            return Step(StepKind.FENCE, SourceTaskState.FENCING, "fencing its earlier owners and runs on the target")
    return Step(StepKind.GRANT, SourceTaskState.LEASED, _TO_REPORT)


_TO_REPORT = "waiting for its lane to start it"


def _wait(state: SourceTaskState, reason: str | None) -> Step:
    return Step(StepKind.WAIT, state, reason)


def _not_ready(task: SourceTaskView, lane: LaneView) -> str | None:
    """Return why nothing can be done yet for a source task that has no lease."""
    if not task.is_listed:
        return "waiting for the leader to publish its list of partitions"
    return "waiting for a lane to stop its previous run" if lane.may_run else None


def _rest(task: SourceTaskView, lane: LaneView) -> Step:
    """Nothing is to be done: its lease is as it has to be."""
    if not lane.is_started:
        return _wait(SourceTaskState.AWAITS_EXECUTOR, "waiting for a lane to start")
    if lane.is_reported and (lane.is_current or task.state is SourceTaskState.RUNNING):
        return _wait(SourceTaskState.RUNNING, None)
    if task.state in (SourceTaskState.FENCING, SourceTaskState.AWAITS_EXECUTOR) and not lane.is_reported:
        return _wait(task.state, "its lane requests its lease")
    return _wait(SourceTaskState.LEASED, _TO_REPORT)


def _end(task: SourceTaskView, lane: LaneView, now: float, drain_within_s: float) -> Step:
    is_late = task.state is SourceTaskState.ABANDONED or now - task.since > drain_within_s
    has_drained = not task.is_leased or (lane.is_reported and lane.has_drained)
    is_stopped = not lane.is_reported and lane.is_idle and not lane.may_run
    if has_drained or is_stopped:
        in_order = has_drained or not task.is_used
        if is_late or not in_order or not task.stores_release or task.release_stored:
            return Step(StepKind.RELEASE, SourceTaskState.RELEASED)
        kind = StepKind.STORE_RELEASE if task.release_stored is None else StepKind.WAIT
        return Step(kind, task.state, "waiting until its release is stored")
    if is_late and lane.has_orders:
        return Step(StepKind.ABANDON, SourceTaskState.ABANDONED, _TO_STOP)
    if task.state is SourceTaskState.ABANDONED:
        return _wait(task.state, _TO_STOP)
    return _wait(task.state, "waiting until records in flight are acknowledged and their offsets stored")


_TO_STOP = "waiting for its lane to stop it"


@dataclass(slots=True)
class SourceTaskRestarts:
    """When a source task that failed as a whole is restarted, and why.

    ``count``: restarts since it was assigned. ``requested``: why a restart was requested. ``failed_at``: when it was
    first seen that it has failed; ``in_a_row``: restarts after failures, the last of them at ``restarted_at``; in
    seconds of a monotonic clock.
    """

    count: int = 0
    requested: str | None = None
    failed_at: float | None = None
    in_a_row: int = 0
    restarted_at: float = float("-inf")

    def is_due(self, now: float, *, has_failed: bool) -> bool:
        """Return whether a restart was requested, or the source task ``has_failed`` and its delay is over."""
        if self.requested is not None:
            return True
        if not has_failed:
            self.failed_at = None
            return False
        if self.failed_at is None:
            self.failed_at = now
        if self.failed_at - self.restarted_at >= HEALTHY_AFTER_S:
            self.in_a_row = 0
        return now - self.failed_at >= min(FIRST_RESTART_S * float(2**self.in_a_row), RESTART_FAILED_S)

    def request(self, reason: str) -> None:
        """Let the next lease restart the source task."""
        self.requested = reason

    def restarted(self, now: float) -> None:
        """A lease was granted that restarts the source task."""
        self.count += 1
        self.in_a_row = min(self.in_a_row + 1, 10)
        self.restarted_at = now
        self.failed_at = self.requested = None
