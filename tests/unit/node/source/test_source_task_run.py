"""When a source task that failed as a whole is restarted."""

from __future__ import annotations

from mm2.core.lanes.progress_reports import SourceTaskProgress
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow
from mm2.node.engine.managed_lane import LaneState
from mm2.node.source.source_task_run import HEALTHY_AFTER_S, RESTART_FAILED_S, RESTART_NOW, SourceTaskRun


def lane(state: TaskState) -> LaneState:
    progress = SourceTaskProgress(flow=Flow("A", "B"), source_task=0, epoch=1, state=state, partitions=())
    return LaneState(session="", current=True, source_task=progress, states={}, running=frozenset())


FAILED, RUNNING = lane(TaskState.FAILED), lane(TaskState.RUNNING)


def delay(run: SourceTaskRun, now: float) -> float:
    """Return how long after its failure at ``now`` the source task is restarted, to a tenth of a second."""
    assert not run.restart_is_due(FAILED, now)  # not yet
    tenths = next(tenths for tenths in range(1, 1_000) if run.restart_is_due(FAILED, now + tenths / 10))
    run.restarted(now + tenths / 10)
    return tenths / 10


def test_delays_grow_while_it_fails_again_and_again() -> None:
    run = SourceTaskRun(source_task=0, epoch=1)
    delays, now = [], 1_000.0
    for _ in range(7):
        delays.append(delay(run, now))
        now += delays[-1] + 5
    assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, RESTART_FAILED_S, RESTART_FAILED_S]
    assert run.restart == 7


def test_a_failure_after_a_while_is_a_first_one() -> None:
    run = SourceTaskRun(source_task=0, epoch=1)
    assert delay(run, 0.0) == 1.0
    assert delay(run, 10.0) == 2.0
    assert delay(run, 20.0 + HEALTHY_AFTER_S) == 1.0


def test_a_source_task_that_runs_is_not_restarted() -> None:
    run = SourceTaskRun(source_task=0, epoch=1)
    assert not run.restart_is_due(FAILED, 0.0)
    assert not run.restart_is_due(RUNNING, 0.5)
    assert not run.restart_is_due(None, 0.5)
    assert not run.restart_is_due(FAILED, 1.2), "this failure has just been seen"


def test_a_requested_restart_is_due_at_once() -> None:
    run = SourceTaskRun(source_task=0, epoch=1, failed_at=RESTART_NOW)
    assert run.restart_is_due(RUNNING, 0.0)
    run.restarted(0.0)
    assert not run.restart_is_due(RUNNING, 0.1)
