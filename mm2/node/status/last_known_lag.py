"""The lag that a flow had when it was last known, to show beside an unknown one."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.problems.times_in_words import utc_text
from mm2.node.status.status_model import FlowStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LastKnownLag:
    """Of ``partitions`` whose lag is unknown and was known before, that of the first of them last at ``observed``.

    ``observed`` is in milliseconds since 1970. ``lag_records`` is the sum of what they had left to copy then, less
    what was copied since.
    """

    partitions: int
    lag_records: int
    observed: int

    def __str__(self) -> str:
        """``0 records at 2026-11-26T11:56:29Z``."""
        at = utc_text(self.observed / 1_000)
        return f"{self.lag_records:,} {'record' if self.lag_records == 1 else 'records'} at {at}"


def last_known_lag(flow: FlowStatus) -> LastKnownLag | None:
    """Return the last known lag of the partitions of ``flow``; None if the lag of each is known, or never was."""
    partitions = [
        one
        for topic in flow.topics
        for one in topic.partitions
        if one.observed is not None and one.last_lag_records is not None
    ]
    if not partitions:
        return None
    return LastKnownLag(
        partitions=len(partitions),
        lag_records=sum(one.last_lag_records or 0 for one in partitions),
        observed=min(one.observed for one in partitions if one.observed is not None),
    )
