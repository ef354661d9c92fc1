"""The judge of what leaders wrote finds each kind of wrong."""

from __future__ import annotations

import pytest

from tests.faults.decisions import Decision, Writer, verdict

FIRST, SECOND = (7, 0), (7, 1)


def decided(*lists: tuple[int, int, int, Writer]) -> list[Decision]:
    """Of (slot, epoch, version, writer)."""
    return [
        Decision(offset=offset, slot=slot, epoch=epoch, version=version, writer=writer)
        for offset, (slot, epoch, version, writer) in enumerate(lists)
    ]


def test_lists_that_get_newer_by_one_writer_an_epoch_are_right() -> None:
    assert verdict(decided((0, 2, 1, FIRST), (1, 2, 1, FIRST), (0, 2, 2, FIRST), (0, 5, 1, SECOND))) == []


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        (((0, 2, 2, FIRST), (0, 2, 2, FIRST)), "is not newer than"),
        (((0, 5, 1, FIRST), (0, 2, 9, FIRST)), "is not newer than"),
        (((0, 2, 1, FIRST), (1, 2, 1, SECOND)), "epoch 2 has two writers"),
        (((0, 2, 1, SECOND), (1, 3, 1, FIRST)), "comes after"),
    ],
)
def test_what_a_replaced_leader_writes_is_found(lists: tuple[tuple[int, int, int, Writer], ...], words: str) -> None:
    (wrong,) = verdict(decided(*lists))
    assert words in wrong
