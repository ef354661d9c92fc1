"""Incidents replayed on the lane board: no clock, no process."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from mm2.core.client_settings import ClientSettings, FetchSettings, ProduceSettings
from mm2.core.lease import (
    EngineReport,
    LaneEnd,
    LaneProgress,
    LeaseRefusedError,
    LeaseRequest,
    OffsetsLease,
    PartitionLease,
    PartitionProgress,
    SlotLease,
    SlotProgress,
    TaskState,
)
from mm2.core.names import Flow, TopicPartition
from mm2.node.executors import LOST_AFTER_S, MOVED_AFTER_S, SAID_AFTER_S, STARVED_FOR_S
from mm2.node.lane import FIRST_RESTART_S, LONGEST_RESTART_S
from mm2.node.lanes import LEASE_SECONDS, START_WITHIN_S, LaneBoard

FLOW = Flow("A", "B")
CLIENT = ClientSettings(bootstrap_servers=("localhost:9092",))


def a_slot(number: int, partitions: int = 1) -> SlotLease:
    return SlotLease(
        flow=FLOW,
        slot=number,
        epoch=1,
        source=CLIENT,
        fetch=FetchSettings(),
        target=CLIENT,
        produce=ProduceSettings(),
        offsets=OffsetsLease(client=CLIENT, topic="mm2-offsets.A.internal", partitions=25, flush_interval_ms=5000),
        offset_syncs=None,
        partitions=tuple(
            PartitionLease(topic=f"t{number}", partition=p, remote_topic=f"A.t{number}", start_offset=0)
            for p in range(partitions)
        ),
    )


def a_board(lanes: int = 2) -> LaneBoard:
    counter = itertools.count()
    return LaneBoard(lanes=lanes, buffer_bytes=1 << 20, new_secret=lambda: f"secret-{next(counter)}")


def token(board: LaneBoard, lane: int, now: float = 0.0) -> str:
    return next(start.token for start in board.engine_orders(now).lanes if start.lane == lane)


def grant(board: LaneBoard, lane: int, now: float = 0.0, attempt: int = 0) -> str:
    return board.grant(lane, LeaseRequest(token=token(board, lane, now), attempt=attempt, pid=1), now)


def report(board: LaneBoard, lane: int, session: str, now: float, *, drained: bool = False) -> None:
    slots = tuple(
        SlotProgress(flow=s.flow, slot=s.slot, epoch=s.epoch, state=TaskState.RUNNING, drained=drained)
        for s in board.lane_orders(lane).slots
    )
    board.lane_report(lane, session, LaneProgress(version=1, pid=1, slots=slots), now)


def test_no_lane_without_slots() -> None:
    assert a_board().engine_orders(0.0).lanes == ()


def test_slots_spread_over_lanes_by_weight() -> None:
    board = a_board()
    for number, partitions in enumerate([10, 1, 1, 1]):
        board.put(a_slot(number, partitions))
    assert board.slots_of(0) == ((FLOW, 0),)
    assert board.slots_of(1) == ((FLOW, 1), (FLOW, 2), (FLOW, 3))
    assert board.engine_orders(0.0).lanes[1].description == "A->B slots 1, 2, 3"


def test_a_newer_attempt_voids_the_older_session() -> None:
    board = a_board()
    board.put(a_slot(0))
    first = grant(board, 0)
    second = grant(board, 0, attempt=1)
    with pytest.raises(LeaseRefusedError):
        report(board, 0, first, 1.0)
    report(board, 0, second, 1.0)


def test_another_process_gets_no_lease_for_the_same_attempt() -> None:
    board = a_board()
    board.put(a_slot(0))
    grant(board, 0)
    with pytest.raises(LeaseRefusedError):
        board.grant(0, LeaseRequest(token=token(board, 0), attempt=0, pid=2), 0.0)


def test_a_process_whose_answer_was_lost_may_ask_again_until_it_reports() -> None:
    board = a_board()
    board.put(a_slot(0))
    grant(board, 0)
    session = grant(board, 0)
    report(board, 0, session, 1.0)
    with pytest.raises(LeaseRefusedError):
        grant(board, 0)


def test_an_unknown_lane_is_refused() -> None:
    with pytest.raises(LeaseRefusedError):
        a_board().lane_orders(7)


def test_a_silent_lane_loses_its_lease_and_starts_with_a_new_token() -> None:
    board = a_board()
    board.put(a_slot(0))
    session = grant(board, 0)
    old = token(board, 0)
    assert board.expire(LEASE_SECONDS) == []
    (sentence,) = board.expire(LEASE_SECONDS + 1)
    assert "lane 0 was not heard of" in sentence
    with pytest.raises(LeaseRefusedError):
        report(board, 0, session, LEASE_SECONDS + 1)
    assert token(board, 0, LEASE_SECONDS + 60) != old
    assert board.trouble((FLOW, 0)) == sentence


def test_a_lane_spark_never_started_is_said() -> None:
    board = a_board()
    board.put(a_slot(0))
    board.engine_orders(0.0)
    (sentence,) = board.expire(START_WITHIN_S + 1)
    assert sentence == "lane 0 did not start within 120 s: it is started again"


def test_a_failing_lane_waits_longer_each_time() -> None:
    board = a_board()
    board.put(a_slot(0))
    now, waits = 0.0, []
    for _ in range(10):
        grant(board, 0, now)
        end = LaneEnd(lane=0, token=token(board, 0, now), error="boom")
        board.engine_report(EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None, ended=(end,)), now)
        assert board.engine_orders(now).lanes == ()
        wait = next(w / 10 for w in itertools.count(1) if board.engine_orders(now + w / 10).lanes)
        waits.append(wait)
        now += wait
    assert waits[0] == FIRST_RESTART_S
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_RESTART_S
    assert board.trouble((FLOW, 0)) == "boom"


def test_a_lost_engine_takes_all_leases_with_it() -> None:
    board = a_board()
    board.put(a_slot(0))
    session = grant(board, 0)
    board.engine_lost(5.0)
    with pytest.raises(LeaseRefusedError):
        report(board, 0, session, 5.0)
    assert [start.lane for start in board.engine_orders(5.0).lanes] == [0]


def test_a_lane_with_no_slot_left_is_told_to_end_and_then_not_ordered() -> None:
    board = a_board()
    board.put(a_slot(0))
    grant(board, 0)
    board.remove((FLOW, 0))
    assert board.lane_orders(0).end
    ended = LaneEnd(lane=0, token=token(board, 0), error=None)
    board.engine_report(EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None, ended=(ended,)), 1.0)
    assert board.engine_orders(1.0).lanes == ()


def test_drained_means_every_running_slot_said_so() -> None:
    board = a_board()
    board.put(a_slot(0))
    board.put(a_slot(1))
    sessions = [grant(board, 0), grant(board, 1)]
    board.drain()
    assert all(slot.drain for lane in (0, 1) for slot in board.lane_orders(lane).slots)
    report(board, 0, sessions[0], 1.0, drained=True)
    assert not board.drained
    report(board, 1, sessions[1], 1.0, drained=True)
    assert board.drained


def test_a_slot_that_was_to_drain_before_it_began_is_drained() -> None:
    board = a_board(lanes=1)
    board.put(a_slot(0))
    session = grant(board, 0)
    board.drain()
    before, drained = board.lane_orders(0).version - 1, board.lane_orders(0).version
    board.lane_report(0, session, LaneProgress(version=before, pid=1), 1.0)
    assert not board.drained, "it may begin before it hears of the drain"
    board.lane_report(0, session, LaneProgress(version=drained, pid=1), 2.0)
    assert board.drained


def test_changed_slots_change_the_version_and_equal_ones_do_not() -> None:
    board = a_board()
    slot = a_slot(0)
    board.put(slot)
    version = board.lane_orders(0).version
    board.put(a_slot(0))
    assert board.lane_orders(0).version == version
    board.put(replace(slot, epoch=2))
    assert board.lane_orders(0).version == version + 1


def said(*positions: int, whole: bool = True, slot: int = 0, version: int = 1) -> LaneProgress:
    """A lane's report on one slot, with its first partitions at these positions."""
    partitions = tuple(
        PartitionProgress(topic="t", partition=at, remote_topic="A.t", state=TaskState.RUNNING, position=position)
        for at, position in enumerate(positions)
    )
    word = SlotProgress(flow=FLOW, slot=slot, epoch=1, state=TaskState.RUNNING, partitions=partitions, whole=whole)
    return LaneProgress(version=version, pid=1, slots=(word,))


