"""Answers about positions: an offset of the other cluster, and how precise it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Precision(StrEnum):
    """How an answer relates to the position.

    ``EXACT``: it is the copy that counts of the position's very record, or the record that this copy is of. ``NEXT``:
    there is no such record; it is the next one. ``END``: all copied records are before the position, and it is their
    end. ``AHEAD``: records before the position are not copied yet; it is the end of those that are. ``CONSERVATIVE``:
    the map does not cover the position; it is a safe offset, which can be too early.
    """

    EXACT = "exact"
    NEXT = "next"
    END = "end"
    AHEAD = "ahead"
    CONSERVATIVE = "conservative"


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionAnswer:
    """The position that corresponds to one of the other cluster. A reader that starts there skips no copied record.

    ``offset``: None if nothing is known from which such an offset follows; the start of the partition is always one.
    ``reason``: why it is not exact, as a phrase without a period; empty if it is exact. ``read_again``: the maximum
    number of records before the position that are read again, without those that the remote topic contains twice; None
    if it is unknown. ``missing``: the number of offsets from the answer's end of the copied records to the position,
    if it is ``AHEAD``; otherwise None.
    """

    offset: int | None
    precision: Precision
    reason: str = ""
    read_again: int | None = 0
    missing: int | None = None

    @property
    def exact(self) -> bool:
        """Whether the answer is the position's very record."""
        return self.precision is Precision.EXACT
