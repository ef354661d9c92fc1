"""When tasks moved from one node to another, as far as a node knows."""

from __future__ import annotations

from dataclasses import replace

from mm2.core.assignment.task_placement import TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.node.flow.retained_state import RetainedFlowState

MOVING, STAYING, NEW = (TaskId(TaskKind.HEARTBEAT, number) for number in range(3))
HERE = TaskPlacement(owner="m-1", node="one", since=1, home="one")
RELEASING, THERE = replace(HERE, next="m-2"), replace(HERE, owner="m-2", node="two", since=3)


def test_each_step_of_a_move_is_noted_and_first_places_are_not() -> None:
    retained = RetainedFlowState()
    retained.take_placement(TaskAssignments(epoch=1, places={MOVING: HERE, STAYING: HERE}))
    assert not retained.moved_at
    retained.take_placement(TaskAssignments(epoch=2, places={MOVING: RELEASING, STAYING: HERE, NEW: HERE}))
    first = retained.moved_at[MOVING]
    assert retained.moved_at.keys() == {MOVING}
    retained.take_placement(TaskAssignments(epoch=3, places={MOVING: THERE, STAYING: HERE}))
    assert retained.moved_at.keys() == {MOVING}
    assert retained.moved_at[MOVING] >= first
    retained.take_placement(TaskAssignments(epoch=4, places={STAYING: HERE}))
    assert not retained.moved_at
