"""Letters refer to the invariants of `TaskOwnership`."""

from __future__ import annotations

from mm2.core.assignment.task_ownership import NEVER, TaskOwnership
from mm2.core.assignment.tasks import TaskId, TaskKind

S0, S1 = (TaskId(TaskKind.SOURCE, number) for number in range(2))


def test_a_revoked_task_is_held_until_it_is_released() -> None:
    ownership = TaskOwnership()
    assert ownership.epoch == NEVER
    assert ownership.take(1, [S0, S1])
    assert ownership.take(2, [S1])
    assert ownership.run == {S1}
    assert ownership.drain == {S0}
    assert ownership.holds == {S0, S1}
    assert ownership.release(S0)
    assert not ownership.drain
    assert ownership.holds == {S1}
    assert not ownership.release(S0)


def test_a_task_reassigned_while_draining_is_held_throughout() -> None:
    ownership = TaskOwnership()
    ownership.take(1, [S0])
    ownership.take(2, [])
    ownership.take(3, [S0])
    assert not ownership.release(S0)
    assert ownership.run == ownership.holds == {S0}


def test_b_older_assignments_are_ignored() -> None:
    ownership = TaskOwnership()
    ownership.take(2, [S0])
    assert not ownership.take(2, [])
    assert not ownership.take(1, [S1])
    assert ownership.run == {S0}


def test_lost_membership_releases_all_tasks_and_resets_the_epoch() -> None:
    ownership = TaskOwnership()
    ownership.take(57, [S0])
    ownership.lost()
    assert not ownership.run
    assert ownership.drain == {S0}
    assert ownership.take(1, [S1])
    assert ownership.holds == {S0, S1}
