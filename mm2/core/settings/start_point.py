"""mm2.start: where partitions without a stored offset start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mm2.core.settings.client import OffsetReset

_EPOCH = datetime.fromtimestamp(0, UTC)


def read_start_point(text: str) -> OffsetReset | int:
    """Return earliest, latest, or the epoch ms of a time in ISO 8601. Raises ValueError, with the rule, for others."""
    if text in (OffsetReset.EARLIEST, OffsetReset.LATEST):
        return OffsetReset(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be earliest, latest, or a time such as 2026-11-01T00:00:00Z") from None
    if time.tzinfo is None:
        raise ValueError("must be a time with a time zone, such as 2026-11-01T00:00:00Z or 2026-11-01T01:00:00+01:00")
    since = (time - _EPOCH) // timedelta(milliseconds=1)
    if since < 0:
        raise ValueError("must not be a time before 1970")
    return since
