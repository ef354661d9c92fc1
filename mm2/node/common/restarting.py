"""Background work of the node as a whole, which no flow retries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger("mm2.node")

RESTART_AFTER_S = 5.0
"""Long enough to use little CPU and log while the cause persists, and short enough not to be noticed afterwards."""


async def restart_on_error(
    work: Callable[[], Awaitable[None]],
    name: str,
    *,
    after_s: float = RESTART_AFTER_S,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Run ``work`` until it returns; start it again after an unexpected error, which would otherwise go unnoticed.

    ``after_s``: seconds until then.
    """
    while True:
        try:
            await work()
        except Exception:
            log.exception("%s: unexpected error; restarting in %.0f s", name, after_s)
            await sleep(after_s)
        else:
            return
