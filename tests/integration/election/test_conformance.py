"""Conformance of all election backends, on real servers, to the rules of `mm2.election.protocol.Election`."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace

import pytest

from mm2.election.protocol import Json, Lost, MemberInfo
from tests.integration.election import member_process
from tests.integration.election.conftest import Join
from tests.integration.election.member_process import MemberProcess
from tests.integration.election.members import SOON, Watched, info, leader_first, until_together, watched
from tests.integration.election.stores import SESSION_MS, Store, elect
from tests.lab.freezing import freeze, frozen, thaw
from tests.lab.waiting import require_within, until

SESSION = SESSION_MS / 1000
LATE = 3.0  # extra seconds for a busy machine


@pytest.fixture
def processes(store: Store, name: str) -> Iterator[ExitStack]:
    with ExitStack() as ends:
        yield ends


def start(processes: ExitStack, store: Store, name: str, node: str) -> MemberProcess:
    member = member_process.start(store, name, node)
    processes.callback(member.process.kill_group)
    return member


def one_leader_each(*members: Watched) -> bool:
    """Return whether all members received the same leader in every generation."""
    leaders: dict[int, set[str]] = {}
    for one in members:
        for joined in one.memberships:
            leaders.setdefault(joined.generation, set()).add(joined.leader_id)
    return all(len(ids) == 1 for ids in leaders.values())


async def test_first_member_leads_and_all_see_the_same(join: Join) -> None:
    async with join("one") as one:
        first = await one.until_joined()
        assert first.is_leader
        assert first.leader_node == "one"
        assert first.assignment == {"all": ["one"], "you": "one"}

        async with join("two") as two:
            await until_together(one, two)
            assert one.joined is not None
            assert two.joined is not None
            assert one.joined.generation == two.joined.generation > first.generation
            assert (one.joined.is_leader, two.joined.is_leader) == (True, False)
            assert two.joined.leader_node == "one"
            assert two.joined.assignment == {"all": ["one", "two"], "you": "two"}
            assert two.joined.members == one.joined.members

        await until(lambda: one.sees("one"), LATE, "two left, so its session expiry is not awaited")
    assert one.losses == []


async def test_new_leader_when_the_leader_leaves(join: Join) -> None:
    async with AsyncExitStack() as first, join("two") as two:
        one = await first.enter_async_context(join("one"))
        await until_together(one, two)
        leader, follower = leader_first(one, two)
        await leader.election.__aexit__(None, None, None)
        assert len((await follower.until_joined(leading=True, within=LATE)).members) == 1


async def test_each_generation_is_delivered_once_and_identically(join: Join) -> None:
    async with join("one") as one, join("two") as two, join("three") as three:
        await until_together(one, two, three)
        for task in "abcde":
            one.election.update(info("one", task))
            two.election.update(info("two", task))
        three.election.update(info("three", "z"))

        def all_received() -> bool:
            expected = {"one": ("e",), "two": ("e",), "three": ("z",)}
            last = [member.joined for member in (one, two, three)]
            return all(each and {m.node_id: m.tasks for m in each.members.values()} == expected for each in last)

        await until(all_received, SOON, "all have the latest member info of all")
        await until_together(one, two, three)
        for member in (one, two, three):
            generations = [joined.generation for joined in member.memberships]
            assert generations == sorted(set(generations))
            assert all(isinstance(j.assignment, dict) for j in member.memberships)
        assert one_leader_each(one, two, three)


async def test_changed_member_info_starts_a_rebalance(join: Join) -> None:
    async with join("one") as one, join("two") as two:
        await until_together(one, two)
        follower = leader_first(one, two)[1]
        assert follower.joined is not None
        before = follower.joined.generation
        node = follower.joined.members[follower.joined.member_id].node_id

        follower.election.update(replace(info(node), tasks=("b", "a")))

        def all_received() -> bool:
            known = [any(m.tasks == ("a", "b") for m in w.joined.members.values()) for w in (one, two) if w.joined]
            return known == [True, True]

        await until(all_received, SOON, "both have the new tasks")
        after = follower.joined.generation
        assert after > before

        follower.election.update(replace(info(node), tasks=("a", "b")))
        follower.election.request_round()
        await asyncio.sleep(1.0)  # five heartbeats, in which nothing must happen
        assert follower.joined.generation == after


async def test_quiet_update_waits_for_the_next_rebalance(join: Join) -> None:
    """A member's applied epoch changes with every rebalance, so it must not start one."""
    async with join("one") as one, join("two") as two:
        await until_together(one, two)
        leader, follower = leader_first(one, two)
        assert follower.joined is not None
        before = follower.joined.generation
        node = follower.joined.members[follower.joined.member_id].node_id

        follower.election.update(replace(info(node), epoch=before), quiet=True)
        await asyncio.sleep(1.0)  # five heartbeats, in which nothing must happen
        assert follower.joined.generation == before
        leader.election.request_round()
        await follower.until_joined(after=before)

        def all_received() -> bool:
            return all(w.joined and any(m.epoch == before for m in w.joined.members.values()) for w in (one, two))

        await until(all_received, SOON, "both receive it with the next rebalance")


async def test_leader_assigns_for_its_generation(store: Store, name: str) -> None:
    def generation_for_all(generation: int, members: Mapping[str, MemberInfo]) -> Mapping[str, Json]:
        return dict.fromkeys(members, generation)

    async with (
        elect(store.kind, store.where, name, info("one"), generation_for_all) as election,
        watched(election) as one,
    ):
        first = await one.until_joined()
        assert first.assignment == first.generation
        one.election.request_round()
        second = await one.until_joined(after=first.generation)
        assert second.assignment == second.generation


