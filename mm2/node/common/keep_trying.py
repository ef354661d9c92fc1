"""Unlimited retries: an unavailable cluster never ends a flow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mm2.kafka.backoff import Backoff
from mm2.kafka.errors import ClusterError, first_error
from mm2.node.common.current_error import CurrentError

T = TypeVar("T")

log = logging.getLogger(__name__)

RETRY_MIN_MS = 1_000
RETRY_MAX_MS = 10_000
"""The backoff starts at one second, since the cause may be repaired soon, and grows, since each retry may cost a new
connection."""

STABLE_S = 60.0
"""An attempt that ran for this long before it failed resets the backoff."""


async def keep_trying(
    attempt: Callable[[], Awaitable[T]],
    error: CurrentError,
    doing: str | Callable[[BaseException], str],
    *,
    expected: tuple[type[Exception], ...] = (ClusterError,),
    unexpected: str | None = None,
    final: tuple[type[Exception], ...] = (),
    retriable_only: bool = False,
    min_ms: int = RETRY_MIN_MS,
    max_ms: int = RETRY_MAX_MS,
    stable_s: float = STABLE_S,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> T:
    """Call ``attempt`` until it succeeds, and return its result.

    After a failure ``error`` contains the reason, which is logged when it changes; success clears it. Every call starts
    with a new backoff, so call this once per round. An ``attempt`` that runs until it fails (a session, a followed log)
    resets the backoff and the error if it ran for ``stable_s``. Of an exception group the first error is reported.

    Args:
        attempt: the activity; it is called again after each failure.
        error: where the current error is kept.
        doing: what the attempt does ("create topic x"), for an error such as "cannot create topic x: …"; or a function
            that returns the whole text for an exception.
        expected: exceptions that are reported and retried.
        unexpected: the text for any other exception, which is then logged with its traceback and retried. If None, it
            is raised.
        final: exceptions that are raised, although they are expected.
        retriable_only: raise a ClusterError that is not retriable.
        min_ms: the first backoff, in milliseconds.
        max_ms: the longest backoff, in milliseconds.
        stable_s: an attempt that ran for so many seconds before it failed resets the backoff.
        sleep: sleeps for a backoff, in seconds; with `Wakeup.sleep` it can be cut short.

    Raises:
        Exception: any exception that is not retried according to the arguments.
    """
    backoff = Backoff(min_ms, max_ms)
    now = asyncio.get_running_loop().time
    while True:
        began = now()
        try:
            result = await attempt()
        except Exception as raised:
            cause = first_error(raised) if isinstance(raised, ExceptionGroup) else raised
            if isinstance(cause, final) or (retriable_only and isinstance(cause, ClusterError) and not cause.retriable):
                raise
            if now() - began > stable_s:
                backoff.reset()
                error.clear()
            if _consists_of(expected, raised):
                error.report(f"cannot {doing}: {cause}" if isinstance(doing, str) else doing(cause), cause)
            elif unexpected is not None:
                log.exception("%s: unexpected error; retrying", error.flow)
                error.report(unexpected, _unexpected(expected, raised))
            else:
                raise
        else:
            error.clear()
            return result
        await sleep(backoff.next())


def _consists_of(expected: tuple[type[Exception], ...], raised: Exception) -> bool:
    """Return whether the exception, or every exception of the group, is an expected one."""
    if isinstance(raised, ExceptionGroup):
        return raised.split(expected)[1] is None
    return isinstance(raised, expected)


def _unexpected(expected: tuple[type[Exception], ...], raised: Exception) -> BaseException:
    """Return the first exception that is not an expected one; ``raised`` may be a group of both kinds."""
    rest = raised.split(expected)[1] if isinstance(raised, ExceptionGroup) else None
    return raised if rest is None else first_error(rest)
