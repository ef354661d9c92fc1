from __future__ import annotations

import asyncio

from mm2.node.common.wakeup import Wakeup


async def test_a_sleep_without_a_ring() -> None:
    assert not await Wakeup().sleep(0.01)


async def test_a_ring_ends_the_sleep() -> None:
    alarm = Wakeup()
    sleeper = asyncio.create_task(alarm.sleep(60))
    await asyncio.sleep(0)
    assert not sleeper.done()
    alarm.ring()
    assert await sleeper
    assert not await alarm.sleep(0.01)


async def test_rings_between_sleeps_end_one_sleep() -> None:
    alarm = Wakeup()
    alarm.ring()
    alarm.ring()
    assert await alarm.sleep(60)
    assert not await alarm.sleep(0)
