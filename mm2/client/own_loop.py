"""An event loop on a thread of its own, for programs that have no loop, or one that must not be touched."""

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

_ENDS_WITHIN = 10.0  # seconds: connections wait little more than one for their peer's goodbye


class OwnLoop:
    """Keeps ``resource`` open on its loop from construction to ``close``.

    A. What opening it raises, the constructor raises, and leaves no thread.
    B. Questions are answered until ``close``, those under way then raise ClusterClosed, and so do later ones.
    C. A loop that nobody refers to any more ends by itself, and none keeps the program from ending.
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
        """The result of ``question``, which runs on the loop. Any thread but the loop's own may ask."""
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
            answer.cancel()  # as when Ctrl-C ends the waiting
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
    except Exception as error:  # noqa: BLE001 - handed to the thread that waits for it
        opened.set_exception(error)
        return
    try:
        opened.set_result((asyncio.get_running_loop(), closing))
        await closing.wait()
    finally:
        await resource.__aexit__(None, None, None)
