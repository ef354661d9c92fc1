from __future__ import annotations

import pytest

from mm2.core.client_settings import OffsetReset
from mm2.core.source_position import CannotStart, StartAt, StartDecision, StartOver, StartPastGap, decide_start


def decide(wanted: int | None, reset: OffsetReset) -> StartDecision:
    return decide_start(wanted, log_start=100, log_end=200, latest=190, reset=reset)


@pytest.mark.parametrize("reset", OffsetReset)
@pytest.mark.parametrize("wanted", [100, 150, 195, 200])
def test_a_stored_offset_in_the_log_is_taken(wanted: int, reset: OffsetReset) -> None:
    assert decide(wanted, reset) == StartAt(position=wanted)


def test_with_nothing_stored_the_reset_decides() -> None:
    assert decide(None, OffsetReset.EARLIEST) == StartAt(position=100)
    assert decide(None, OffsetReset.LATEST) == StartAt(position=190)
    assert isinstance(decide(None, OffsetReset.NONE), CannotStart)


@pytest.mark.parametrize(("reset", "position"), [(OffsetReset.EARLIEST, 100), (OffsetReset.LATEST, 190)])
def test_deleted_records_are_a_gap_with_its_range(reset: OffsetReset, position: int) -> None:
    decision = decide(40, reset)
    assert isinstance(decision, StartPastGap)
    assert (decision.position, decision.first, decision.until) == (position, 40, position)
    assert "offset 40 was deleted" in decision.reason


@pytest.mark.parametrize(("reset", "position"), [(OffsetReset.EARLIEST, 100), (OffsetReset.LATEST, 190)])
def test_a_log_that_ends_before_the_wanted_offset_starts_over(reset: OffsetReset, position: int) -> None:
    decision = decide(201, reset)
    assert isinstance(decision, StartOver)
    assert (decision.position, decision.first, decision.until) == (position, 100, position)
    assert "made anew or truncated" in decision.reason


@pytest.mark.parametrize("wanted", [40, 201])
def test_reset_none_fails_the_partition_with_what_happened(wanted: int) -> None:
    decision = decide(wanted, OffsetReset.NONE)
    assert isinstance(decision, CannotStart)
    assert f"offset {wanted}" in decision.reason
    assert "set earliest or latest" in decision.reason