def test_a_lane_tells_only_what_changed() -> None:
    board = a_board(1)
    board.put(a_slot(0, 2))
    session = grant(board, 0)
    assert board.lane_report(0, session, said(5, 7), 1.0)
    assert not board.lane_report(0, session, said(whole=False), 2.0), "no news"
    assert board.lane_report(0, session, said(6, whole=False), 3.0)
    report = board.progress((FLOW, 0))
    assert report is not None
    assert [one.position for one in report.slot.partitions] == [6, 7]
    assert report.slot.whole
    assert report.running == {TopicPartition("t", 0), TopicPartition("t", 1)}
    assert board.lane_report(0, session, said(whole=False, version=2), 4.0), "other orders are carried out"


def test_another_run_of_a_lane_tells_everything_anew() -> None:
    board = a_board(1)
    board.put(a_slot(0, 2))
    assert board.lane_report(0, grant(board, 0), said(5, 7), 1.0)
    session = grant(board, 0, attempt=1)
    assert board.progress((FLOW, 0)) is None
    with pytest.raises(LeaseRefusedError, match="the first report leaves partitions out"):
        board.lane_report(0, session, said(6, whole=False), 2.0)
    assert board.lane_report(0, session, said(5, 7), 3.0)


def test_a_slot_that_left_its_lane_is_not_remembered() -> None:
    board = a_board(1)
    board.put(a_slot(0, 2))
    session = grant(board, 0)
    assert board.lane_report(0, session, said(5, 7), 1.0)
    assert board.lane_report(0, session, LaneProgress(version=1, pid=1), 2.0)
    assert board.progress((FLOW, 0)) is None
    with pytest.raises(LeaseRefusedError):
        board.lane_report(0, session, said(whole=False), 3.0)


