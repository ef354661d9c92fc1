from __future__ import annotations

import pytest

from mm2.core.lanes.losses import LossKind
from mm2.core.offsets.start_offset import NoStartOffset, StartOffset, choose_offset, first_start
from mm2.core.settings.client import OffsetReset


@pytest.mark.parametrize(("policy", "offset"), [(OffsetReset.EARLIEST, 10), (OffsetReset.LATEST, 90)])
def test_nothing_is_stored(policy: OffsetReset, offset: int) -> None:
    assert first_start(policy, None, earliest=10, latest=90) == StartOffset(offset=offset, earliest=10)


def test_nothing_is_stored_and_no_policy() -> None:
    refusal = first_start(OffsetReset.NONE, None, earliest=10, latest=90)
    assert refusal == NoStartOffset(reason="no offset is stored and auto.offset.reset is none")


@pytest.mark.parametrize("policy", OffsetReset)
@pytest.mark.parametrize(
    ("start", "offset"),
    [(OffsetReset.EARLIEST, 10), (OffsetReset.LATEST, 90), (40, 40), (-1, 90), (5, 10), (95, 90)],
)
def test_mm2_start_takes_precedence(policy: OffsetReset, start: OffsetReset | int, offset: int) -> None:
    """-1: no record from the time on. The offset of a time was looked up at another moment than earliest and latest."""
    assert first_start(policy, start, earliest=10, latest=90) == StartOffset(offset=offset, earliest=10)


@pytest.mark.parametrize(
    ("policy", "wanted", "offset", "lost"),
    [
        (OffsetReset.EARLIEST, 5, 10, (5, 10)),
        (OffsetReset.LATEST, 5, 90, (5, 90)),
        (OffsetReset.EARLIEST, 95, 10, (95, 95)),
        (OffsetReset.LATEST, 95, 90, (95, 95)),
    ],
)
def test_losses_are_reported(policy: OffsetReset, wanted: int, offset: int, lost: tuple[int, int]) -> None:
    answer = choose_offset(policy, wanted, earliest=10, latest=90)
    assert isinstance(answer, StartOffset)
    assert (answer.offset, answer.lost) == (offset, lost)
    assert answer.kind == (LossKind.OUT_OF_RANGE if wanted > 90 else LossKind.RETENTION)
    assert str(wanted) in answer.reason


@pytest.mark.parametrize("wanted", [10, 50, 90])
def test_an_offset_that_exists_again(wanted: int) -> None:
    assert choose_offset(OffsetReset.NONE, wanted, earliest=10, latest=90) == StartOffset(offset=wanted, earliest=10)


@pytest.mark.parametrize("wanted", [5, 95])
def test_no_policy_means_no_guess(wanted: int) -> None:
    answer = choose_offset(OffsetReset.NONE, wanted, earliest=10, latest=90)
    assert isinstance(answer, NoStartOffset)
    assert answer.reason.endswith("auto.offset.reset is none")
