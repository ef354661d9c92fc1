"""Whether a node can start a source task immediately, and how changes wake waiters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from mm2.core.lanes.engine_orders import EngineReport, EngineRole
from mm2.core.lanes.lease import LeaseRefusedError, LeaseRequest
from mm2.core.lanes.progress_reports import LaneProgress
from mm2.node.engine.lane_board import LaneBoard
from mm2.node.engine.lane_readiness import RETURNS_WITHIN_S
from mm2.node.engine.lease_service import LeaseService, Wake


def lease_service(clock: Callable[[], float] = time.monotonic) -> LeaseService:
    board = LaneBoard(lanes=3, buffer_bytes=1 << 20, new_secret=lambda: "secret")
    return LeaseService(board, capacity=2, clock=clock)


def test_a_node_is_ready_while_a_lane_runs_and_shortly_after() -> None:
    now = 1_000.0
    one = lease_service(lambda: now)
    assert not one.ready
    one.board.keep_running(1)
    one.board.engine_orders(now)
    session = one.board.grant(0, LeaseRequest(token="secret", nonce="n"), now)
    assert not one.ready
    one.board.lane_report(0, session, LaneProgress(version=1, pid=1), now)
    assert one.ready
    one.board.engine_lost(now)
    for _ in range(int(RETURNS_WITHIN_S)):
        now += 1.0
        assert one.ready
    now += 0.1
    assert not one.ready


def test_as_many_lanes_are_kept_running_as_the_node_offers() -> None:
    one = lease_service()
    assert one.board.engine_orders(0.0).lanes == ()
    one.keep_all_lanes_running()
    assert [start.lane for start in one.board.engine_orders(0.0).lanes] == [0, 1]


async def test_a_change_wakes_those_who_wait_for_its_reason() -> None:
    one = lease_service()
    any_reason, released = (
        asyncio.create_task(one.wait_for_change(60)),
        asyncio.create_task(one.wait_for_change(60, {Wake.RELEASED})),
    )
    await asyncio.sleep(0)
    one.wake(Wake.REPORT)
    assert await any_reason == {Wake.REPORT}
    assert not released.done()
    one.wake(Wake.REPORT, Wake.RELEASED)
    assert await released == {Wake.RELEASED}
    assert await one.wait_for_change(0.01) == frozenset()


async def test_a_change_between_reading_and_waiting_is_not_missed() -> None:
    one = lease_service()
    changed = one.change_event({Wake.REPORT, Wake.LOSSES})
    one.wake(Wake.LOSSES)
    one.wake(Wake.REPORT)
    one.wake(Wake.TURN)
    assert await changed.wait(60) == {Wake.LOSSES, Wake.REPORT}
    assert await one.change_event({Wake.REPORT}).wait(0.01) == frozenset()


async def test_lanes_that_are_to_keep_running_are_ordered_at_once() -> None:
    one = lease_service()
    one.board.engine_orders(0.0)
    report = EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None)
    asking = asyncio.create_task(one.engine(EngineRole.MAIN, report, 60.0))
    await asyncio.sleep(0)
    one.keep_all_lanes_running()
    async with asyncio.timeout(10):
        assert [start.lane for start in (await asking).lanes] == [0, 1]


@pytest.mark.parametrize("secret", ["schlüssel", "\udcff", "", "\N{GRINNING FACE}"])
def test_a_secret_of_any_characters_is_refused(secret: str) -> None:
    one = lease_service()
    one.board.keep_running(1)
    one.board.engine_orders(0.0)
    with pytest.raises(LeaseRefusedError):
        one.check_engine(secret)
    with pytest.raises(LeaseRefusedError):
        one.board.grant(0, LeaseRequest(token=secret, nonce="one"), 0.0)
    one.board.grant(0, LeaseRequest(token="secret", nonce="one"), 0.0)
    with pytest.raises(LeaseRefusedError):
        one.board.check(0, secret)
    assert [one.check_engine(one.engine_tokens[engine]) for engine in EngineRole] == list(EngineRole)
