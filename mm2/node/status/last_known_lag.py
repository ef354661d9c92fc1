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
    at_most: int | None = None

    def __str__(self) -> str:
        """``0 records at 2026-11-26T11:56:29Z, at most 20 now``."""
        at = utc_text(self.observed / 1_000)
        bound = "" if self.at_most is None else f", at most {self.at_most:,} now"
        return f"{self.lag_records:,} {'record' if self.lag_records == 1 else 'records'} at {at}{bound}"


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
    bounds = [one.lag_records_at_most for one in partitions]
    return LastKnownLag(
        partitions=len(partitions),
        lag_records=sum(one.last_lag_records or 0 for one in partitions),
        observed=min(one.observed for one in partitions if one.observed is not None),
        at_most=None if None in bounds else sum(one or 0 for one in bounds),
    )