def carried_out(board: LaneBoard, lane: int, session: str, *numbers: int, drained: bool = False) -> None:
    """The lane has carried out its newest orders, and runs these slots."""
    slots = tuple(
        SlotProgress(flow=FLOW, slot=number, epoch=1, state=TaskState.RUNNING, drained=drained) for number in numbers
    )
    board.lane_report(lane, session, LaneProgress(version=board.lane_orders(lane).version, pid=1, slots=slots), 1.0)


def test_a_warm_lane_runs_without_slots_and_leaves_when_it_is_warm_no_more() -> None:
    board = a_board()
    board.keep_warm(1)
    (start,) = board.engine_orders(0.0).lanes
    assert (start.lane, start.description) == (0, "no slots yet")
    assert not board.alive
    session = grant(board, 0)
    assert not board.alive
    carried_out(board, 0, session)
    assert board.alive
    assert not board.lane_orders(0).end
    version = board.lane_orders(0).version
    board.keep_warm(1)
    assert board.lane_orders(0).version == version
    board.keep_warm(0)
    assert board.lane_orders(0).end
    assert board.lane_orders(0).version > version


def test_a_warm_lane_that_fails_waits_longer_each_time() -> None:
    board = a_board(lanes=1)
    board.keep_warm(1)
    now = 0.0
    for pause in (FIRST_RESTART_S, 2 * FIRST_RESTART_S):
        board.engine_report(
            EngineReport(
                version=0,
                pid=1,
                jvm_pid=2,
                spark_ui=None,
                ended=(LaneEnd(lane=0, token=token(board, 0, now), error="x"),),
            ),
            now,
        )
        assert board.engine_orders(now + pause - 0.01).lanes == ()
        now += pause
        assert len(board.engine_orders(now).lanes) == 1
    board.expire(now + START_WITHIN_S + 1)
    assert not board.alive


