from __future__ import annotations

import asyncio

import pytest

from flows.lane.byte_budget import ByteBudget


async def turn() -> None:
    """Let every task run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_promise_waits_for_room_in_the_order_of_requests() -> None:
    budget = ByteBudget(100)
    assert await budget.promise(50) == 50
    assert await budget.promise(50) == 50
    order: list[str] = []

    async def ask(name: str, wanted: int) -> None:
        await budget.promise(wanted)
        order.append(name)

    tasks = [asyncio.create_task(ask("large", 40)), asyncio.create_task(ask("small", 1))]
    await turn()
    budget.release(4)
    await turn()
    assert order == [], "the small one does not overtake (B)"
    budget.release(41)
    await turn()
    assert order == ["large", "small"]
    assert budget.used == 96
    await asyncio.gather(*tasks)


async def test_a_promise_is_at_most_a_share() -> None:
    budget = ByteBudget(1_000)
    with budget.fetcher(), budget.fetcher():
        assert budget.share == 250
        assert await budget.promise(10_000) == 250
    assert budget.share == 500


async def test_remaining_room_is_promised_if_it_is_worth_a_fetch() -> None:
    budget = ByteBudget(1_000)
    budget.release(-600)  # more than half is held
    assert await budget.promise(500) == 400
    budget.release(60)
    waiting = asyncio.create_task(budget.promise(500))
    await turn()
    assert not waiting.done(), "60 of 500 is not"
    budget.release(10)
    assert await waiting == 70


async def test_bytes_beyond_a_promise_count_against_the_next_one() -> None:
    budget = ByteBudget(100)
    promised = await budget.promise(50)
    budget.release(promised - 150)  # a first batch larger than requested
    assert budget.used == 150
    waiting = asyncio.create_task(budget.promise(10))
    await turn()
    assert not waiting.done()
    budget.release(150)
    assert await waiting == 10


async def test_a_cancelled_wait_leaves_the_queue() -> None:
    budget = ByteBudget(100)
    await budget.promise(50)
    await budget.promise(50)
    first, second = asyncio.create_task(budget.promise(50)), asyncio.create_task(budget.promise(50))
    await turn()
    first.cancel()
    budget.release(50)
    await turn()
    assert second.done()
    served_and_cancelled = asyncio.create_task(budget.promise(50))
    await turn()
    budget.release(50)
    served_and_cancelled.cancel()
    await turn()
    assert budget.used == 50, "what it was just promised came back"


async def test_the_wait_of_the_first_in_the_queue() -> None:
    budget = ByteBudget(10)
    now = asyncio.get_running_loop().time
    assert budget.waited(now()) == 0
    await budget.promise(5)
    await budget.promise(5)
    waiting = asyncio.create_task(budget.promise(5))
    await turn()
    assert budget.waited(now() + 7) == pytest.approx(7, abs=0.5)
    budget.release(5)
    await waiting
    assert budget.waited(now() + 7) == 0


def test_a_budget_must_be_worth_sharing() -> None:
    with pytest.raises(ValueError, match="budget of 1 bytes"):
        ByteBudget(1)


async def test_bytes_are_held_from_the_end_of_the_request_to_their_release() -> None:
    budget = ByteBudget(100)
    first = await budget.promise(100)
    waiting = asyncio.create_task(budget.promise(60))
    await turn()
    assert (budget.used, budget.held) == (100, 0), "a long poll holds nothing"
    budget.settle(first, kept=30)
    second = await waiting
    assert (budget.used, budget.held) == (30 + second, 30)
    budget.settle(second, kept=0)
    budget.release(30)
    assert (budget.used, budget.held) == (0, 0)
