"""What a target would lack if the source of its flow died now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


class KnownLag(Protocol):
    """A partition with its lag, as far as known."""

    @property
    def lag_records(self) -> int | None:
        """Source offsets that the target has not acknowledged; None: unknown."""

    @property
    def lag_seconds(self) -> float | None:
        """Age of the first of them; None: unknown."""

    @property
    def observed(self) -> int | None:
        """When the lag was last known, in milliseconds since 1970; None: it is known, or never was."""

    @property
    def last_lag_records(self) -> int | None:
        """The lag at that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreplicated:
    """What the target has not acknowledged: of ``partitions``, it is not known of ``unknown_partitions``.

    ``records`` and ``seconds`` (the age of the oldest) cover the others; ``seconds`` None: unknown. ``last_records``:
    those of the unknown partitions when that was last known, of the first of them at ``observed``, in milliseconds
    since 1970; None: never.
    """

    partitions: int
    unknown_partitions: int
    records: int
    seconds: float | None
    last_records: int | None = None
    observed: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it is known of all partitions."""
        return self.unknown_partitions == 0


def unreplicated(partitions: Iterable[KnownLag]) -> Unreplicated | None:
    """Return the sum over the partitions; None without any."""
    count = unknown = records = last = 0
    seconds: float | None = 0.0
    observed: int | None = None
    for one in partitions:
        count += 1
        if one.lag_records is None:
            unknown += 1
            if one.observed is not None and one.last_lag_records is not None:
                last += one.last_lag_records
                observed = one.observed if observed is None else min(observed, one.observed)
            continue
        records += one.lag_records
        seconds = None if one.lag_seconds is None or seconds is None else max(seconds, one.lag_seconds)
    if not count:
        return None
    return Unreplicated(
        partitions=count,
        unknown_partitions=unknown,
        records=records,
        seconds=None if unknown == count else seconds,
        last_records=None if observed is None else last,
        observed=observed,
    )
