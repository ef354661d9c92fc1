"""The state of a source task on a node."""

from __future__ import annotations

import pytest

from mm2.core.lanes.source_task_steps import SourceTaskState, Step, StepKind
from mm2.node.source.assigned_source_task import AssignedSourceTask, InvalidTransitionError


def test_it_knows_since_when_it_is_in_its_state_and_why() -> None:
    task = AssignedSourceTask(source_task=3, epoch=1, since=10.0)
    task.take(Step(StepKind.FENCE, SourceTaskState.FENCING, "fencing"), 11.0)
    assert (task.state, task.since, task.why(), task.is_ending) == (SourceTaskState.FENCING, 11.0, "fencing", False)
    task.enter(SourceTaskState.FENCING, 12.0, "fencing again")
    assert (task.since, task.why()) == (11.0, "fencing again")
    task.enter(SourceTaskState.ABANDONED, 13.0)
    assert (task.since, task.why(), task.is_ending) == (13.0, None, True)


def test_a_source_task_that_was_abandoned_is_not_granted_again() -> None:
    task = AssignedSourceTask(source_task=3, epoch=1, state=SourceTaskState.ABANDONED)
    with pytest.raises(InvalidTransitionError, match="source task 3: ABANDONED cannot become LEASED"):
        task.enter(SourceTaskState.LEASED, 0.0)
