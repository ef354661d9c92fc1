"""The check of leader decisions finds each kind of violation."""

from __future__ import annotations

import pytest

from tests.lab.decisions import Decision, Writer, verdict

FIRST, SECOND = (7, 0), (7, 1)


def decided(*lists: tuple[int, int, int, Writer]) -> list[Decision]:
    """Return decisions from (source task, epoch, version, writer)."""
    return [
        Decision(offset=offset, source_task=source_task, epoch=epoch, version=version, writer=writer)
        for offset, (source_task, epoch, version, writer) in enumerate(lists)
    ]


def test_newer_lists_with_one_writer_per_epoch_are_valid() -> None:
    assert verdict(decided((0, 2, 1, FIRST), (1, 2, 1, FIRST), (0, 2, 2, FIRST), (0, 5, 1, SECOND))) == []


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (((0, 2, 2, FIRST), (0, 2, 2, FIRST)), "is not newer than"),
        (((0, 5, 1, FIRST), (0, 2, 9, FIRST)), "is not newer than"),
        (((0, 2, 1, FIRST), (1, 2, 1, SECOND)), "epoch 2 has two writers"),
        (((0, 2, 1, SECOND), (1, 3, 1, FIRST)), "comes after"),
    ],
)
def test_writes_of_a_replaced_leader_are_found(lists: tuple[tuple[int, int, int, Writer], ...], message: str) -> None:
    (wrong,) = verdict(decided(*lists))
    assert message in wrong
