"""Where copying a source partition begins or goes on, and what is lost on the way.

Java's consumer applies auto.offset.reset without a word when its offset is gone. The place is the same here, but
offsets that can no longer be copied, or are passed over, are named.
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.client_settings import OffsetReset


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAt:
    """Fetch from ``position`` on; nothing is lost."""

    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPastGap:
    """Fetch from ``position`` on; offsets ``first`` up to, not including, ``until`` are not copied. The source deleted
    them, or auto.offset.reset=latest passes over them."""

    position: int
    first: int
    until: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOver:
    """The log ends before the wanted offset: the topic was made anew, or truncated by an unclean election.

    Fetch from ``position`` on; what the old log still held is unknown. Of the new one, offsets ``first`` up to, not
    including, ``until`` are passed over (none under auto.offset.reset=earliest).
    """

    position: int
    first: int
    until: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotStart:
    """auto.offset.reset=none, and it would have to decide. The partition fails with ``reason``."""

    reason: str


StartDecision = StartAt | StartPastGap | StartOver | CannotStart


def decide_start(wanted: int | None, *, log_start: int, log_end: int, latest: int, reset: OffsetReset) -> StartDecision:
    """Decide where nothing is stored (``wanted`` None), or the broker refused ``wanted`` with OFFSET_OUT_OF_RANGE.

    ``log_start`` and ``log_end`` are what ListOffsets answers for earliest and latest under read_uncommitted;
    ``latest`` is its answer for latest under the flow's own isolation level, under which open transactions end it
    earlier. Never ask because ``wanted`` is beyond a high watermark: right after an election that can lag for a moment,
    and everything would be copied again.
    """
    if wanted is None:
        return _first_start(log_start, latest, reset)
    if log_start <= wanted <= log_end:
        return StartAt(position=wanted)
    trouble = (
        f"offset {wanted} was deleted on the source before it was copied (it begins at {log_start} now)"
        if wanted < log_start
        else f"the source ends at {log_end}, before offset {wanted}: the topic was made anew or truncated"
    )
    if reset is OffsetReset.NONE:
        return CannotStart(reason=f"{trouble}. auto.offset.reset=none leaves it to you: set earliest or latest")
    position = log_start if reset is OffsetReset.EARLIEST else latest
    reason = f"{trouble}. auto.offset.reset={reset} goes on at {position}"
    if wanted < log_start:
        return StartPastGap(position=position, first=wanted, until=position, reason=reason)
    return StartOver(position=position, first=log_start, until=position, reason=reason)


def _first_start(log_start: int, latest: int, reset: OffsetReset) -> StartDecision:
    if reset is OffsetReset.NONE:
        return CannotStart(
            reason="no offset is stored and auto.offset.reset=none names no place to start: set earliest or latest"
        )
    return StartAt(position=log_start if reset is OffsetReset.EARLIEST else latest)