async def test_leader_can_request_a_rebalance(join: Join) -> None:
    async with join("one") as one:
        before = await one.until_joined()
        one.election.request_round()
        await one.until_joined(after=before.generation)


async def test_killed_leader_is_replaced_after_session_timeout(
    join: Join, store: Store, name: str, processes: ExitStack
) -> None:
    dying = start(processes, store, name, "dead")
    await dying.until("Joined", SOON)
    async with join("two") as two:
        await until(lambda: two.sees("dead", "two"), SOON, "both are members")
        assert two.joined is not None
        assert not two.joined.is_leader
        dying.process.kill()
        mine = await two.until_joined(leading=True)
        assert mine.assignment == {"all": ["two"], "you": "two"}
        assert mine.generation > dying.leads()[-1][1]
    assert two.losses == []


async def test_member_suspended_beyond_its_session_no_longer_leads(
    join: Join, store: Store, name: str, processes: ExitStack
) -> None:
    zombie = start(processes, store, name, "zombie")
    await zombie.until("Joined", SOON)
    async with join("two") as two:
        await until(lambda: two.sees("zombie", "two"), SOON, "both are members")
        freeze(zombie.process)
        mine = await two.until_joined(leading=True)
        replaced = time.monotonic()
        thaw(zombie.process)
        lost = await zombie.until("Lost", SOON, after=replaced)
        back = await zombie.until("Joined", SOON, after=lost["at"])
        assert back["generation"] > mine.generation
        assert back["leader"] == "two"
        assert [when for when, _ in zombie.leads() if when >= replaced] == []
    assert two.losses == []


@pytest.mark.long  # test_member_suspended_beyond_its_session_no_longer_leads
async def test_leader_with_blocked_event_loop_is_replaced(
    join: Join, store: Store, name: str, processes: ExitStack
) -> None:
    hanging = start(processes, store, name, "hanging")
    await hanging.until("Joined", SOON)
    async with join("two") as two:
        await until(lambda: two.sees("hanging", "two"), SOON, "both are members")
        hanging.process.signal(signal.SIGUSR1)
        await two.until_joined(leading=True)


async def test_membership_expires_locally_while_store_hangs(join: Join, store: Store) -> None:
    async with join("one") as one, join("two") as two:
        await until_together(one, two)
        leader, follower = leader_first(one, two)
        assert leader.joined is not None
        before = leader.joined.generation
        with frozen(store.process):
            await until(lambda: one.losses and two.losses, SESSION + LATE, "both detect that their session has expired")
            assert "no contact" in leader.losses[0].reason
            assert isinstance(leader.election.membership, Lost)
        await until_together(one, two)
        assert min(each.joined.generation for each in (one, two) if each.joined) > before
        assert one_leader_each(one, two)
    assert follower.losses


async def test_short_hang_of_the_store_has_no_effect(join: Join, store: Store) -> None:
    async with join("one") as one, join("two") as two:
        await until_together(one, two)
        began = time.monotonic()
        with frozen(store.process):
            await asyncio.sleep(SESSION / 4)  # the duration of the freeze is what is tested
        require_within(time.monotonic() - began, SESSION / 2, "the store hangs only for a quarter of a session")
        leader = leader_first(one, two)[0]
        assert leader.joined is not None
        leader.election.request_round()
        await leader.until_joined(after=leader.joined.generation)
        await until_together(one, two)
        assert one.losses == two.losses == []


async def test_store_restart(join: Join, store: Store) -> None:
    async with join("one") as one, join("two") as two:
        await until_together(one, two)
        generation = one.joined.generation if one.joined else 0
        await asyncio.to_thread(store.restart)
        one.election.update(info("one", "a"))
        two.election.update(info("two", "b"))
        await one.until_joined(after=generation)
        await until_together(one, two)
        assert one_leader_each(one, two)


@pytest.mark.long  # test_store_restart
async def test_member_waits_for_unavailable_store(join: Join, store: Store) -> None:
    await asyncio.to_thread(store.process.stop)
    try:
        async with join("one") as one:

            def refused() -> bool:
                reasons = [event.reason for event in one.history if isinstance(event, Lost)]
                return any("refused" in reason for reason in reasons)

            await until(refused, SOON, "the member reports the error")
            await asyncio.to_thread(store.restart)
            await one.until_joined()
    finally:
        if not store.process.running:
            await asyncio.to_thread(store.restart)


async def test_leaving_is_fast_while_store_hangs(join: Join, store: Store) -> None:
    async with AsyncExitStack() as leaving:
        one = await leaving.enter_async_context(join("one"))
        await one.until_joined()
        with frozen(store.process):
            began = time.monotonic()
            await one.election.__aexit__(None, None, None)
            require_within(time.monotonic() - began, 10.0, "the member leaves")


async def test_assignment_error_is_raised_to_the_node(store: Store, name: str) -> None:
    def broken(_generation: int, members: Mapping[str, MemberInfo]) -> Mapping[str, Json]:
        raise ZeroDivisionError(f"{len(members)} members")

    async with elect(store.kind, store.where, name, info("one"), broken) as election, election:
        with pytest.raises(ZeroDivisionError):
            async for _ in election.events():
                pass
        assert isinstance(election.membership, Lost)
