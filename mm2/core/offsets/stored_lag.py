"""The lag of a partition according to its stored source offset, without a node that reports its progress."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.offsets.start_offset import NoStartOffset, choose_offset, first_start
from mm2.core.settings.client import OffsetReset


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLag:
    """``position``: the next source offset that a node would copy, ``lag_records`` those from there to the end offset.

    None: unknown, or no offset may be chosen. ``remark``: why the position is not the stored one; None if it is.
    """

    position: int | None
    lag_records: int | None
    remark: str | None = None


def stored_lag(
    stored: int | None,
    *,
    earliest: int,
    latest: int,
    end: int,
    policy: OffsetReset,
    start: OffsetReset | int | None,
) -> StoredLag:
    """Return the lag of a partition whose stored position is ``stored`` (`StoredSourceOffsets.position`; None: none).

    ``earliest`` and ``latest`` are offsets of the source, ``end`` is ``latest`` or, with read_committed, the last
    stable offset. ``policy`` and ``start`` as in `first_start`. As a node does, it starts with what the source still
    has: records that were deleted before they were copied are not part of the lag.
    """
    if stored is None:
        chosen = first_start(policy, start, earliest=earliest, latest=latest)
        remark = None if isinstance(chosen, NoStartOffset) else f"no offset is stored yet: starts at {chosen.offset}"
    else:
        chosen = choose_offset(policy, stored, earliest=earliest, latest=latest)
        remark = chosen.reason or None
    if isinstance(chosen, NoStartOffset):
        return StoredLag(position=stored, lag_records=None, remark=chosen.reason)
    return StoredLag(position=chosen.offset, lag_records=max(0, end - chosen.offset), remark=remark)
