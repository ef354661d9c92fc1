"""Where a partition begins when nothing is stored, and where it goes on when its offset is gone."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.client_settings import OffsetReset


@dataclass(frozen=True, slots=True, kw_only=True)
class GoOn:
    """Continue at ``offset``. Source offsets ``lost`` (first, until) cannot be copied any more, for ``reason``;
    None when nothing was lost. Before ``earliest`` the source holds nothing."""

    offset: int
    earliest: int
    lost: tuple[int, int] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotStart:
    """The settings forbid to choose an offset."""

    reason: str


def without_offset(policy: OffsetReset, *, earliest: int, latest: int) -> GoOn | CannotStart:
    """No offset is stored: auto.offset.reset decides."""
    match policy:
        case OffsetReset.EARLIEST:
            return GoOn(offset=earliest, earliest=earliest)
        case OffsetReset.LATEST:
            return GoOn(offset=latest, earliest=earliest)
        case OffsetReset.NONE:
            return CannotStart(reason="no offset is stored and auto.offset.reset is none")


def out_of_range(policy: OffsetReset, wanted: int, *, earliest: int, latest: int) -> GoOn | CannotStart:
    """The source does not have offset ``wanted``: retention overtook us, or the topic was truncated (or made anew,
    where the broker has no topic ids to tell).

    What was lost is told, never passed over: from ``wanted`` to where copying goes on. Behind the source's end nobody
    knows how much there was; the range is empty then.
    """
    if earliest <= wanted <= latest:
        return GoOn(offset=wanted, earliest=earliest)
    if wanted < earliest:
        why = f"offset {wanted} is gone: the source begins at {earliest} now, its retention was faster than the copy"
    else:
        why = f"offset {wanted} is behind the source's end, {latest}: the topic was truncated or made anew"
    if policy is OffsetReset.NONE:
        return CannotStart(reason=f"{why}; auto.offset.reset is none")
    offset = earliest if policy is OffsetReset.EARLIEST else latest
    return GoOn(offset=offset, earliest=earliest, lost=(wanted, max(wanted, offset)), reason=why)
