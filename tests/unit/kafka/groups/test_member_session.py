"""How long a member is certain of its partitions, and when its session ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mm2.core.mirror1.settings import GroupMembership
from mm2.kafka.clock import session_clock
from mm2.kafka.groups.consumer_member import MemberSession
from tests.lab.waiting import until

GROUP = GroupMembership(group_id="g", session_timeout_ms=10_000, max_poll_interval_ms=30_000)


class Clock:
    """The session clock, which the test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ends() -> list[str]:
    return []


@pytest.fixture
async def session(ends: list[str], clock: Clock) -> MemberSession:
    return MemberSession(GROUP, ends.append, clock=clock)


async def test_the_session_starts_when_the_request_was_sent(session: MemberSession, clock: Clock) -> None:
    session.prove(clock.now - 4)
    assert session.certain_for() == 0, "no partitions yet"
    session.hold()
    assert session.certain_for() == 6
    session.prove(clock.now - 5)
    assert session.certain_for() == 6, "an earlier request does not shorten it"
    clock.now += 2
    assert session.certain_for() == 4
    session.release()
    assert session.certain_for() == 0


async def test_a_rebalance_limits_it_to_max_poll_interval(
    session: MemberSession, clock: Clock, ends: list[str]
) -> None:
    session.prove(clock.now)
    session.hold()
    for _ in range(5):
        clock.now += 5
        session.prove(clock.now, rebalancing=True)
    assert session.certain_for() == 5, "30 s after the last response without a rebalance"
    clock.now += 5
    session.prove(clock.now, rebalancing=True)
    (reason,) = ends
    assert "max.poll.interval.ms (30000 ms)" in reason
    assert session.certain_for() == 0


async def test_a_session_that_is_over_is_not_extended(session: MemberSession, clock: Clock, ends: list[str]) -> None:
    """The process was suspended: no timer has run yet when the response is read."""
    session.prove(clock.now)
    session.hold()
    clock.now += 60
    assert session.certain_for() == 0
    session.prove(clock.now)
    (reason,) = ends
    assert "session.timeout.ms (10000 ms)" in reason
    assert session.certain_for() == 0, "until it holds partitions again"
    session.hold()
    assert session.certain_for() == 10


async def test_the_timer_ends_it_once(ends: list[str]) -> None:
    quick = MemberSession(GroupMembership(group_id="g", session_timeout_ms=50), ends.append)
    quick.prove(session_clock())
    quick.hold()
    ended: Callable[[], bool] = lambda: bool(ends)  # noqa: E731
    await until(ended, 5.0, "the session has ended")
    await asyncio.sleep(0.1)
    assert len(ends) == 1


async def test_a_timer_that_is_early_waits_again(session: MemberSession, clock: Clock, ends: list[str]) -> None:
    """The loop's clock does not count suspension, so the two differ."""
    session.prove(clock.now - 9.99)
    session.hold()
    await asyncio.sleep(0.05)
    assert ends == [], "the session clock has not moved"
    clock.now += 1
    ended: Callable[[], bool] = lambda: bool(ends)  # noqa: E731
    await until(ended, 5.0, "the session has ended")
