"""Lanes of a Spark cluster that wait for an executor."""

from __future__ import annotations

import pytest

from mm2.core.lanes.engine_orders import EngineReport
from mm2.core.lanes.lease import LeaseRefusedError, LeaseRequest
from mm2.node.engine.lane_board import START_WITHIN_S, LaneBoard
from mm2.node.engine.lane_placement import LOG_AFTER_S, LOST_AFTER_S, MOVED_AFTER_S, STARVED_FOR_S
from tests.unit.node.engine.lane_boards import (
    FLOW,
    grant,
    new_board,
    report,
    source_task_lease,
    token,
)

MASTER = "spark://spark:7077"


def board_of_cluster(lanes: int = 2) -> LaneBoard:
    return new_board(lanes, cluster=MASTER)


def engine_says(board: LaneBoard, now: float, *, executors: int, unplaced: tuple[int, ...]) -> None:
    report = EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None, executors=executors, unplaced=unplaced)
    board.engine_report(report, now)


def test_a_lane_without_an_executor_is_reported_once_and_not_restarted() -> None:
    board = board_of_cluster()
    board.put(source_task_lease(0))
    old = token(board, 0)
    engine_says(board, 1.0, executors=0, unplaced=(0,))
    assert board.expire(LOG_AFTER_S) == []
    (message,) = board.expire(LOG_AFTER_S + 1)
    assert f"lane 0: Spark master {MASTER} has started no executor within 10 s" in message
    assert board.last_error((FLOW, 0)) == message
    assert board.expire(START_WITHIN_S + 1) == []
    assert token(board, 0) == old


def test_a_lane_without_a_further_executor_is_reported() -> None:
    board = board_of_cluster()
    board.put(source_task_lease(0))
    board.put(source_task_lease(1))
    token(board, 0)
    engine_says(board, 1.0, executors=1, unplaced=(1,))
    (message,) = board.expire(LOG_AFTER_S + 1)
    assert message.endswith(
        "has started 1 executor, but none for this lane within 10 s; add workers or lower mm2.lanes"
    )
    engine_says(board, 12.0, executors=2, unplaced=(1,))
    assert "has started 2 executors" in board.expire(LOG_AFTER_S + 2)[0]
    report(board, 1, grant(board, 1, 20.0), 20.0)
    assert board.last_error((FLOW, 1)) is None


def test_source_tasks_move_away_from_a_lane_without_an_executor() -> None:
    board = board_of_cluster()
    board.put(source_task_lease(0))
    board.put(source_task_lease(1))
    late = token(board, 1)
    session = grant(board, 0, 10.0)
    engine_says(board, 10.0, executors=1, unplaced=(1,))
    assert board.source_tasks_to_move(10.0 + MOVED_AFTER_S) == (), "executors come one by one"
    assert board.source_tasks_to_move(11.0 + MOVED_AFTER_S) == ((FLOW, 1),)
    board.move(source_task_lease(1), 11.0 + MOVED_AFTER_S)
    assert board.source_tasks_of(0) == ((FLOW, 0), (FLOW, 1))
    assert [start.lane for start in board.engine_orders(30.0).lanes] == [0]
    with pytest.raises(LeaseRefusedError):
        board.grant(1, LeaseRequest(token=late, nonce="n"), 30.0)
    report(board, 0, session, 30.0)


def test_a_source_task_whose_lane_got_an_executor_meanwhile_stays() -> None:
    board = board_of_cluster()
    board.put(source_task_lease(0))
    board.put(source_task_lease(1))
    token(board, 1)
    grant(board, 0, 0.0)
    engine_says(board, 1.0, executors=1, unplaced=(1,))
    (moving,) = board.source_tasks_to_move(MOVED_AFTER_S + 1)
    grant(board, 1, MOVED_AFTER_S + 1)
    board.move(source_task_lease(moving[1]), MOVED_AFTER_S + 2)
    board.remove((FLOW, 0))
    board.move(source_task_lease(0), MOVED_AFTER_S + 2)
    assert (board.source_tasks_of(0), board.source_tasks_of(1)) == ((), ((FLOW, 1),))


def test_no_source_task_moves_while_no_lane_runs() -> None:
    board = board_of_cluster()
    board.put(source_task_lease(0))
    token(board, 0)
    engine_says(board, 1.0, executors=0, unplaced=(0,))
    assert board.source_tasks_to_move(1000.0) == ()


def test_new_source_tasks_avoid_a_lane_that_got_no_executor() -> None:
    board = board_of_cluster()
    board.put(source_task_lease(0))
    board.put(source_task_lease(1))
    token(board, 1)
    session = grant(board, 0, 0.0)
    engine_says(board, 1.0, executors=1, unplaced=(1,))
    moved_at = MOVED_AFTER_S + 1
    board.move(source_task_lease(1), moved_at)
    board.put(source_task_lease(2))
    assert board.source_tasks_of(1) == ()
    report(board, 0, session, moved_at + STARVED_FOR_S)
    board.expire(moved_at + STARVED_FOR_S + 1)
    board.put(source_task_lease(3))
    assert board.source_tasks_of(1) == ((FLOW, 3),)


def test_a_silent_lane_without_an_executor_is_restarted_early() -> None:
    board = board_of_cluster()
    board.put(source_task_lease(0))
    session = grant(board, 0)
    report(board, 0, session, 5.0)
    engine_says(board, 5.0, executors=0, unplaced=(0,))
    assert board.expire(5.0 + LOST_AFTER_S) == [], "Spark's word may be older than the lease"
    (message,) = board.expire(6.0 + LOST_AFTER_S)
    assert "lane 0: executor lost" in message
    with pytest.raises(LeaseRefusedError):
        board.check(0, session)
