"""Incidents replayed on the lane board: which process of a lane has the lease, and when a lane is restarted."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from mm2.core.lanes.engine_orders import EngineReport, LaneEnd
from mm2.core.lanes.lease import LeaseRefusedError, LeaseRequest
from mm2.core.lanes.progress_reports import LaneProgress
from mm2.core.naming.names import Flow, TopicPartition
from mm2.node.engine.lane_board import LEASE_SECONDS, START_WITHIN_S, LaneBoard
from mm2.node.engine.managed_lane import FIRST_RESTART_S, IMMEDIATE_RESTARTS, LONGEST_RESTART_S
from mm2.node.status.status_model import LaneMemory
from tests.unit.node.engine.lane_boards import (
    FLOW,
    carried_out,
    grant,
    lane_query,
    new_board,
    report,
    said,
    source_task_lease,
    starts,
    token,
)


def test_no_lane_without_source_tasks() -> None:
    assert new_board().engine_orders(0.0).lanes == ()


def test_source_tasks_are_spread_over_lanes_by_weight() -> None:
    board = new_board()
    for number, partitions in enumerate([10, 1, 1, 1]):
        board.put(source_task_lease(number, partitions))
    assert board.source_tasks_of(0) == ((FLOW, 0),)
    assert board.source_tasks_of(1) == ((FLOW, 1), (FLOW, 2), (FLOW, 3))


def test_a_lane_is_described_by_what_is_fixed() -> None:
    board = new_board(lanes=1)
    board.keep_running(1)

    def described() -> list[str]:
        return [start.description for start in starts(board, 0.0)]

    assert described() == ["lane 0"]
    board.flows = (FLOW,)
    assert described() == ["A->B lane 0"]
    board.flows = (FLOW, Flow("C", "D"))
    board.put(source_task_lease(4, query=lane_query("mask")))
    assert described() == ["lane 0", "A->B lane 1"]


def test_buffers_of_lanes_that_have_reported() -> None:
    board = new_board()
    for number in range(2):
        board.put(source_task_lease(number))
    assert board.buffers() == ()
    session = grant(board, 1)
    assert board.buffers() == ()
    board.lane_report(1, session, LaneProgress(version=1, pid=1, buffered_bytes=70), 1.0)
    (buffer,) = board.buffers()
    assert (buffer.lane, buffer.used, buffer.limit) == (1, 70, board.lane_orders(1).buffer_bytes)


def lane_ends(board: LaneBoard, now: float, error: str = "boom") -> None:
    end = LaneEnd(lane=0, token=token(board, 0, now), error=error)
    board.engine_report(EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None, ended=(end,)), now)


def test_a_newer_run_invalidates_the_older_session() -> None:
    board = new_board()
    board.put(source_task_lease(0))
    first = grant(board, 0)
    lane_ends(board, 1.0)
    second = grant(board, 0, 1.0, "another process")
    with pytest.raises(LeaseRefusedError):
        report(board, 0, first, 1.0)
    report(board, 0, second, 1.0)


def test_a_token_grants_one_session() -> None:
    """Whoever reads it later gets no lease, and does not disturb the lane."""
    board = new_board()
    board.put(source_task_lease(0))
    session = grant(board, 0)
    for nonce in ("another process", "", "é", "\ud800"):
        with pytest.raises(LeaseRefusedError, match="lane 0: another process holds the lease"):
            grant(board, 0, nonce=nonce)
    report(board, 0, session, 1.0)
    with pytest.raises(LeaseRefusedError):
        grant(board, 0, nonce="another process")
    report(board, 0, session, 2.0)


@pytest.mark.parametrize("guess", ["", "guess", "gueß", "\ud800"])
def test_a_wrong_secret_is_rejected(guess: str) -> None:
    board = new_board()
    board.put(source_task_lease(0))
    with pytest.raises(LeaseRefusedError):
        board.grant(0, LeaseRequest(token=guess, nonce="n"), 0.0)
    grant(board, 0)
    with pytest.raises(LeaseRefusedError):
        board.check(0, guess)


def test_a_process_can_repeat_its_request_until_it_reports() -> None:
    board = new_board()
    board.put(source_task_lease(0))
    grant(board, 0)
    session = grant(board, 0)
    report(board, 0, session, 1.0)
    with pytest.raises(LeaseRefusedError):
        grant(board, 0)


def test_an_unknown_lane_is_rejected() -> None:
    with pytest.raises(LeaseRefusedError):
        new_board().lane_orders(7)


def test_a_silent_lane_loses_its_lease_and_starts_with_a_new_token() -> None:
    board = new_board()
    board.put(source_task_lease(0))
    session = grant(board, 0)
    old = token(board, 0)
    assert board.expire(LEASE_SECONDS) == []
    (message,) = board.expire(LEASE_SECONDS + 1)
    assert "lane 0: no progress report for 15 s" in message
    with pytest.raises(LeaseRefusedError):
        report(board, 0, session, LEASE_SECONDS + 1)
    assert token(board, 0, LEASE_SECONDS + 60) != old
    assert board.last_error((FLOW, 0)) == message


def test_a_lane_that_spark_never_started_is_reported() -> None:
    board = new_board()
    board.put(source_task_lease(0))
    board.engine_orders(0.0)
    (message,) = board.expire(START_WITHIN_S + 1)
    assert message == "lane 0: did not start within 120 s; restarting"


def test_the_backoff_of_a_failing_lane_grows() -> None:
    board = new_board()
    board.put(source_task_lease(0))
    now, waits = 0.0, []
    for _ in range(12):
        grant(board, 0, now)
        lane_ends(board, now)
        wait = next(w / 10 for w in itertools.count() if board.engine_orders(now + w / 10).lanes)
        waits.append(wait)
        now += wait
    assert waits[: IMMEDIATE_RESTARTS + 1] == [*[0.0] * IMMEDIATE_RESTARTS, FIRST_RESTART_S]
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_RESTART_S
    assert board.last_error((FLOW, 0)) == "boom"


def test_all_leases_end_with_a_lost_engine() -> None:
    board = new_board()
    board.put(source_task_lease(0))
    session = grant(board, 0)
    board.engine_lost(5.0)
    with pytest.raises(LeaseRefusedError):
        report(board, 0, session, 5.0)
    assert [start.lane for start in board.engine_orders(5.0).lanes] == [0]


def test_a_lane_without_source_tasks_is_ended_and_not_ordered_again() -> None:
    board = new_board()
    board.put(source_task_lease(0))
    grant(board, 0)
    board.remove((FLOW, 0))
    assert board.lane_orders(0).end
    ended = LaneEnd(lane=0, token=token(board, 0), error=None)
    board.engine_report(EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None, ended=(ended,)), 1.0)
    assert board.engine_orders(1.0).lanes == ()


def test_drained_when_every_running_source_task_has_reported_it() -> None:
    board = new_board()
    board.put(source_task_lease(0))
    board.put(source_task_lease(1))
    sessions = [grant(board, 0), grant(board, 1)]
    board.drain()
    assert all(source_task.drain for lane in (0, 1) for source_task in board.lane_orders(lane).source_tasks)
    report(board, 0, sessions[0], 1.0, drained=True)
    assert not board.drained
    report(board, 1, sessions[1], 1.0, drained=True)
    assert board.drained


def test_a_source_task_that_drains_before_it_starts_is_drained() -> None:
    board = new_board(lanes=1)
    board.put(source_task_lease(0))
    session = grant(board, 0)
    board.drain()
    before, drained = board.lane_orders(0).version - 1, board.lane_orders(0).version
    board.lane_report(0, session, LaneProgress(version=before, pid=1), 1.0)
    assert not board.drained, "it may begin before it hears of the drain"
    board.lane_report(0, session, LaneProgress(version=drained, pid=1), 2.0)
    assert board.drained


def test_only_changed_leases_change_the_version() -> None:
    board = new_board()
    source_task = source_task_lease(0)
    board.put(source_task)
    version = board.lane_orders(0).version
    board.put(source_task_lease(0))
    assert board.lane_orders(0).version == version
    board.put(replace(source_task, epoch=2))
    assert board.lane_orders(0).version == version + 1


def test_a_lane_reports_only_changes() -> None:
    board = new_board(1)
    board.put(source_task_lease(0, 2))
    session = grant(board, 0)
    assert board.lane_report(0, session, said(5, 7), 1.0)
    assert not board.lane_report(0, session, said(whole=False), 2.0), "no news"
    assert board.lane_report(0, session, said(6, whole=False), 3.0)
    report = board.progress((FLOW, 0))
    assert report is not None
    assert [one.position for one in report.source_task.partitions] == [6, 7]
    assert report.source_task.whole
    assert report.running == {TopicPartition("t", 0), TopicPartition("t", 1)}
    assert board.lane_report(0, session, said(whole=False, version=2), 4.0), "other orders are carried out"


def test_a_restarted_lane_reports_everything_again() -> None:
    board = new_board(1)
    board.put(source_task_lease(0, 2))
    assert board.lane_report(0, grant(board, 0), said(5, 7), 1.0)
    lane_ends(board, 1.0)
    session = grant(board, 0, 1.0)
    assert board.progress((FLOW, 0)) is None
    with pytest.raises(LeaseRefusedError, match="the first report omits partitions"):
        board.lane_report(0, session, said(6, whole=False), 2.0)
    assert board.lane_report(0, session, said(5, 7), 3.0)


def test_a_source_task_that_left_its_lane_is_forgotten() -> None:
    board = new_board(1)
    board.put(source_task_lease(0, 2))
    session = grant(board, 0)
    assert board.lane_report(0, session, said(5, 7), 1.0)
    assert board.lane_report(0, session, LaneProgress(version=1, pid=1), 2.0)
    assert board.progress((FLOW, 0)) is None
    with pytest.raises(LeaseRefusedError):
        board.lane_report(0, session, said(whole=False), 3.0)


def test_a_kept_lane_runs_without_source_tasks() -> None:
    board = new_board()
    board.keep_running(1)
    (start,) = board.engine_orders(0.0).lanes
    assert start.lane == 0
    assert not board.alive
    session = grant(board, 0)
    assert not board.alive
    carried_out(board, 0, session)
    assert board.alive
    assert not board.lane_orders(0).end
    version = board.lane_orders(0).version
    board.keep_running(1)
    assert board.lane_orders(0).version == version
    board.keep_running(0)
    assert board.lane_orders(0).end
    assert board.lane_orders(0).version > version


def test_kept_lanes_run_when_all_of_them_have_reported() -> None:
    board = new_board(lanes=3)
    board.keep_running(2)
    first, second = (grant(board, number) for number in (0, 1))
    carried_out(board, 0, first)
    assert not board.kept_lanes_run
    carried_out(board, 1, second)
    assert board.kept_lanes_run
    board.engine_lost(2.0)
    assert not board.kept_lanes_run


def test_the_backoff_of_a_failing_warm_lane_grows() -> None:
    board = new_board(lanes=1)
    board.keep_running(1)
    now = 0.0
    for _ in range(IMMEDIATE_RESTARTS):
        lane_ends(board, now)
    for pause in (FIRST_RESTART_S, 2 * FIRST_RESTART_S):
        lane_ends(board, now)
        assert board.engine_orders(now + pause - 0.01).lanes == ()
        now += pause
        assert len(board.engine_orders(now).lanes) == 1
    board.expire(now + START_WITHIN_S + 1)
    assert not board.alive


def test_only_the_current_session_can_report_for_a_lane() -> None:
    board = new_board()
    board.put(source_task_lease(0))
    for secret in ("", "guess"):
        with pytest.raises(LeaseRefusedError):
            board.check(0, secret)
    session = grant(board, 0)
    board.check(0, session)


def test_memory_of_lanes_that_have_reported() -> None:
    board = new_board()
    board.put(source_task_lease(0))
    assert board.memory() == ()
    session = board.grant(0, LeaseRequest(token=token(board, 0), nonce="n"), 0.0)
    board.lane_report(0, session, LaneProgress(version=0, pid=1, memory_bytes=70), 0.0)
    assert board.memory() == (LaneMemory(lane=0, flow=None, query=None, bytes=70),)


def test_log_levels_reach_engines_and_running_lanes() -> None:
    board = new_board()
    board.put(source_task_lease(0))
    levels = {"mm2": "INFO", "flows.source": "DEBUG"}
    engine, lane = board.engine_orders(0.0).version, board.lane_orders(0).version
    board.use_log_levels(levels)
    assert board.engine_orders(0.0).log_levels == board.lane_orders(0).log_levels == levels
    assert (board.engine_orders(0.0).version > engine, board.lane_orders(0).version > lane) == (True, True)
    lane = board.lane_orders(0).version
    board.use_log_levels(dict(levels))
    assert board.lane_orders(0).version == lane
