"""Whether a lane is idle, or possibly runs a source task, by the orders and reports of the lane board."""

from __future__ import annotations

from dataclasses import replace

from mm2.core.lanes.progress_reports import LaneProgress, SourceTaskProgress
from mm2.core.lanes.source_task_steps import LaneView
from mm2.core.lanes.task_states import TaskState
from mm2.node.engine.lane_board import LEASE_SECONDS
from tests.unit.node.engine.lane_boards import (
    FLOW,
    carried_out,
    grant,
    new_board,
    source_task_lease,
)


def test_a_source_task_is_idle_until_a_lane_has_started_it() -> None:
    board = new_board(lanes=1)
    key = (FLOW, 0)
    assert board.idle(key)
    assert not board.lane_has(key)
    board.put(source_task_lease(0))
    assert board.lane_has(key)
    assert board.idle(key)
    session = grant(board, 0)
    assert not board.idle(key)  # the lane has its orders, and has possibly started it
    carried_out(board, 0, session)
    assert board.idle(key)  # the lane drained the source task before it had started
    carried_out(board, 0, session, 0)
    assert not board.idle(key)
    board.put(source_task_lease(1))
    carried_out(board, 0, session)
    board.put(source_task_lease(2))
    assert not board.idle(key)  # that was about older orders


def test_whether_a_lane_is_possibly_running_a_source_task() -> None:
    board = new_board(lanes=1)
    key = (FLOW, 0)
    board.put(source_task_lease(0))
    assert not board.runs(key)
    session = grant(board, 0)
    assert board.runs(key)
    assert not board.runs((FLOW, 1))
    carried_out(board, 0, session, 0)
    assert board.runs(key)
    carried_out(board, 0, session, 0, drained=True)
    assert not board.runs(key)


def test_a_source_task_delivered_to_a_running_lane_possibly_runs_until_it_is_reported() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(0))
    session = grant(board, 0)
    carried_out(board, 0, session, 0)
    board.put(source_task_lease(1))
    before = board.lane_orders(0).version - 1
    assert board.runs((FLOW, 1))  # delivered with the orders, while the lane's last report is about older ones
    board.lane_report(0, session, LaneProgress(version=before, pid=1), 2.0)
    assert board.runs((FLOW, 1))
    carried_out(board, 0, session, 0)
    assert not board.runs((FLOW, 1))  # it was to be drained before it had started
    carried_out(board, 0, session, 0, 1)
    assert board.runs((FLOW, 1))


def test_a_removed_source_task_possibly_runs_until_the_lane_has_stopped_it() -> None:
    board = new_board(lanes=1)
    key = (FLOW, 0)
    board.put(source_task_lease(0))
    session = grant(board, 0)
    board.remove(key)
    assert not board.lane_has(key)
    assert board.runs(key)  # it was in the first orders, and there is no report yet
    carried_out(board, 0, session)
    assert not board.runs(key)

    board.put(source_task_lease(0))
    before = board.lane_orders(0).version
    board.remove(key)
    board.lane_report(0, session, LaneProgress(version=before, pid=1), 2.0)  # sent before it started the source task
    assert board.runs(key)
    carried_out(board, 0, session)
    assert not board.runs(key)


def test_a_lane_that_lost_its_lease_runs_nothing() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(0))
    session = grant(board, 0)
    carried_out(board, 0, session, 0)
    board.remove((FLOW, 0))
    board.keep_running(1)
    board.expire(1.0 + LEASE_SECONDS + 1)
    assert not board.runs((FLOW, 0))
    again = grant(board, 0, now=100.0)
    assert not board.runs((FLOW, 0))
    carried_out(board, 0, again)
    assert board.alive


def test_a_source_task_has_no_state_before_the_first_report() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(0))
    assert board.progress((FLOW, 0)) is None
    session = grant(board, 0)
    assert board.progress((FLOW, 0)) is None
    carried_out(board, 0, session)
    assert board.progress((FLOW, 0)) is None
    carried_out(board, 0, session, 1, 0)
    word = board.progress((FLOW, 0))
    assert word is not None
    assert (word.session, word.current, word.source_task.source_task) == (session, True, 0)
    board.keep_running(1)
    word = board.progress((FLOW, 0))
    assert word is not None
    assert not word.current


def test_what_the_lanes_know_about_a_source_task() -> None:
    board, key = new_board(lanes=1), (FLOW, 0)
    assert board.view(key) == LaneView()
    board.put(source_task_lease(0))
    assert board.view(key) == LaneView(has_orders=True)
    session = grant(board, 0)
    assert board.view(key) == LaneView(has_orders=True, is_started=True, is_idle=False, may_run=True)
    carried_out(board, 0, session, 0)
    running = LaneView(has_orders=True, is_started=True, is_reported=True, is_current=True, is_idle=False, may_run=True)
    assert board.view(key) == running
    board.put(source_task_lease(1))
    assert board.view(key) == replace(running, is_current=False)
    carried_out(board, 0, session, 0, drained=True)
    assert board.view(key) == replace(running, has_drained=True, may_run=False)
    failed = SourceTaskProgress(flow=FLOW, source_task=0, epoch=1, state=TaskState.FAILED)
    version = board.lane_orders(0).version
    board.lane_report(0, session, LaneProgress(version=version, pid=1, source_tasks=(failed,)), 2.0)
    assert board.view(key) == replace(running, has_failed=True)
    board.remove(key)
    assert board.view(key) == LaneView(may_run=True)
