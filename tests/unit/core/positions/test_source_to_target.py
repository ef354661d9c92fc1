"""Positions of a source partition on the target."""

from __future__ import annotations

import pytest

from mm2.core.coordination.query_history import QueryEntry, QueryHistory
from mm2.core.lanes.losses import Loss, LossKind
from mm2.core.offsets.copied_ranges import CopiedUpTo
from mm2.core.offsets.exact_offsets import Bounded, Found, FoundKind
from mm2.core.offsets.offset_translation import NO_SYNC, NOT_READY, TooOld, Translated, Translation
from mm2.core.positions.answer import PositionAnswer, Precision
from mm2.core.positions.source_to_target import Extent, HoleCauses, hole_reason, target_position

HUNDRED = CopiedUpTo(100, 200)


def conservative(offset: int | None, read_again: int | None, reason: str) -> PositionAnswer:
    return PositionAnswer(offset=offset, precision=Precision.CONSERVATIVE, reason=reason, read_again=read_again)


def loss(first: int, until: int, kind: LossKind = LossKind.RETENTION) -> Loss:
    return Loss(topic="orders", partition=0, first=first, until=until, reason="", kind=kind)


def test_a_copied_record_is_exact() -> None:
    assert target_position(7, Found(17), HUNDRED) == PositionAnswer(offset=17, precision=Precision.EXACT)


def test_a_hole_is_the_next_copied_record() -> None:
    answer = target_position(7, Found(17, FoundKind.NEXT), HUNDRED)
    assert answer == PositionAnswer(offset=17, precision=Precision.NEXT, reason="hole")


def test_caught_up_is_the_end_of_the_copies() -> None:
    answer = target_position(100, Found(200, FoundKind.END), HUNDRED)
    assert answer == PositionAnswer(offset=200, precision=Precision.END, reason="caught up")


QUERIES = QueryHistory((QueryEntry(10, "ab", 1), QueryEntry(20, None, 2)))


@pytest.mark.parametrize(
    ("causes", "source", "reason"),
    [
        (HoleCauses(losses=[loss(3, 7), loss(7, 8)]), Extent(), "hole: recorded as lost (retention)"),
        (HoleCauses(losses=[loss(7, 8, LossKind.TARGET_TRUNCATED)]), Extent(), "hole"),
        (HoleCauses(skipped=7), Extent(), "hole: skipped by an operator"),
        (HoleCauses(skipped=8, queries=QUERIES), Extent(end=5), "hole"),
        (HoleCauses(), Extent(start=7), "hole"),
        (HoleCauses(), Extent(start=8), "hole: before the first record of the source, 8"),
    ],
)
def test_a_hole_is_named_only_if_its_cause_is_known(causes: HoleCauses, source: Extent, reason: str) -> None:
    assert hole_reason(7, causes, source) == reason
    assert target_position(7, Found(17, FoundKind.NEXT), HUNDRED, causes=causes, source=source).reason == reason


def test_a_query_is_named_where_it_applied() -> None:
    causes = HoleCauses(queries=QUERIES)
    dropped = "hole: a query applied there, which can drop records"
    assert [hole_reason(offset, causes) for offset in (9, 10, 19, 20)] == ["hole", dropped, dropped, "hole"]


def test_not_copied_yet_is_ahead() -> None:
    answer = target_position(130, Bounded(200, None, 30), HUNDRED)
    assert answer == PositionAnswer(
        offset=200, precision=Precision.AHEAD, reason="not copied yet", read_again=30, missing=30
    )
    assert target_position(130, Bounded(200, None, 30), HUNDRED, source=Extent(end=130)) == answer
    beyond = target_position(130, Bounded(200, None, 30), HUNDRED, source=Extent(end=129))
    assert beyond.reason == "not copied yet, and after the end of the source, 129"


def test_ahead_of_a_repeat_is_after_its_copies() -> None:
    """0 to 99 were copied to 0 to 99, and 90 to 94 again from 110 on."""
    answer = target_position(130, Bounded(100, None, 30), CopiedUpTo(100, 115))
    assert (answer.offset, answer.precision, answer.missing) == (115, Precision.AHEAD, 30)


