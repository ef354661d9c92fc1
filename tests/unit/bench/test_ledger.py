"""CPU time is neither lost nor counted twice, in whatever order processes end (letters: invariants of `CpuLedger`)."""

from __future__ import annotations

from tests.bench.ledger import CpuLedger, Identity, Sighting

ROOT: Identity = (10, 1.0)
CHILD: Identity = (11, 2.0)
GRANDCHILD: Identity = (12, 3.0)


def observed(process: Identity, parent: Identity | None, own: float, waited: float = 0.0) -> Sighting:
    return Sighting(process=process, parent=parent, own=own, waited=waited)


def total(*samples: tuple[Sighting, ...]) -> float:
    ledger = CpuLedger()
    for sample in samples:
        ledger.note(sample)
    return ledger.total()


def test_a_only_the_last_observation_counts() -> None:
    assert total((observed(ROOT, None, 2.0),), (observed(ROOT, None, 2.5),)) == 2.5


def test_b_waited_child_counts_once_including_unobserved_time() -> None:
    assert (
        total(
            (observed(ROOT, None, 1.0), observed(CHILD, ROOT, 3.0)),
            (observed(ROOT, None, 1.0, waited=3.5),),
        )
        == 4.5
    )


def test_b_waited_branch_counts_once() -> None:
    assert (
        total(
            (observed(ROOT, None, 1.0), observed(CHILD, ROOT, 2.0), observed(GRANDCHILD, CHILD, 4.0)),
            (observed(ROOT, None, 1.0), observed(CHILD, ROOT, 2.0, waited=4.0)),
            (observed(ROOT, None, 1.0, waited=6.0),),
        )
        == 7.0
    )


def test_c_child_that_ends_between_two_reads_is_not_missing() -> None:
    ledger = CpuLedger()
    ledger.note((observed(ROOT, None, 1.0), observed(CHILD, ROOT, 3.0)))
    ledger.note((observed(ROOT, None, 1.0),))  # the parent was read before the child ended; the child could not be read
    assert ledger.total() == 4.0
    ledger.note((observed(ROOT, None, 1.0, waited=3.0),))
    assert ledger.total() == 4.0


def test_d_orphan_is_not_subtracted_from_its_first_parent() -> None:
    adopted = observed(GRANDCHILD, None, 5.0)
    assert (
        total(
            (observed(ROOT, None, 1.0), observed(CHILD, ROOT, 2.0), observed(GRANDCHILD, CHILD, 4.0)),
            (observed(ROOT, None, 1.0, waited=2.0), adopted),
            (observed(ROOT, None, 1.0, waited=2.0),),
        )
        == 8.0
    )


def test_reused_pid_is_another_process() -> None:
    again: Identity = (CHILD[0], 9.0)
    assert (
        total(
            (observed(ROOT, None, 1.0), observed(CHILD, ROOT, 3.0)),
            (observed(ROOT, None, 1.0, waited=3.0), observed(again, ROOT, 0.5)),
        )
        == 4.5
    )