def test_a_slot_is_idle_until_a_lane_has_begun_it() -> None:
    board = a_board(lanes=1)
    key = (FLOW, 0)
    assert board.idle(key)
    assert not board.lane_has(key)
    board.put(a_slot(0))
    assert board.lane_has(key)
    assert board.idle(key)
    session = grant(board, 0)
    assert not board.idle(key)  # the lane has its orders, and may have begun
    carried_out(board, 0, session)
    assert board.idle(key)  # it was to drain the slot before it had begun
    carried_out(board, 0, session, 0)
    assert not board.idle(key)
    board.put(a_slot(1))
    carried_out(board, 0, session)
    board.put(a_slot(2))
    assert not board.idle(key)  # that was about older orders


def test_whether_a_lane_may_be_running_a_slot() -> None:
    board = a_board(lanes=1)
    key = (FLOW, 0)
    board.put(a_slot(0))
    assert not board.runs(key)
    session = grant(board, 0)
    assert board.runs(key)
    assert not board.runs((FLOW, 1))
    carried_out(board, 0, session, 0)
    assert board.runs(key)
    carried_out(board, 0, session, 0, drained=True)
    assert not board.runs(key)


def test_a_slot_that_was_taken_from_its_lane_may_run_until_the_lane_has_carried_that_out() -> None:
    board = a_board(lanes=1)
    key = (FLOW, 0)
    board.put(a_slot(0))
    session = grant(board, 0)
    board.remove(key)
    assert not board.lane_has(key)
    assert board.runs(key)  # its first orders had the slot, and nothing was heard of it
    carried_out(board, 0, session)
    assert not board.runs(key)

    board.put(a_slot(0))
    before = board.lane_orders(0).version
    board.remove(key)
    board.lane_report(0, session, LaneProgress(version=before, pid=1), 2.0)  # sent before it began the slot
    assert board.runs(key)
    carried_out(board, 0, session)
    assert not board.runs(key)


def test_a_lane_that_lost_its_lease_runs_nothing() -> None:
    board = a_board(lanes=1)
    board.put(a_slot(0))
    session = grant(board, 0)
    carried_out(board, 0, session, 0)
    board.remove((FLOW, 0))
    board.keep_warm(1)
    board.expire(1.0 + LEASE_SECONDS + 1)
    assert not board.runs((FLOW, 0))
    again = grant(board, 0, now=100.0)
    assert not board.runs((FLOW, 0))
    carried_out(board, 0, again)
    assert board.alive


def test_a_slot_has_no_word_before_its_lane_spoke_of_it() -> None:
    board = a_board(lanes=1)
    board.put(a_slot(0))
    assert board.progress((FLOW, 0)) is None
    session = grant(board, 0)
    assert board.progress((FLOW, 0)) is None
    carried_out(board, 0, session)
    assert board.progress((FLOW, 0)) is None
    carried_out(board, 0, session, 1, 0)
    word = board.progress((FLOW, 0))
    assert word is not None
    assert (word.session, word.current, word.slot.slot) == (session, True, 0)
    board.keep_warm(1)
    word = board.progress((FLOW, 0))
    assert word is not None
    assert not word.current


MASTER = "spark://spark:7077"


def a_cluster_board(lanes: int = 2) -> LaneBoard:
    counter = itertools.count()
    return LaneBoard(lanes=lanes, buffer_bytes=1 << 20, new_secret=lambda: f"secret-{next(counter)}", cluster=MASTER)


def engine_says(board: LaneBoard, now: float, *, executors: int, unplaced: tuple[int, ...]) -> None:
    report = EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None, executors=executors, unplaced=unplaced)
    board.engine_report(report, now)


def test_a_lane_without_an_executor_says_so_once_and_is_not_started_again() -> None:
    board = a_cluster_board()
    board.put(a_slot(0))
    old = token(board, 0)
    engine_says(board, 1.0, executors=0, unplaced=(0,))
    assert board.expire(SAID_AFTER_S) == []
    (sentence,) = board.expire(SAID_AFTER_S + 1)
    assert f"lane 0: Spark master {MASTER} has given no executor for 10 s" in sentence
    assert board.trouble((FLOW, 0)) == sentence
    assert board.expire(START_WITHIN_S + 1) == []
    assert token(board, 0) == old