@pytest.mark.parametrize("progress", [CopiedUpTo(140, 210), CopiedUpTo(100, 210, 5)])
def test_unrecorded_copies_of_a_crash_are_before_the_answer_of_the_map(progress: CopiedUpTo) -> None:
    answer = target_position(130, Bounded(200, None, 30), progress, by_syncs=Translated(offset=208, behind=2))
    reason = "records around the position were copied again after a crash, or are being copied again"
    assert answer == conservative(200, 30, reason)


def test_offset_syncs_after_the_map_are_used_if_they_explain_the_target() -> None:
    """The sync is source offset 120, at 219: others have copied 100 to 120."""
    answer = target_position(130, Bounded(200, None, 30), HUNDRED, by_syncs=Translated(offset=220, behind=9))
    assert answer == conservative(220, 9, "after the map, by an offset sync")


def test_offset_syncs_of_a_repeat_are_not_used() -> None:
    """The sync is source offset 92, at 212: a copier has ended after unrecorded copies, maybe that of 130."""
    answer = target_position(130, Bounded(200, None, 30), HUNDRED, by_syncs=Translated(offset=213, behind=37))
    assert answer == conservative(200, 30, "after the map, which is older than the offset syncs")


@pytest.mark.parametrize(
    ("by_syncs", "offset", "read_again", "by"),
    [
        (Translated(offset=15, behind=4), 15, 4, "by an offset sync"),
        (Translated(offset=25, behind=4), 20, None, "between its ranges"),
        (Translated(offset=10, behind=4), 10, 6, "between its ranges"),
        (TooOld(first=9), 10, 6, "between its ranges"),
        (NOT_READY, 10, 6, "between its ranges"),
    ],
)
def test_records_that_others_copied_are_bounded_by_ranges(
    by_syncs: Translation, offset: int, read_again: int | None, by: str
) -> None:
    answer = target_position(50, Bounded(10, 20, 6), HUNDRED, by_syncs=by_syncs)
    assert answer.offset == offset
    assert answer.precision is Precision.CONSERVATIVE
    assert answer.read_again == read_again
    assert answer.reason.endswith(by)


def test_before_the_map_is_the_start_of_the_remote_topic() -> None:
    reason = "before the first offset that the map has"
    before = Bounded(None, 20)
    assert target_position(50, before, HUNDRED) == conservative(None, None, reason)
    assert target_position(50, before, HUNDRED, target=Extent(start=3)) == conservative(3, 50, reason)
    answer = target_position(50, before, HUNDRED, source=Extent(start=40), target=Extent(start=3))
    assert answer == conservative(3, 10, reason)
    answer = target_position(50, before, HUNDRED, by_syncs=Translated(offset=15, behind=4))
    assert answer == conservative(15, 4, "not in the map; by an offset sync")


def test_without_a_map_offset_syncs_are_used() -> None:
    answer = target_position(50, None, CopiedUpTo(), by_syncs=Translated(offset=15, behind=0))
    assert answer == conservative(15, 0, "the map does not have the partition; by an offset sync")
    answer = target_position(50, None, CopiedUpTo(), target=Extent(start=0, end=9))
    assert answer == conservative(0, 50, f"the map does not have the partition; {NO_SYNC}")
    answer = target_position(50, None, CopiedUpTo(), source=Extent(start=20), target=Extent(start=0, end=0))
    assert answer == PositionAnswer(
        offset=0, precision=Precision.AHEAD, reason="nothing was copied yet", read_again=30, missing=30
    )


def test_deleted_copies_are_the_start_of_the_remote_topic() -> None:
    answer = target_position(7, Found(17), HUNDRED, target=Extent(start=18))
    assert answer == PositionAnswer(offset=18, precision=Precision.NEXT, reason="the remote topic now starts at 18")
    answer = target_position(100, Found(200, FoundKind.END), HUNDRED, target=Extent(start=210))
    assert (answer.offset, answer.precision) == (210, Precision.END)
    assert target_position(7, Found(17), HUNDRED, target=Extent(start=17, end=17)).exact


def test_a_remote_topic_that_ends_before_its_copies_is_read_from_its_start() -> None:
    reason = "the remote topic ends at 16, before the copies in the map: truncated or recreated"
    answer = target_position(7, Found(17), HUNDRED, target=Extent(start=2, end=16))
    assert answer == conservative(2, 7, reason)
    assert target_position(7, Found(17), HUNDRED, target=Extent(end=16)) == conservative(None, None, reason)
