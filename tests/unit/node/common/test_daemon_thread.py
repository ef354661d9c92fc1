from __future__ import annotations

import asyncio
import threading

import pytest

from mm2.node.common.daemon_thread import in_daemon_thread
from tests.lab.waiting import until


async def test_the_result_and_the_error_of_the_call() -> None:
    def fail() -> None:
        raise OSError("stale file handle")

    assert await in_daemon_thread(lambda: 7, "seven") == 7
    with pytest.raises(OSError, match="stale file handle"):
        await in_daemon_thread(fail, "fail")


def test_a_call_that_hangs_delays_neither_its_cancellation_nor_the_end_of_the_event_loop() -> None:
    """With `asyncio.to_thread`, `asyncio.run` does not return before the call does."""
    started, hanging = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        hanging.wait(60)

    async def main() -> threading.Thread:
        caller = asyncio.create_task(in_daemon_thread(hang, "hanging mount"))
        await until(started.is_set, 10, "the call has begun")
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        return next(thread for thread in threading.enumerate() if thread.name == "hanging mount")

    thread = asyncio.run(main())
    try:
        assert thread.is_alive(), "the event loop has ended although the call hangs"
        assert thread.daemon, "the interpreter does not wait for it either"
    finally:
        hanging.set()
        thread.join(10)
