"""The start offset of a partition without a stored offset, or whose offset no longer exists, and the lag from there."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.lanes.losses import LossKind
from mm2.core.settings.client import OffsetReset


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOffset:
    """Continue at ``offset``. The source has nothing before ``earliest``.

    Source offsets ``lost`` (first, until) can no longer be copied, for ``reason`` of this ``kind``; None: nothing was
    lost.
    """

    offset: int
    earliest: int
    lost: tuple[int, int] | None = None
    reason: str = ""
    kind: LossKind = LossKind.RETENTION


@dataclass(frozen=True, slots=True, kw_only=True)
class NoStartOffset:
    """No offset may be chosen, since auto.offset.reset is none."""

    reason: str


def first_start(
    policy: OffsetReset, start: OffsetReset | int | None, *, earliest: int, latest: int
) -> StartOffset | NoStartOffset:
    """Choose the offset of a partition without a stored one.

    ``start``: the value of mm2.start, with a time replaced by the offset of its first record (-1: there is none); it
    takes precedence over ``policy``. None: not set.
    """
    if isinstance(start, int):
        return StartOffset(offset=latest if start < 0 else min(max(earliest, start), latest), earliest=earliest)
    chosen = start or policy
    if chosen is OffsetReset.NONE:
        return NoStartOffset(reason="no offset is stored and auto.offset.reset is none")
    return StartOffset(offset=earliest if chosen is OffsetReset.EARLIEST else latest, earliest=earliest)


def choose_offset(policy: OffsetReset, wanted: int, *, earliest: int, latest: int) -> StartOffset | NoStartOffset:
    """Choose the offset to continue from, instead of ``wanted`` if that no longer exists.

    The source may no longer have ``wanted`` because of its retention, or because the topic was truncated (or recreated,
    if the broker has no topic ids). The loss reported is from ``wanted`` to where copying continues. If ``wanted`` is
    beyond the source's end, the extent of the loss is unknown, and the range is empty.
    """
    if earliest <= wanted <= latest:
        return StartOffset(offset=wanted, earliest=earliest)
    if wanted < earliest:
        why = f"offset {wanted} was deleted on the source before it was copied: the partition now starts at {earliest}"
    else:
        why = f"offset {wanted} is beyond the source's end offset {latest}: the topic was truncated or recreated"
    if policy is OffsetReset.NONE:
        return NoStartOffset(reason=f"{why}; auto.offset.reset is none")
    offset = earliest if policy is OffsetReset.EARLIEST else latest
    kind = LossKind.RETENTION if wanted < earliest else LossKind.OUT_OF_RANGE
    return StartOffset(offset=offset, earliest=earliest, lost=(wanted, max(wanted, offset)), reason=why, kind=kind)


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
