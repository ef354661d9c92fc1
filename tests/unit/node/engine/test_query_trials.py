"""SQL lanes that die: their frames are announced, one lane after the other, and the record that ends them is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.lanes.engine_orders import EngineRole
from mm2.core.lanes.lease import LeaseRefusedError
from mm2.core.lanes.progress_reports import LaneProgress
from mm2.core.lanes.query_trials import (
    EXPLAINED_FOR_S,
    NO_TRIAL,
    SUSPECTED_FOR_S,
    FatalRecord,
    FrameSpan,
    QueryTrial,
    SuspectSpan,
)
from mm2.node.engine.lane_board import LEASE_SECONDS, LaneBoard
from tests.unit.node.engine.lane_boards import FLOW, ended, grant, lane_query, new_board, source_task_lease, starts

MASK, KEYS = lane_query("mask"), lane_query("keys")
WHY = "Java ran out of memory (spark.driver.memory = 1g)"
FRAME = FrameSpan(topic="t4", partition=0, first=0, until=2)
RECORD = FrameSpan(topic="t4", partition=0, first=1, until=2)
OTHER = FrameSpan(topic="t8", partition=0, first=0, until=9)


def two_queries() -> LaneBoard:
    """Return a board with a plain lane 0, and lanes 1 and 2 with a query each."""
    board = new_board(lanes=1)
    board.put(source_task_lease(0))
    board.put(source_task_lease(4, query=MASK))
    board.put(source_task_lease(8, query=KEYS))
    return board


def started(board: LaneBoard, now: float) -> tuple[str, str]:
    """Start the lanes with a query; return their sessions."""
    return grant(board, 1, now), grant(board, 2, now)


def announced() -> tuple[LaneBoard, str, str]:
    """Return a board whose JVM has died twice and runs again, and the sessions of the lanes with a query."""
    board = two_queries()
    for now in (0.0, 10.0):
        started(board, now)
        assert board.engine_lost(now + 5, WHY, EngineRole.QUERIES) == []
    return board, *started(board, 20.0)


def test_frames_are_announced_after_two_deaths() -> None:
    board = two_queries()
    for now in (0.0, 10.0):
        started(board, now)
        assert [board.lane_orders(lane).trial for lane in (0, 1, 2)] == [NO_TRIAL] * 3
        assert board.trial_reason((FLOW, 4)) is None
        board.engine_lost(now + 5, WHY, EngineRole.QUERIES)
    started(board, 20.0)
    assert [board.lane_orders(lane).trial.announced for lane in (0, 1, 2)] == [False, True, True]
    assert board.trial_reason((FLOW, 4)) == f"query mask: {WHY}; looking for the record"
    assert board.trial_reason((FLOW, 0)) is None
    assert board.trial_reason((FLOW, 9)) is None


def test_lanes_that_had_not_started_are_announced_too() -> None:
    """One of them may end the JVM before the others start, and would do so while frames of others are announced."""
    board = two_queries()
    for lane, now in ((1, 0.0), (2, 10.0)):
        grant(board, lane, now)
        board.engine_lost(now + 5, WHY, EngineRole.QUERIES)
    grant(board, 1, 20.0)
    assert board.lane_orders(1).trial.announced


def test_other_ends_of_the_engine_are_no_deaths() -> None:
    board = two_queries()
    for now in (0.0, 10.0, 20.0):
        started(board, now)
        board.engine_lost(now + 5, engine=EngineRole.QUERIES)
    started(board, 30.0)
    assert not board.lane_orders(1).trial.announced


def test_lanes_take_turns_and_the_record_is_found() -> None:
    board, mask, keys = announced()
    assert board.announce(1, mask, FRAME, 20.0)
    assert not board.announce(2, keys, OTHER, 20.0)
    assert board.announce(1, mask, FRAME, 20.0), "the answer was lost"
    assert not board.announce(1, mask, RECORD, 20.0), "it is the other lane's turn"
    assert board.announce(2, keys, OTHER, 20.0)
    assert not board.announce(1, mask, RECORD, 20.0)
    assert board.announce(2, keys, None, 20.0)
    assert board.announce(1, mask, FRAME, 20.0)
    message = f"{WHY} with t4-0 offsets 0-1 in it, which pass in parts now"
    assert board.engine_lost(25.0, WHY, EngineRole.QUERIES) == [f"A->B: query mask: {message}"]

    mask, keys = started(board, 30.0)
    suspect = SuspectSpan(span=FRAME, step=1)
    assert board.lane_orders(1).trial == QueryTrial(announced=True, suspects=(suspect,))
    assert board.trial_reason((FLOW, 4)) == f"query mask: {WHY}; looking for the record: it is in t4-0 offsets 0-1"
    assert board.announce(1, mask, FrameSpan(topic="t4", partition=0, first=0, until=1), 20.0)
    version = board.lane_orders(1).version
    assert board.announce(1, mask, RECORD, 20.0)
    board.lane_report(1, mask, LaneProgress(version=version, pid=1), 31.0)
    assert board.lane_orders(1).version == version, "the lane knows what has returned"
    (message,) = board.engine_lost(35.0, WHY, EngineRole.QUERIES)
    assert message.startswith(f"A->B: query mask: {WHY} each time that t4-0 offset 1 was in it")

    mask, keys = started(board, 40.0)
    record = FatalRecord(span=RECORD, why=WHY)
    assert board.lane_orders(1).trial == QueryTrial(announced=True, fatal=(record,))
    assert board.lane_orders(2).trial == QueryTrial(announced=True)
    board.lane_report(2, keys, LaneProgress(version=1, pid=1), 36.0 + EXPLAINED_FOR_S)
    assert board.lane_orders(1).trial == QueryTrial(fatal=(record,))
    assert board.lane_orders(2).trial == NO_TRIAL, "the deaths are explained"


def test_a_lane_dies_alone() -> None:
    """Of a Java Error, or in an executor of its own."""
    board = two_queries()
    for now in (0.0, 10.0, 20.0):
        mask = grant(board, 1, now)
        if now == 20.0:
            assert board.announce(1, mask, FRAME, now)
        found = ended(board, 1, "java.lang.StackOverflowError", now=now + 5)
        grant(board, 2, now + 5)
        ended(board, 2, now=now + 5)
    assert found[0] == (
        "A->B: query mask: java.lang.StackOverflowError with t4-0 offsets 0-1 in it, which pass in parts now"
    )
    grant(board, 1, 30.0)
    grant(board, 2, 30.0)
    assert [board.lane_orders(lane).trial.announced for lane in (1, 2)] == [True, False]


def test_a_lane_that_ends_otherwise_leaves_its_turn_to_others() -> None:
    board, mask, keys = announced()
    assert board.announce(1, mask, FRAME, 20.0)
    assert not board.announce(2, keys, OTHER, 20.0)
    board.expire(20.0 + LEASE_SECONDS + 1)
    with pytest.raises(LeaseRefusedError):
        board.announce(1, mask, RECORD, 20.0)
    _, keys = started(board, 40.0)
    assert board.announce(2, keys, OTHER, 20.0)
    assert board.lane_orders(1).trial == QueryTrial(announced=True), "the frame is not suspected"


def test_frames_are_not_announced_for_ever() -> None:
    board, mask, _ = announced()
    version = board.lane_orders(1).version
    board.lane_report(1, mask, LaneProgress(version=version, pid=1), 15.0 + SUSPECTED_FOR_S)
    assert board.lane_orders(1).trial.announced
    board.lane_report(1, mask, LaneProgress(version=version, pid=1), 16.0 + SUSPECTED_FOR_S)
    assert (board.lane_orders(1).trial, board.lane_orders(1).version) == (NO_TRIAL, version + 1)


def fatal() -> LaneBoard:
    board, mask, _ = announced()
    assert board.announce(1, mask, RECORD, 20.0)
    board.engine_lost(25.0, WHY, EngineRole.QUERIES)
    mask, _ = started(board, 30.0)
    assert board.announce(1, mask, RECORD, 20.0)
    board.engine_lost(35.0, WHY, EngineRole.QUERIES)
    started(board, 40.0)
    assert board.lane_orders(1).trial.fatal
    return board


def test_an_operator_lets_the_record_pass_again() -> None:
    board = fatal()
    board.retry_records((FLOW, 8))
    board.retry_records((FLOW, 0))
    board.retry_records((FLOW, 99))
    assert board.lane_orders(1).trial.fatal
    version = board.lane_orders(1).version
    board.retry_records((FLOW, 4))
    assert (board.lane_orders(1).trial, board.lane_orders(1).version) == (QueryTrial(announced=True), version + 1)


def test_another_text_of_the_query_is_tried() -> None:
    board = fatal()
    board.remove((FLOW, 4))
    board.put(source_task_lease(4, query=lane_query("mask", "SELECT lower(value) AS value FROM records")))
    (lane,) = (one.lane for one in starts(board, 41.0) if one.query is not None and one.lane > 2)
    grant(board, lane, 41.0)
    assert board.lane_orders(lane).trial == NO_TRIAL
    assert board.trial_reason((FLOW, 4)) is None


def expired(board: LaneBoard, mask: str) -> None:
    board.lane_report(1, mask, LaneProgress(version=board.lane_orders(1).version, pid=1), 16.0 + SUSPECTED_FOR_S)
    assert board.lane_orders(1).trial == NO_TRIAL


def test_a_search_that_has_expired_makes_no_lane_wait() -> None:
    """C: although the lanes do not know yet, and one does not give its turn back."""
    board, mask, keys = announced()
    assert board.announce(1, mask, FRAME, 20.0)
    assert not board.announce(2, keys, OTHER, 16.0 + SUSPECTED_FOR_S)
    expired(board, mask)
    for _ in range(2):
        assert board.announce(2, keys, OTHER, 17.0 + SUSPECTED_FOR_S)
        assert board.announce(1, mask, RECORD, 17.0 + SUSPECTED_FOR_S)


def test_a_frame_of_a_search_that_has_expired_is_not_suspected() -> None:
    board, mask, _ = announced()
    assert board.announce(1, mask, FRAME, 20.0)
    expired(board, mask)
    now = 20.0 + SUSPECTED_FOR_S
    assert board.engine_lost(now, WHY, EngineRole.QUERIES) == []
    grant(board, 1, now + 5)
    assert board.lane_orders(1).trial == NO_TRIAL


def test_the_frame_of_a_query_whose_search_has_expired_is_not_in_the_way_of_others() -> None:
    board, mask, keys = announced()
    assert board.announce(1, mask, FRAME, 20.0)
    ended(board, 2, WHY, now=100.0)
    keys = grant(board, 2, 110.0)
    assert not board.announce(2, keys, OTHER, 110.0)
    expired(board, mask)
    assert board.lane_orders(2).trial.announced
    assert board.announce(2, keys, OTHER, 17.0 + SUSPECTED_FOR_S)
    assert board.announce(1, mask, RECORD, 17.0 + SUSPECTED_FOR_S)


def test_a_lane_that_does_not_ask_any_more_is_not_waited_for() -> None:
    """C."""
    board, mask, keys = announced()
    assert board.announce(2, keys, OTHER, 20.0)
    assert not board.announce(1, mask, FRAME, 20.0)
    assert not board.announce(2, keys, replace(OTHER, first=9, until=10), 24.0), "the other lane asked before"
    assert not board.announce(2, keys, replace(OTHER, first=9, until=10), 25.0)
    assert board.announce(2, keys, replace(OTHER, first=9, until=10), 25.0 + 0.1)
    assert not board.announce(1, mask, FRAME, 26.0)
    assert board.announce(1, mask, None, 26.0)
    assert board.announce(2, keys, OTHER, 26.0), "a lane that gives up waits no more"
