"""An event loop whose own threads are all busy, as with calls that do not return."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def busy_threads() -> Iterator[None]:
    """Let nothing that runs in asyncio's default executor begin, such as `asyncio.to_thread`, before the end."""
    threads, end = ThreadPoolExecutor(1, thread_name_prefix="asyncio_"), threading.Event()
    asyncio.get_running_loop().set_default_executor(threads)
    threads.submit(end.wait)
    try:
        yield
    finally:
        end.set()
