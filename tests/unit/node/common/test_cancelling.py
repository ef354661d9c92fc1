from __future__ import annotations

import asyncio

from mm2.node.common.cancelling import cancel_and_wait


async def test_a_task_that_misses_its_cancellation_is_cancelled_again() -> None:
    missed: list[None] = []

    async def retrying() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if len(missed) == 2:
                    raise
                missed.append(None)

    async def failing() -> None:
        raise RuntimeError("its error is not raised")

    tasks = [asyncio.create_task(retrying()), asyncio.create_task(failing())]
    await asyncio.sleep(0)
    await cancel_and_wait(tasks, again_s=0.01)
    assert all(task.done() for task in tasks)
    assert len(missed) == 2
    assert tasks[1].exception() is not None


async def test_no_task_to_cancel() -> None:
    await cancel_and_wait([])
