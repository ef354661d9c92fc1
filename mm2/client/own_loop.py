"""An event loop on its own thread, for programs without a loop, or with one that must not be used."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from mm2.kafka.errors import ClusterClosed

T = TypeVar("T")

_Opened = concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]

_ENDS_WITHIN = 10.0  # seconds: connections wait little more than one second for their peer to close


class OwnLoop:
    """Keeps ``resource`` open on its loop from construction to ``close``.

    A. The constructor raises exceptions from opening the resource, and then leaves no thread.
    B. After ``close``, requests in progress and later ones raise ClusterClosed.
    C. A loop without references ends by itself, and no loop keeps the program from exiting.
    """

    def __init__(self, resource: AbstractAsyncContextManager[object], name: str) -> None:
        opened: _Opened = concurrent.futures.Future()
        self._thread = threading.Thread(target=_run, args=(resource, opened), name=name, daemon=True)
        self._thread.start()
        try:
            self._loop, closing = opened.result()
        except Exception:
            self._thread.join(_ENDS_WITHIN)
            raise
        self._asking = threading.Lock()
        self._end = weakref.finalize(self, self._loop.call_soon_threadsafe, closing.set)
        self._end.atexit = False  # the interpreter takes the thread with it

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """Run ``question`` on the loop and return its result. Any thread except the loop's own can call this."""
        with self._asking:
            if not self._end.alive:
                question.close()
                raise ClusterClosed("the client is closed")
            answer = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            return answer.result()
        except concurrent.futures.CancelledError:
            raise ClusterClosed("the client is closed") from None
        except BaseException:
            answer.cancel()  # for example when Ctrl-C interrupts the wait
            raise

    def close(self) -> None:
        """Close the resource and end the thread."""
        with self._asking:
            self._end()
        self._thread.join(_ENDS_WITHIN)


def _run(resource: AbstractAsyncContextManager[object], opened: _Opened) -> None:
    asyncio.run(_hold(resource, opened))


async def _hold(resource: AbstractAsyncContextManager[object], opened: _Opened) -> None:
    closing = asyncio.Event()
    try:
        await resource.__aenter__()
    except Exception as error:  # noqa: BLE001 - passed to the waiting thread
        opened.set_exception(error)
        return
    try:
        opened.set_result((asyncio.get_running_loop(), closing))
        await closing.wait()
    finally:
        await resource.__aexit__(None, None, None)
