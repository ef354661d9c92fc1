"""What a node does next with a source task. Letters refer to `mm2.core.lanes.source_task_steps`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.lanes.source_task_steps import (
    HEALTHY_AFTER_S,
    RESTART_FAILED_S,
    TRANSITIONS,
    LaneView,
    SourceTaskRestarts,
    SourceTaskState,
    SourceTaskView,
    StepKind,
    next_step,
)

ASSIGNED, FENCING, AWAITS_EXECUTOR, LEASED, RUNNING, DRAINING, ABANDONED, RELEASED = SourceTaskState
NEW = SourceTaskView(state=ASSIGNED, since=0.0)
LISTED = replace(NEW, is_listed=True, is_due=True)
GRANTED = replace(LISTED, state=LEASED, is_leased=True, is_due=False, is_used=True, stores_release=True)
DRAINS = replace(GRANTED, state=DRAINING)
WITHOUT_LANE = LaneView()
ORDERED = LaneView(has_orders=True)
STARTED = LaneView(has_orders=True, is_started=True, is_idle=False, may_run=True)
REPORTED = replace(STARTED, is_reported=True, is_current=True)
STOPPING = LaneView(may_run=True)  # removed from the orders of a lane that runs it
DRAINED = replace(REPORTED, has_drained=True, may_run=False)
DRAIN_WITHIN_S = 5.0


def step(task: SourceTaskView, lane: LaneView, *, now: float = 0.0) -> tuple[StepKind, SourceTaskState]:
    found = next_step(task, lane, now, drain_within_s=DRAIN_WITHIN_S)
    assert found.state in (task.state, *TRANSITIONS[task.state])
    assert (found.reason is None) == (found.state in (RUNNING, RELEASED))
    return found.kind, found.state


@pytest.mark.parametrize(
    ("task", "lane", "expected"),
    [
        (NEW, WITHOUT_LANE, (StepKind.WAIT, ASSIGNED)),
        (LISTED, STOPPING, (StepKind.WAIT, ASSIGNED)),  # B
        (LISTED, WITHOUT_LANE, (StepKind.FENCE, FENCING)),  # A
        (replace(LISTED, awaits_leader=True, has_producer=True), WITHOUT_LANE, (StepKind.WAIT, ASSIGNED)),  # A
        (replace(LISTED, state=FENCING, has_producer=True), WITHOUT_LANE, (StepKind.GRANT, LEASED)),
        (replace(NEW, state=FENCING), WITHOUT_LANE, (StepKind.WAIT, ASSIGNED)),
    ],
)
def test_before_the_first_lease(
    task: SourceTaskView, lane: LaneView, expected: tuple[StepKind, SourceTaskState]
) -> None:
    assert step(task, lane) == expected


@pytest.mark.parametrize(
    ("task", "lane", "expected"),
    [
        (GRANTED, ORDERED, (StepKind.WAIT, AWAITS_EXECUTOR)),
        (replace(GRANTED, state=AWAITS_EXECUTOR), STARTED, (StepKind.WAIT, AWAITS_EXECUTOR)),
        (replace(GRANTED, state=FENCING), STARTED, (StepKind.WAIT, FENCING)),
        (GRANTED, STARTED, (StepKind.WAIT, LEASED)),
        (GRANTED, replace(REPORTED, is_current=False), (StepKind.WAIT, LEASED)),
        (GRANTED, REPORTED, (StepKind.WAIT, RUNNING)),
        (replace(GRANTED, state=RUNNING), replace(REPORTED, is_current=False), (StepKind.WAIT, RUNNING)),
        (replace(GRANTED, state=RUNNING), ORDERED, (StepKind.WAIT, AWAITS_EXECUTOR)),
        (replace(GRANTED, state=RUNNING, is_listed=False, is_due=True), REPORTED, (StepKind.WAIT, RUNNING)),
    ],
)
def test_while_its_lease_is_as_it_has_to_be(
    task: SourceTaskView, lane: LaneView, expected: tuple[StepKind, SourceTaskState]
) -> None:
    assert step(task, lane) == expected


def test_another_list_needs_no_fencing_and_another_run_does() -> None:
    task = replace(GRANTED, state=RUNNING, is_due=True)
    assert step(task, REPORTED) == (StepKind.GRANT, LEASED)
    restarted = replace(task, restarts=True)
    assert step(restarted, REPORTED) == (StepKind.FENCE, FENCING)
    assert step(replace(restarted, awaits_leader=True), REPORTED) == (StepKind.WAIT, FENCING)
    assert step(replace(restarted, has_producer=True), REPORTED) == (StepKind.GRANT, LEASED)


@pytest.mark.parametrize(
    ("task", "lane", "expected"),
    [
        (DRAINS, REPORTED, (StepKind.WAIT, DRAINING)),
        (DRAINS, DRAINED, (StepKind.STORE_RELEASE, DRAINING)),
        (replace(DRAINS, release_stored=False), DRAINED, (StepKind.WAIT, DRAINING)),
        (replace(DRAINS, release_stored=True), DRAINED, (StepKind.RELEASE, RELEASED)),
        (replace(DRAINS, stores_release=False), DRAINED, (StepKind.RELEASE, RELEASED)),
        (replace(DRAINS, is_used=False), ORDERED, (StepKind.STORE_RELEASE, DRAINING)),
        (DRAINS, ORDERED, (StepKind.RELEASE, RELEASED)),  # the lane that wrote was lost: the next owner has to fence it
        (replace(NEW, state=DRAINING), WITHOUT_LANE, (StepKind.RELEASE, RELEASED)),
        (replace(DRAINS, state=ABANDONED), STOPPING, (StepKind.WAIT, ABANDONED)),  # C
        (replace(DRAINS, state=ABANDONED), WITHOUT_LANE, (StepKind.RELEASE, RELEASED)),
        (replace(DRAINS, state=ABANDONED), REPORTED, (StepKind.ABANDON, ABANDONED)),
    ],
)
def test_the_end(task: SourceTaskView, lane: LaneView, expected: tuple[StepKind, SourceTaskState]) -> None:
    assert step(task, lane) == expected


def test_one_that_does_not_drain_in_time_is_stopped_and_then_released() -> None:
    late = DRAIN_WITHIN_S + 0.1
    assert step(DRAINS, REPORTED, now=DRAIN_WITHIN_S) == (StepKind.WAIT, DRAINING)
    assert step(DRAINS, REPORTED, now=late) == (StepKind.ABANDON, ABANDONED)
    assert step(DRAINS, STOPPING, now=late) == (StepKind.WAIT, DRAINING)  # its lane was told to stop it
    assert step(DRAINS, DRAINED, now=late) == (StepKind.RELEASE, RELEASED)


# -- restarts


def delay(restarts: SourceTaskRestarts, now: float) -> float:
    """Return how long after its failure at ``now`` the source task is restarted, to a tenth of a second."""
    assert not restarts.is_due(now, has_failed=True)  # not yet
    tenths = next(tenths for tenths in range(1, 1_000) if restarts.is_due(now + tenths / 10, has_failed=True))
    restarts.restarted(now + tenths / 10)
    return tenths / 10


def test_delays_grow_while_it_fails_again_and_again() -> None:
    restarts = SourceTaskRestarts()
    delays, now = [], 1_000.0
    for _ in range(7):
        delays.append(delay(restarts, now))
        now += delays[-1] + 5
    assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, RESTART_FAILED_S, RESTART_FAILED_S]
    assert restarts.count == 7


def test_a_failure_after_a_while_is_a_first_one() -> None:
    restarts = SourceTaskRestarts()
    assert delay(restarts, 0.0) == 1.0
    assert delay(restarts, 10.0) == 2.0
    assert delay(restarts, 20.0 + HEALTHY_AFTER_S) == 1.0


def test_a_source_task_that_runs_is_not_restarted() -> None:
    restarts = SourceTaskRestarts()
    assert not restarts.is_due(0.0, has_failed=True)
    assert not restarts.is_due(0.5, has_failed=False)
    assert not restarts.is_due(1.2, has_failed=True), "this failure has just been seen"


def test_a_requested_restart_is_due_at_once() -> None:
    restarts = SourceTaskRestarts()
    restarts.request("by an operator")
    assert restarts.is_due(0.0, has_failed=False)
    restarts.restarted(0.0)
    assert not restarts.is_due(0.1, has_failed=False)
