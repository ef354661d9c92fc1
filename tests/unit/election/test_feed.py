"""How a membership ends by its clock, and what a reader hears of it."""

from __future__ import annotations

import asyncio
import time

from mm2.election.feed import MembershipFeed
from mm2.election.protocol import Joined, Lost, Membership

JOINING = Lost(reason="joining")
OVERDUE = Lost(reason="no contact")


def joined(generation: int) -> Joined:
    return Joined(generation=generation, member_id="a", leader_id="a", members={}, assignment=None)


def now() -> float:
    return asyncio.get_running_loop().time()


async def heard(feed: MembershipFeed) -> list[Membership]:
    feed.close()
    return [change async for change in feed.changes()]


async def test_every_change_is_heard_once_and_in_order() -> None:
    feed = MembershipFeed(JOINING, lambda: OVERDUE)
    for change in (joined(1), joined(1), joined(2), JOINING):
        feed.say(change)
    assert await heard(feed) == [JOINING, joined(1), joined(2), JOINING]


async def test_the_clock_ends_a_membership_that_nobody_proves() -> None:
    feed = MembershipFeed(JOINING, lambda: OVERDUE)
    feed.say(joined(1))
    feed.prove(since=now(), lasting_ms=50)
    changes = feed.changes()
    assert [await anext(changes) for _ in range(3)] == [JOINING, joined(1), OVERDUE]
    assert feed.membership == OVERDUE


async def test_who_asks_after_the_end_learns_it_before_the_loop_came_to_it() -> None:
    feed = MembershipFeed(JOINING, lambda: OVERDUE)
    feed.say(joined(1))
    feed.prove(since=now(), lasting_ms=20)
    assert isinstance(feed.membership, Joined)
    time.sleep(0.03)  # noqa: ASYNC251 - as if the process had been stopped
    after: Membership = feed.membership
    assert after == OVERDUE
    assert await heard(feed) == [JOINING, joined(1), OVERDUE]


async def test_a_proof_counts_from_when_it_was_asked_for() -> None:
    feed = MembershipFeed(JOINING, lambda: OVERDUE)
    feed.say(joined(1))
    feed.prove(since=now() - 1.0, lasting_ms=900)
    assert feed.membership == OVERDUE


async def test_the_clock_says_nothing_of_who_is_no_member() -> None:
    feed = MembershipFeed(JOINING, lambda: OVERDUE)
    feed.prove(since=now() - 1.0, lasting_ms=1)
    assert feed.membership == JOINING


async def test_a_stopped_clock_ends_nothing() -> None:
    feed = MembershipFeed(JOINING, lambda: OVERDUE)
    feed.say(joined(1))
    feed.prove(since=now() - 1.0, lasting_ms=1)
    feed.stop_clock()
    assert feed.membership == joined(1)
