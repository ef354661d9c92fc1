"""Whether a node can begin a slot at once, and how those who wait hear of changes."""

from __future__ import annotations

import asyncio

import pytest

from mm2.core.lease import LaneProgress, LeaseRequest
from mm2.node.desk import RETURNS_WITHIN_S, Desk
from mm2.node.lanes import LaneBoard


def a_desk() -> Desk:
    return Desk(LaneBoard(lanes=3, buffer_bytes=1 << 20, new_secret=lambda: "secret"), capacity=2)


def test_a_node_is_ready_while_a_lane_runs_and_a_little_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr("mm2.node.desk.time.monotonic", lambda: now)
    one = a_desk()
    assert not one.ready
    one.board.keep_warm(1)
    one.board.engine_orders(now)
    session = one.board.grant(0, LeaseRequest(token="secret", attempt=0, pid=1), now)
    assert not one.ready
    one.board.lane_report(0, session, LaneProgress(version=1, pid=1), now)
    assert one.ready
    one.board.engine_lost(now)
    now += RETURNS_WITHIN_S
    assert one.ready
    now += 0.1
    assert not one.ready


def test_as_many_lanes_are_kept_warm_as_the_node_offers() -> None:
    one = a_desk()
    assert one.board.engine_orders(0.0).lanes == ()
    one.keep_warm()
    assert [start.lane for start in one.board.engine_orders(0.0).lanes] == [0, 1]


async def test_who_waits_hears_of_a_change() -> None:
    one = a_desk()
    waiting = asyncio.create_task(one.changed(60))
    await asyncio.sleep(0)
    one.wake()
    assert await waiting
    assert not await one.changed(0.01)


async def test_a_change_between_looking_and_waiting_is_not_missed() -> None:
    one = a_desk()
    news = one.news
    one.wake()
    assert await one.changed(60, news)
    assert not await one.changed(0.01, one.news)
