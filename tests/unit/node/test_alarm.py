from __future__ import annotations

import asyncio

from mm2.node.alarm import Alarm


async def test_a_pause_nobody_cuts_short() -> None:
    assert not await Alarm().sleep(0.01)


async def test_a_ring_ends_the_pause() -> None:
    alarm = Alarm()
    sleeper = asyncio.create_task(alarm.sleep(60))
    await asyncio.sleep(0)
    assert not sleeper.done()
    alarm.ring()
    assert await sleeper
    assert not await alarm.sleep(0.01)


async def test_rings_while_nobody_sleeps_count_for_one_pause() -> None:
    alarm = Alarm()
    alarm.ring()
    alarm.ring()
    assert await alarm.sleep(60)
    assert not await alarm.sleep(0)