def test_a_lane_for_which_there_is_no_further_executor() -> None:
    board = a_cluster_board()
    board.put(a_slot(0))
    board.put(a_slot(1))
    token(board, 0)
    engine_says(board, 1.0, executors=1, unplaced=(1,))
    (sentence,) = board.expire(SAID_AFTER_S + 1)
    assert sentence.endswith("has given 1 executor, and none for this lane for 10 s: add workers, or lower mm2.lanes")
    engine_says(board, 12.0, executors=2, unplaced=(1,))
    assert "has given 2 executors" in board.expire(SAID_AFTER_S + 2)[0]
    report(board, 1, grant(board, 1, 20.0), 20.0)
    assert board.trouble((FLOW, 1)) is None


def test_slots_move_from_a_lane_that_waits_in_vain() -> None:
    board = a_cluster_board()
    board.put(a_slot(0))
    board.put(a_slot(1))
    late = token(board, 1)
    session = grant(board, 0, 10.0)
    engine_says(board, 10.0, executors=1, unplaced=(1,))
    assert board.in_vain(10.0 + MOVED_AFTER_S) == (), "executors come one by one"
    assert board.in_vain(11.0 + MOVED_AFTER_S) == ((FLOW, 1),)
    board.move(a_slot(1), 11.0 + MOVED_AFTER_S)
    assert board.slots_of(0) == ((FLOW, 0), (FLOW, 1))
    assert [start.lane for start in board.engine_orders(30.0).lanes] == [0]
    with pytest.raises(LeaseRefusedError):
        board.grant(1, LeaseRequest(token=late, attempt=0, pid=1), 30.0)
    report(board, 0, session, 30.0)


def test_a_slot_whose_lane_got_an_executor_meanwhile_stays() -> None:
    board = a_cluster_board()
    board.put(a_slot(0))
    board.put(a_slot(1))
    token(board, 1)
    grant(board, 0, 0.0)
    engine_says(board, 1.0, executors=1, unplaced=(1,))
    (moving,) = board.in_vain(MOVED_AFTER_S + 1)
    grant(board, 1, MOVED_AFTER_S + 1)
    board.move(a_slot(moving[1]), MOVED_AFTER_S + 2)
    board.remove((FLOW, 0))
    board.move(a_slot(0), MOVED_AFTER_S + 2)
    assert (board.slots_of(0), board.slots_of(1)) == ((), ((FLOW, 1),))


def test_no_slot_moves_while_no_lane_runs() -> None:
    board = a_cluster_board()
    board.put(a_slot(0))
    token(board, 0)
    engine_says(board, 1.0, executors=0, unplaced=(0,))
    assert board.in_vain(1000.0) == ()


def test_new_slots_keep_away_from_a_lane_that_waited_in_vain_for_a_while() -> None:
    board = a_cluster_board()
    board.put(a_slot(0))
    board.put(a_slot(1))
    token(board, 1)
    session = grant(board, 0, 0.0)
    engine_says(board, 1.0, executors=1, unplaced=(1,))
    moved_at = MOVED_AFTER_S + 1
    board.move(a_slot(1), moved_at)
    board.put(a_slot(2))
    assert board.slots_of(1) == ()
    report(board, 0, session, moved_at + STARVED_FOR_S)
    board.expire(moved_at + STARVED_FOR_S + 1)
    board.put(a_slot(3))
    assert board.slots_of(1) == ((FLOW, 3),)


def test_a_silent_lane_without_an_executor_is_not_waited_for() -> None:
    board = a_cluster_board()
    board.put(a_slot(0))
    session = grant(board, 0)
    report(board, 0, session, 5.0)
    engine_says(board, 5.0, executors=0, unplaced=(0,))
    assert board.expire(5.0 + LOST_AFTER_S) == [], "Spark's word may be older than the lease"
    (sentence,) = board.expire(6.0 + LOST_AFTER_S)
    assert "lane 0 lost its executor" in sentence
    with pytest.raises(LeaseRefusedError):
        board.check(0, session)


def test_only_the_session_of_its_lease_speaks_for_a_lane() -> None:
    board = a_board()
    board.put(a_slot(0))
    for secret in ("", "guess"):
        with pytest.raises(LeaseRefusedError):
            board.check(0, secret)
    session = grant(board, 0)
    board.check(0, session)
