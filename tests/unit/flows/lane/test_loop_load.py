"""How busy a lane is, by its event loop."""

from __future__ import annotations

import asyncio
import time

from flows.lane import loop_load
from flows.lane.loop_load import BusyShare, LaneLoop

WORK_S = 0.05


async def shares() -> tuple[float | None, float | None]:
    """Return the share of a time without work, and of one with."""
    busy = BusyShare(asyncio.get_running_loop(), time.monotonic())
    await asyncio.sleep(2 * WORK_S)
    idle = busy.take(time.monotonic())
    began = time.process_time()
    while time.process_time() - began < WORK_S:
        pass
    return idle, busy.take(time.monotonic())


def test_a_lane_that_works_is_busy_and_one_that_waits_is_not() -> None:
    with asyncio.Runner(loop_factory=LaneLoop) as runner:
        idle, working = runner.run(shares())
    assert idle is not None
    assert working is not None
    assert idle < 0.9 < working <= 1.0


async def test_of_another_loop_it_is_unknown() -> None:
    assert await shares() == (None, None)


def test_two_questions_at_the_same_time() -> None:
    async def ask() -> float | None:
        busy = BusyShare(asyncio.get_running_loop(), 1.0)
        return busy.take(1.0)

    with asyncio.Runner(loop_factory=LaneLoop) as runner:
        assert runner.run(ask()) is None


def test_a_lane_runs_to_its_end_in_such_a_loop() -> None:
    found: list[bool] = []

    async def lane() -> None:
        found.append(isinstance(asyncio.get_running_loop(), LaneLoop))

    loop_load.run(lane())
    assert found == [True]
