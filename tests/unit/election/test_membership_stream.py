"""The membership deadline, and the events that readers receive."""

from __future__ import annotations

import time

from mm2.election.membership_stream import MembershipStream
from mm2.election.protocol import Joined, Lost, Membership
from mm2.kafka.clock import session_clock

JOINING = Lost(reason="joining")
OVERDUE = Lost(reason="no contact")


def joined(generation: int) -> Joined:
    return Joined(generation=generation, member_id="a", leader_id="a", members={}, assignment=None)


async def received(feed: MembershipStream) -> list[Membership]:
    feed.close()
    return [change async for change in feed.changes()]


async def test_every_change_is_received_once_and_in_order() -> None:
    feed = MembershipStream(JOINING, lambda: OVERDUE)
    for change in (joined(1), joined(1), joined(2), JOINING):
        feed.publish(change)
    assert await received(feed) == [JOINING, joined(1), joined(2), JOINING]


async def test_membership_ends_at_its_deadline() -> None:
    feed = MembershipStream(JOINING, lambda: OVERDUE)
    feed.publish(joined(1))
    feed.extend(since=session_clock(), lasting_ms=50)
    changes = feed.changes()
    assert [await anext(changes) for _ in range(3)] == [JOINING, joined(1), OVERDUE]
    assert feed.membership == OVERDUE


async def test_expired_membership_is_visible_before_the_timer_runs() -> None:
    feed = MembershipStream(JOINING, lambda: OVERDUE)
    feed.publish(joined(1))
    feed.extend(since=session_clock(), lasting_ms=500)
    assert isinstance(feed.membership, Joined)
    time.sleep(0.55)  # noqa: ASYNC251 - as if the process had been stopped
    after: Membership = feed.membership
    assert after == OVERDUE
    assert await received(feed) == [JOINING, joined(1), OVERDUE]


async def test_confirmation_counts_from_the_time_of_the_request() -> None:
    feed = MembershipStream(JOINING, lambda: OVERDUE)
    feed.publish(joined(1))
    feed.extend(since=session_clock() - 1.0, lasting_ms=900)
    assert feed.membership == OVERDUE


async def test_deadline_does_not_apply_without_membership() -> None:
    feed = MembershipStream(JOINING, lambda: OVERDUE)
    feed.extend(since=session_clock() - 1.0, lasting_ms=1)
    assert feed.membership == JOINING


async def test_stopped_clock_does_not_end_the_membership() -> None:
    feed = MembershipStream(JOINING, lambda: OVERDUE)
    feed.publish(joined(1))
    feed.extend(since=session_clock() - 1.0, lasting_ms=1)
    feed.stop_clock()
    assert feed.membership == joined(1)


async def test_certain_time_counts_from_the_answered_request_and_ends_with_the_membership() -> None:
    feed = MembershipStream(JOINING, lambda: OVERDUE)
    feed.extend(since=session_clock(), lasting_ms=60_000)
    assert feed.certain_for() == 0  # not a member yet
    assert session_clock() - 1 < feed.contact <= session_clock()
    feed.publish(joined(1))
    feed.extend(since=session_clock() - 20, lasting_ms=60_000)
    assert 0 < feed.certain_for() <= 40
    feed.publish(JOINING)
    assert feed.certain_for() == 0
    feed.publish(joined(2))
    feed.extend(since=session_clock() - 61, lasting_ms=60_000)
    assert feed.certain_for() == 0
    feed.publish(joined(3))
    feed.stop_clock()
    assert feed.certain_for() == 0


async def test_session_clock_counts_while_the_machine_is_suspended() -> None:
    """The clock is never behind the monotonic one, which stops meanwhile."""
    before = time.monotonic()
    assert session_clock() >= before


async def test_membership_ends_after_a_suspension() -> None:
    now = 1_000.0
    feed = MembershipStream(JOINING, lambda: OVERDUE, clock=lambda: now)
    feed.publish(joined(1))
    feed.extend(since=now, lasting_ms=60_000)
    assert feed.certain_for() == 60
    now += 61
    assert feed.certain_for() == 0
    assert feed.membership == OVERDUE
    feed.close()
