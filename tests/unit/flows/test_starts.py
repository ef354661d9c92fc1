from __future__ import annotations

import pytest

from flows.starts import CannotStart, GoOn, out_of_range, without_offset
from mm2.core.client_settings import OffsetReset


@pytest.mark.parametrize(("policy", "offset"), [(OffsetReset.EARLIEST, 10), (OffsetReset.LATEST, 90)])
def test_nothing_is_stored(policy: OffsetReset, offset: int) -> None:
    assert without_offset(policy, earliest=10, latest=90) == GoOn(offset=offset, earliest=10)


def test_nothing_is_stored_and_no_policy() -> None:
    refusal = without_offset(OffsetReset.NONE, earliest=10, latest=90)
    assert refusal == CannotStart(reason="no offset is stored and auto.offset.reset is none")


@pytest.mark.parametrize(
    ("policy", "wanted", "offset", "lost"),
    [
        (OffsetReset.EARLIEST, 5, 10, (5, 10)),
        (OffsetReset.LATEST, 5, 90, (5, 90)),
        (OffsetReset.EARLIEST, 95, 10, (95, 95)),
        (OffsetReset.LATEST, 95, 90, (95, 95)),
    ],
)
def test_losses_are_told(policy: OffsetReset, wanted: int, offset: int, lost: tuple[int, int]) -> None:
    answer = out_of_range(policy, wanted, earliest=10, latest=90)
    assert isinstance(answer, GoOn)
    assert (answer.offset, answer.lost) == (offset, lost)
    assert str(wanted) in answer.reason


@pytest.mark.parametrize("wanted", [10, 50, 90])
def test_an_offset_that_is_there_again(wanted: int) -> None:
    assert out_of_range(OffsetReset.NONE, wanted, earliest=10, latest=90) == GoOn(offset=wanted, earliest=10)


@pytest.mark.parametrize("wanted", [5, 95])
def test_no_policy_means_no_guess(wanted: int) -> None:
    answer = out_of_range(OffsetReset.NONE, wanted, earliest=10, latest=90)
    assert isinstance(answer, CannotStart)
    assert answer.reason.endswith("auto.offset.reset is none")
