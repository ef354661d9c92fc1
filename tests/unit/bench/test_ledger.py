"""CPU time is neither lost nor counted twice, whoever ends when (the letters are `CpuLedger`'s)."""

from __future__ import annotations

import pytest

from tests.bench.ledger import CpuLedger, Identity, Sighting

ROOT: Identity = (10, 1.0)
CHILD: Identity = (11, 2.0)
GRANDCHILD: Identity = (12, 3.0)


def sighting(process: Identity, parent: Identity | None, own: float, waited: float = 0.0) -> Sighting:
    return Sighting(process=process, parent=parent, own=own, waited=waited)


def total(*looks: tuple[Sighting, ...]) -> float:
    ledger = CpuLedger()
    for look in looks:
        ledger.note(look)
    return ledger.total()


def test_a_living_ones_add_up() -> None:
    assert total((sighting(ROOT, None, 2.0), sighting(CHILD, ROOT, 3.0))) == 5.0


def test_a_only_the_last_sighting_counts() -> None:
    assert total((sighting(ROOT, None, 2.0),), (sighting(ROOT, None, 2.5),)) == 2.5


def test_b_a_child_that_came_and_went_between_two_looks_counts() -> None:
    assert total((sighting(ROOT, None, 1.0),), (sighting(ROOT, None, 1.0, waited=4.0),)) == 5.0


def test_b_a_waited_child_counts_once_with_what_it_burned_after_it_was_last_seen() -> None:
    assert (
        total(
            (sighting(ROOT, None, 1.0), sighting(CHILD, ROOT, 3.0)),
            (sighting(ROOT, None, 1.0, waited=3.5),),
        )
        == 4.5
    )


def test_b_a_whole_branch_that_was_waited_for_counts_once() -> None:
    assert (
        total(
            (sighting(ROOT, None, 1.0), sighting(CHILD, ROOT, 2.0), sighting(GRANDCHILD, CHILD, 4.0)),
            (sighting(ROOT, None, 1.0), sighting(CHILD, ROOT, 2.0, waited=4.0)),
            (sighting(ROOT, None, 1.0, waited=6.0),),
        )
        == 7.0
    )


def test_b_a_branch_that_ended_between_two_looks_counts_once() -> None:
    assert (
        total(
            (sighting(ROOT, None, 1.0), sighting(CHILD, ROOT, 2.0), sighting(GRANDCHILD, CHILD, 4.0)),
            (sighting(ROOT, None, 1.0, waited=6.25),),
        )
        == pytest.approx(7.25)
    )  # fmt: skip


def test_c_an_ended_one_that_nobody_waited_for_counts_as_last_seen() -> None:
    assert total((sighting(ROOT, None, 1.0), sighting(CHILD, ROOT, 3.0)), (sighting(ROOT, None, 1.0),)) == 4.0


def test_c_a_child_that_is_not_buried_yet_when_its_parent_is_read_is_not_missing() -> None:
    ledger = CpuLedger()
    ledger.note((sighting(ROOT, None, 1.0), sighting(CHILD, ROOT, 3.0)))
    ledger.note((sighting(ROOT, None, 1.0),))  # read before the child ended, the child itself could not be read
    assert ledger.total() == 4.0
    ledger.note((sighting(ROOT, None, 1.0, waited=3.0),))
    assert ledger.total() == 4.0


def test_d_an_orphan_is_not_taken_from_what_its_first_parent_waited_for() -> None:
    adopted = sighting(GRANDCHILD, None, 5.0)
    assert (
        total(
            (sighting(ROOT, None, 1.0), sighting(CHILD, ROOT, 2.0), sighting(GRANDCHILD, CHILD, 4.0)),
            (sighting(ROOT, None, 1.0, waited=2.0), adopted),
            (sighting(ROOT, None, 1.0, waited=2.0),),
        )
        == 8.0
    )


def test_a_pid_given_to_another_is_another_process() -> None:
    again: Identity = (CHILD[0], 9.0)
    assert (
        total(
            (sighting(ROOT, None, 1.0), sighting(CHILD, ROOT, 3.0)),
            (sighting(ROOT, None, 1.0, waited=3.0), sighting(again, ROOT, 0.5)),
        )
        == 4.5
    )
