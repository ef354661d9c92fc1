"""Positions of a source partition on the target, by the exact map, offset syncs, and what else is known.

A reader that starts at the answer skips no record at or after the position that was copied. What the map says is in
`exact_offsets`; this module says how precise it is, and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from mm2.core.coordination.query_history import NO_HISTORY, QueryHistory
from mm2.core.lanes.losses import Loss, LossKind
from mm2.core.offsets.copied_ranges import CopiedUpTo
from mm2.core.offsets.exact_offsets import Bounded, Found, FoundKind, MapLookup
from mm2.core.offsets.offset_translation import NO_SYNC, Translated, Translation
from mm2.core.positions.answer import PositionAnswer, Precision

HOLE = "hole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The offsets of a partition that its brokers have, from ``start`` to before ``end``; None: unknown."""

    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoleCauses:
    """What is known of source offsets without a copy. Nothing of it is needed for a safe answer.

    ``losses``: those of the partition. ``queries``: its query history. ``skipped``: the offset that an operator
    skipped and that is not recorded as a loss yet.
    """

    losses: Sequence[Loss] = ()
    queries: QueryHistory = NO_HISTORY
    skipped: int | None = None


UNKNOWN_EXTENT = Extent()
UNKNOWN_CAUSES = HoleCauses()


def target_position(
    offset: int,
    found: MapLookup | None,
    progress: CopiedUpTo,
    *,
    complete: bool = True,
    by_syncs: Translation = NO_SYNC,
    causes: HoleCauses = UNKNOWN_CAUSES,
    source: Extent = UNKNOWN_EXTENT,
    target: Extent = UNKNOWN_EXTENT,
) -> PositionAnswer:
    """Return the position on the target of the source position ``offset``.

    ``found`` and ``progress`` are the lookup of the offset and `PartitionOffsets.progress`; ``found`` is None if the
    map does not have the partition. ``complete``: the newest part of the map can be read. ``by_syncs``: what Java would
    answer. ``source`` and ``target``: as read after the map.
    """
    match found:
        case Found():
            answer = _found(offset, found, causes, source)
        case Bounded(least=int(), most=None):
            answer = _after_the_map(offset, found, progress if complete else None, by_syncs, source)
        case Bounded():
            answer = _between(offset, found, by_syncs, source)
        case None:
            answer = _without_map(offset, by_syncs, source, target)
        case _:
            assert_never(found)
    return _within(answer, offset, source, target)


def hole_reason(offset: int, causes: HoleCauses, source: Extent = UNKNOWN_EXTENT) -> str:
    """Return why source offset ``offset`` has no copy, as far as it is known; it may have several causes."""
    for loss in causes.losses:
        if loss.first <= offset < loss.until and loss.kind != LossKind.TARGET_TRUNCATED:
            return f"{HOLE}: recorded as lost ({loss.kind})"
    if offset == causes.skipped:
        return f"{HOLE}: skipped by an operator"
    query = next((one for one in reversed(causes.queries.entries) if one.offset <= offset), None)
    if query is not None and query.sha256 is not None:
        return f"{HOLE}: a query applied there, which can drop records"
    if source.start is not None and offset < source.start:
        return f"{HOLE}: before the first record of the source, {source.start}"
    return HOLE


def _found(offset: int, found: Found, causes: HoleCauses, source: Extent) -> PositionAnswer:
    match found.kind:
        case FoundKind.RECORD:
            return PositionAnswer(offset=found.offset, precision=Precision.EXACT)
        case FoundKind.NEXT:
            reason = hole_reason(offset, causes, source)
            return PositionAnswer(offset=found.offset, precision=Precision.NEXT, reason=reason)
        case FoundKind.END:
            return PositionAnswer(offset=found.offset, precision=Precision.END, reason="caught up")
    assert_never(found.kind)


def _after_the_map(
    offset: int, found: Bounded, progress: CopiedUpTo | None, by_syncs: Translation, source: Extent
) -> PositionAnswer:
    """Answer for a position after all copies that count. ``progress``: None if it is unknown.

    An offset sync can be newer than the map: others copied since, or it is not written yet. Target offsets between
    that the source offsets do not explain are copies of a crash: then a later copy of an earlier record can be meant.
    """
    if progress is None:
        return _conservative(found.least, found.behind, "the newest part of the map cannot be read")
    if progress.doubt or offset <= progress.upstream:
        reason = "records around the position were copied again after a crash, or are being copied again"
        return _conservative(found.least, found.behind, reason)
    missing = offset - progress.upstream
    if isinstance(by_syncs, Translated) and by_syncs.offset > progress.downstream:
        synced = offset - by_syncs.behind
        if by_syncs.offset - progress.downstream <= synced - progress.upstream:
            return _conservative(by_syncs.offset, by_syncs.behind, "after the map, by an offset sync")
        reason = "after the map, which is older than the offset syncs"
        return _conservative(progress.downstream, found.behind, reason)
    beyond = source.end is not None and offset > source.end
    reason = f"not copied yet, and after the end of the source, {source.end}" if beyond else "not copied yet"
    return PositionAnswer(
        offset=progress.downstream,
        precision=Precision.AHEAD,
        reason=reason,
        read_again=found.behind,
        missing=missing,
    )


def _between(offset: int, found: Bounded, by_syncs: Translation, source: Extent) -> PositionAnswer:
    """Answer for a position before the first range, or between ranges that are not connected."""
    if isinstance(by_syncs, Translated) and (found.least is None or by_syncs.offset > found.least):
        if found.most is not None and by_syncs.offset > found.most:
            return _conservative(found.most, None, "not in the map; between its ranges")
        return _conservative(by_syncs.offset, by_syncs.behind, "not in the map; by an offset sync")
    if found.least is not None:
        return _conservative(found.least, found.behind, "not in the map; between its ranges")
    reason = "nothing that the map has counts yet" if found.most is None else "before the first offset that the map has"
    return _conservative(None, _at_most(offset, source), reason)


def _without_map(offset: int, by_syncs: Translation, source: Extent, target: Extent) -> PositionAnswer:
    if isinstance(by_syncs, Translated):
        return _conservative(by_syncs.offset, by_syncs.behind, "the map does not have the partition; by an offset sync")
    if target.end == 0:
        missing = _at_most(offset, source)
        return PositionAnswer(
            offset=0, precision=Precision.AHEAD, reason="nothing was copied yet", read_again=missing, missing=missing
        )
    return _conservative(None, _at_most(offset, source), f"the map does not have the partition; {by_syncs}")


def _within(answer: PositionAnswer, offset: int, source: Extent, target: Extent) -> PositionAnswer:
    """Return an answer within the offsets of the remote partition, whose start misses nothing."""
    if answer.offset is None:
        if target.start is None:
            return replace(answer, read_again=None)
        return replace(answer, offset=target.start)
    if target.end is not None and answer.offset > target.end:
        reason = f"the remote topic ends at {target.end}, before the copies in the map: truncated or recreated"
        return _conservative(target.start, None if target.start is None else _at_most(offset, source), reason)
    if target.start is not None and answer.offset < target.start:
        precision = Precision.NEXT if answer.exact else answer.precision
        return replace(
            answer, offset=target.start, precision=precision, reason=f"the remote topic now starts at {target.start}"
        )
    return answer


def _at_most(offset: int, source: Extent) -> int:
    """Return the most records that the source can have had before ``offset``."""
    return max(0, offset - (source.start or 0))


def _conservative(offset: int | None, read_again: int | None, reason: str) -> PositionAnswer:
    return PositionAnswer(offset=offset, precision=Precision.CONSERVATIVE, reason=reason, read_again=read_again)
