"""SQL lanes on the lane board: each runs source tasks of one query, and is not started if Spark rejects the query."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mm2.core.lanes.engine_orders import EngineReport, EngineRole, LaneEnd
from mm2.core.lanes.lease import LeaseRefusedError, LeaseRequest
from mm2.core.lanes.progress_reports import LaneProgress
from mm2.core.naming.names import Flow
from mm2.node.engine.lane_board import LEASE_SECONDS, LaneBoard
from mm2.node.engine.lane_placement import MOVED_AFTER_S, STARVED_FOR_S
from mm2.node.engine.managed_lane import HEALTHY_AFTER_S, QUERY_START_S
from tests.unit.node.engine.lane_boards import (
    FLOW,
    carried_out,
    ended,
    grant,
    lane_query,
    new_board,
    source_task_lease,
    starts,
    token,
)

MASK, KEYS = lane_query("mask"), lane_query("keys")
OTHER = Flow("C", "D")


def placed(board: LaneBoard) -> dict[int, list[int]]:
    """The source tasks of the lanes that the engine is to run."""
    for number in range(4):  # they start one after the other
        lanes = [start.lane for start in starts(board, 1_000.0 + number * (QUERY_START_S + 1))]
    return {lane: [source_task for _, source_task in board.source_tasks_of(lane)] for lane in lanes}


def test_each_query_of_a_flow_has_lanes_of_its_own() -> None:
    board = new_board(lanes=2)
    board.put(source_task_lease(0))
    board.put(source_task_lease(4, query=MASK))
    board.put(source_task_lease(8, query=KEYS))
    board.put(source_task_lease(4, query=MASK, flow=OTHER))
    assert placed(board) == {0: [0], 2: [4], 3: [8], 4: [4]}
    assert {start.lane: (start.description, start.query) for start in starts(board, 2_000.0)} == {
        0: ("lane 0", None),
        2: ("A->B lane 2", MASK),
        3: ("A->B lane 3", KEYS),
        4: ("C->D lane 4", MASK),
    }


def test_another_text_is_another_query() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(1, query=MASK))
    board.put(source_task_lease(2, query=lane_query("mask", "SELECT lower(value) AS value FROM records")))
    assert placed(board) == {1: [1], 2: [2]}


def test_at_most_as_many_lanes_as_configured_for_each_query_with_the_fewest_partitions_first() -> None:
    board = new_board(lanes=2)
    for number, partitions in ((4, 1), (5, 10), (6, 1), (7, 1)):
        board.put(source_task_lease(number, partitions, query=MASK))
    assert placed(board) == {2: [4, 6, 7], 3: [5]}


def test_a_source_task_keeps_its_lane_when_its_lease_changes() -> None:
    board = new_board(lanes=2)
    board.put(source_task_lease(4, query=MASK))
    board.put(source_task_lease(4, 3, query=MASK))
    assert placed(board) == {2: [4]}
    assert len(board.lane_orders(2).source_tasks[0].partitions) == 3


def test_a_source_task_cannot_change_its_query_while_it_has_a_lane() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(4, query=MASK))
    for query in (None, KEYS):
        with pytest.raises(ValueError, match="source task 4 has another query than lane 1"):
            board.put(source_task_lease(4, query=query))
    board.remove((FLOW, 4))
    board.put(source_task_lease(4, query=KEYS))
    assert placed(board) == {1: [4]}


def test_a_lane_whose_query_is_gone_ends_before_its_number_is_used_again() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(4, query=MASK))
    session = grant(board, 1)
    carried_out(board, 1, session, 4)
    board.remove((FLOW, 4))
    assert board.lane_orders(1).end
    assert board.runs((FLOW, 4))
    board.put(source_task_lease(8, query=KEYS))
    assert placed(board) == {1: [], 2: [8]}
    carried_out(board, 1, session)
    assert not board.runs((FLOW, 4))
    ended(board, 1)
    with pytest.raises(LeaseRefusedError, match="there is no lane 1"):
        board.check(1, session)
    board.put(source_task_lease(5, query=MASK))
    assert placed(board) == {1: [5], 2: [8]}
    with pytest.raises(LeaseRefusedError):
        board.check(1, session)


def test_a_lane_that_has_not_started_is_forgotten_with_its_last_source_task() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(4, query=MASK))
    first = token(board, 1)
    board.remove((FLOW, 4))
    assert placed(board) == {}
    end = LaneEnd(lane=1, token=first, error="cancelled")
    report = EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None, ended=(end,))
    board.engine_report(report, 1.0, EngineRole.QUERIES)
    board.put(source_task_lease(5, query=MASK))
    with pytest.raises(LeaseRefusedError):
        board.grant(1, LeaseRequest(token=first, nonce="n"), 2.0)
    board.engine_report(report, 3.0, EngineRole.QUERIES)
    assert board.last_error((FLOW, 5)) is None, "the end of the lane that had the number before"


def test_idle_lanes_are_forgotten_with_their_lease_or_their_engine() -> None:
    board = new_board(lanes=1)
    losses: tuple[Callable[[], object], ...] = (
        lambda: board.expire(LEASE_SECONDS + 1),
        lambda: board.engine_lost(1.0, engine=EngineRole.QUERIES),
    )
    for lose in losses:
        board.put(source_task_lease(4, query=MASK))
        session = grant(board, 1)
        board.remove((FLOW, 4))
        assert placed(board) == {1: []}
        lose()
        assert placed(board) == {}
        with pytest.raises(LeaseRefusedError):
            board.check(1, session)


def test_only_plain_lanes_are_kept_running() -> None:
    board = new_board(lanes=2)
    board.keep_running(5)
    board.put(source_task_lease(4, query=MASK))
    assert placed(board) == {0: [], 1: [], 2: [4]}
    session = grant(board, 2)
    board.remove((FLOW, 4))
    assert board.lane_orders(2).end
    board.check(2, session)


def test_a_rejected_query_fails_its_source_tasks_and_is_not_tried_again() -> None:
    board = new_board(lanes=2)
    board.put(source_task_lease(0))
    board.put(source_task_lease(4, query=MASK))
    assert board.refused((FLOW, 4)) is None
    ended(board, 2, "no function fo", refused=True)
    message = "query mask cannot run: no function fo"
    assert (board.refused((FLOW, 4)), board.last_error((FLOW, 4))) == (message, message)
    board.put(source_task_lease(5, query=MASK))
    board.put(source_task_lease(8, query=KEYS))
    board.engine_lost(500.0, engine=EngineRole.QUERIES)
    assert placed(board) == {0: [0], 3: [8]}
    assert [board.refused((FLOW, number)) for number in (0, 4, 5, 8, 9)] == [None, message, message, None, None]
    assert board.idle((FLOW, 4))
    assert board.drained


def test_another_query_or_a_restart_is_tried() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(4, query=MASK))
    board.put(source_task_lease(5, query=MASK))
    ended(board, 1, "no function fo", refused=True)
    board.put(source_task_lease(4, 2, query=MASK))
    assert board.refused((FLOW, 4)) is not None
    board.put(source_task_lease(4, query=MASK, restart=1))
    assert board.refused((FLOW, 5)) is None
    assert placed(board) == {1: [4, 5]}
    ended(board, 1, "no function fo", refused=True, now=1_000.0)
    for number in (4, 5):
        board.remove((FLOW, number))
    board.put(source_task_lease(4, query=KEYS))
    assert (placed(board), board.refused((FLOW, 4))) == ({1: [4]}, None)


def test_a_lane_that_fails_otherwise_is_restarted() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(4, query=MASK))
    ended(board, 1, "lost")
    assert (board.refused((FLOW, 4)), board.last_error((FLOW, 4))) == (None, "lost")
    assert placed(board) == {1: [4]}


def test_a_plain_lane_is_never_refused() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(0))
    ended(board, 0, "odd", refused=True)
    assert placed(board) == {0: [0]}


def test_source_tasks_move_only_to_lanes_of_their_query() -> None:
    board = new_board(lanes=2, cluster="spark://s:7077")
    board.put(source_task_lease(0))
    board.put(source_task_lease(4, query=MASK))
    board.put(source_task_lease(5, query=MASK))
    for lane in (0, 2):
        token(board, lane)
    board.engine_report(EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None, executors=1, unplaced=(2,)), 0.0)
    token(board, 3)
    grant(board, 0, 1.0)
    report = EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None, executors=1, unplaced=(2, 3))
    board.engine_report(report, 1.0)
    assert board.source_tasks_to_move(100.0) == ()
    grant(board, 2, 100.0)
    now = 101.0 + MOVED_AFTER_S
    assert board.source_tasks_to_move(now) == ((FLOW, 5),)
    board.move(source_task_lease(5, query=MASK), now)
    assert board.source_tasks_of(2) == ((FLOW, 4), (FLOW, 5))
    assert placed(board) == {0: [0], 2: [4, 5]}


def test_source_tasks_do_not_return_to_a_lane_without_executor_for_a_while() -> None:
    board = new_board(lanes=2, cluster="spark://s:7077")
    board.put(source_task_lease(4, query=MASK))
    board.put(source_task_lease(5, query=MASK))
    grant(board, 2, 0.0)
    token(board, 3)
    board.engine_report(EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None, executors=1, unplaced=(3,)), 1.0)
    now = 2.0 + MOVED_AFTER_S
    board.move(source_task_lease(5, query=MASK), now)
    board.put(source_task_lease(6, query=MASK))
    assert board.source_tasks_of(2) == ((FLOW, 4), (FLOW, 5), (FLOW, 6))
    assert board.source_tasks_of(3) == ()
    session = grant(board, 2, now)
    now += STARVED_FOR_S + 1
    carried_out(board, 2, session, 4, 5, 6, now=now)
    assert board.expire(now) == []
    with pytest.raises(LeaseRefusedError, match="there is no lane 3"):
        board.source_tasks_of(3)
    board.put(source_task_lease(7, query=MASK))
    assert board.source_tasks_of(3) == ((FLOW, 7),)


def test_a_node_is_alive_as_long_as_its_plain_lanes_are() -> None:
    board = new_board(lanes=1)
    board.keep_running(1)
    board.put(source_task_lease(4, query=MASK))
    board.lane_report(1, grant(board, 1), LaneProgress(version=1, pid=1), 1.0)
    assert board.alive, "no plain lane has source tasks"
    board.put(source_task_lease(0))
    assert not board.alive
    board.lane_report(0, grant(board, 0), LaneProgress(version=1, pid=1), 1.0)
    ended(board, 1, "lost", now=2.0)
    assert board.alive


def test_the_error_of_a_lane_is_shown_until_it_has_run_for_a_minute() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(4, query=MASK))
    now = 0.0
    for number in range(3):
        session = grant(board, 1, now)
        carried_out(board, 1, session, 4, now=now)
        assert board.ended_by((FLOW, 4)) == (None if number == 0 else f"lane 1 failed: stuck {number - 1}")
        assert ended(board, 1, f"stuck {number}", now=now + 15) == [f"lane 1 failed; restarting: stuck {number}"]
        now += 60
    session = grant(board, 1, now)
    carried_out(board, 1, session, 4, now=now + HEALTHY_AFTER_S)
    assert board.ended_by((FLOW, 4)) == "lane 1 failed: stuck 2"
    carried_out(board, 1, session, 4, now=now + HEALTHY_AFTER_S + 1)
    assert board.ended_by((FLOW, 4)) is None
    assert board.ended_by((FLOW, 5)) is None


def test_the_end_of_a_lane_without_source_tasks_or_with_a_rejected_query_is_no_failure() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(4, query=MASK))
    grant(board, 1)
    assert ended(board, 1, "no such function", refused=True) == []
    assert board.ended_by((FLOW, 4)) is None
    board.put(source_task_lease(8, query=KEYS))
    grant(board, 2)
    board.remove((FLOW, 8))
    assert ended(board, 2, "cancelled") == []


def test_queries_start_one_after_the_other() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(0))
    for number, query in ((4, MASK), (8, KEYS), (12, lane_query("drop"))):
        board.put(source_task_lease(number, query=query))

    def started(now: float) -> list[int]:
        return [start.lane for start in starts(board, now)]

    assert started(0.0) == [0, 1]
    assert board.last_error((FLOW, 4)) is None
    assert board.last_error((FLOW, 8)) == "queries start one after the other, and another one is starting"
    version = board.engine_orders(0.0, EngineRole.QUERIES).version
    grant(board, 1, 5.0)
    assert board.engine_orders(5.0, EngineRole.QUERIES).version > version, "the engine is told at once"
    assert started(5.0) == [0, 1, 2]
    assert board.last_error((FLOW, 8)) is None
    assert started(5.0 + QUERY_START_S) == [0, 1, 2]
    assert started(5.1 + QUERY_START_S) == [0, 1, 2, 3], "one that hangs does not delay the others for ever"


def test_a_query_that_does_not_start_is_the_last_to_be_tried_again() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(4, query=MASK))
    board.put(source_task_lease(8, query=KEYS))
    assert ended(board, 1, "lost") == ["lane 1 failed; restarting: lost"]
    assert [start.lane for start in starts(board, 1.0)] == [2]
    assert board.last_error((FLOW, 4)) == "lost"


def test_a_query_that_waits_for_an_executor_does_not_delay_others() -> None:
    board = new_board(lanes=1, cluster="spark://s:7077")
    board.put(source_task_lease(4, query=MASK))
    board.put(source_task_lease(8, query=KEYS))
    assert [start.lane for start in starts(board, 0.0)] == [1]
    board.engine_report(EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None, executors=0, unplaced=(1,)), 1.0)
    assert [start.lane for start in starts(board, 1.0)] == [1, 2]


def test_each_engine_has_its_own_lanes() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(0))
    board.put(source_task_lease(4, query=MASK))
    lanes = {engine: [start.lane for start in board.engine_orders(0.0, engine).lanes] for engine in EngineRole}
    assert lanes == {EngineRole.MAIN: [0], EngineRole.QUERIES: [1]}
    versions = {engine: board.engine_orders(0.0, engine).version for engine in EngineRole}
    board.put(source_task_lease(4, 2, query=MASK))
    assert board.engine_orders(0.0, EngineRole.MAIN).version == versions[EngineRole.MAIN]
    assert board.engine_orders(0.0, EngineRole.QUERIES).version > versions[EngineRole.QUERIES]


def test_the_loss_of_an_engine_affects_its_own_lanes() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(0))
    board.put(source_task_lease(4, query=MASK))
    for engine in EngineRole:
        board.engine_report(EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None), 0.0, engine)
    plain, sql = grant(board, 0), grant(board, 1)
    board.engine_lost(1.0, "Java ended", EngineRole.QUERIES)
    board.check(0, plain)
    with pytest.raises(LeaseRefusedError):
        board.check(1, sql)
    assert set(board.engines) == {EngineRole.MAIN}
    sql = grant(board, 1, 2.0)
    board.engine_lost(3.0, "Java ended", EngineRole.MAIN)
    board.check(1, sql)
    with pytest.raises(LeaseRefusedError):
        board.check(0, plain)
    assert board.engines == {}


def test_on_a_cluster_one_engine_has_all_lanes() -> None:
    board = new_board(lanes=1, cluster="spark://s:7077")
    board.put(source_task_lease(0))
    board.put(source_task_lease(4, query=MASK))
    assert [start.lane for start in board.engine_orders(0.0).lanes] == [0, 1]
    assert board.engine_orders(0.0, EngineRole.QUERIES).lanes == ()
