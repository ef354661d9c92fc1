"""Times and durations as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(seconds: float) -> str:
    """``2026-11-26T11:56:29Z``. ``seconds`` are since 1970."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_text_ms(seconds: float) -> str:
    """``2026-11-26T11:56:29.123Z``. ``seconds`` are since 1970."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def length_text(seconds: float) -> str:
    """``35 s``, ``12 min``, ``3 h 5 min``, ``2 d 4 h``: the two largest units, rounded down."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"
