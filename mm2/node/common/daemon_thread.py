"""Blocking calls that may hang, such as those on a network file system."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(call: Callable[[], T], name: str) -> T:
    """Return the result of ``call``, which runs in a thread of its own.

    The thread does not delay the exit of the process, unlike one of `asyncio.to_thread`: the event loop and the
    interpreter wait for those to end. The caller can be cancelled meanwhile; the thread is then left alone.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: Exception | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]  # without an error it is the value of the call

    def run() -> None:
        value, error = None, None
        try:
            value = call()
        except Exception as raised:  # noqa: BLE001 raised by the caller
            error = raised
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await result
