from __future__ import annotations

from mm2.core.assignment.assignment_audit import AssignmentAudit, assignment_audit
from mm2.core.naming.names import TopicPartition

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def test_every_task_runs_once() -> None:
    found = assignment_audit([P0, P1], {"source task 0": [P0], "source task 1": [P1]})
    assert found == AssignmentAudit(assigned=2, duplicated={}, unexpected={})


def test_moving_tasks_are_not_reported() -> None:
    found = assignment_audit([P0, P1], {"source task 0": [P0]}, moving=[P1])
    assert found == AssignmentAudit(assigned=1, moving=(P1,), duplicated={}, unexpected={})


def test_unassigned_duplicated_and_unexpected_tasks() -> None:
    found = assignment_audit([P0, P1], {"source task 1": [P0, P2], "source task 0": [P0]}, moving=[P0])
    assert (found.assigned, found.unassigned) == (0, (P1,))
    assert found.duplicated == {P0: ("source task 0", "source task 1")}
    assert found.unexpected == {P2: ("source task 1",)}
