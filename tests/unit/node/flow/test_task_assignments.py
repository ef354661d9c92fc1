"""When a leader requests a rebalance by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mm2.config.settings import FlowSettings
from mm2.core.assignment.partition_assignment import WEIGHT
from mm2.core.assignment.task_placement import TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.election.protocol import Joined, MemberInfo
from mm2.node.flow.task_assignments import ASK_AGAIN_S, RebalanceReview, place_tasks
from tests.unit.config.files import flow

S0, S1 = (TaskId(TaskKind.SOURCE, number) for number in range(2))
C0 = TaskId(TaskKind.CHECKPOINT, 0)


@pytest.fixture
def settings(tmp_path: Path) -> FlowSettings:
    return flow(tmp_path)


@dataclass(slots=True, kw_only=True)
class Leader:
    """The leader of nodes ``one`` and ``two``. Source task 0 and the checkpoint task run on ``two``.

    ``members``: what they reported last. ``weights``: of the tasks, which are balanced at first.
    """

    settings: FlowSettings
    now: float = 1_000.0
    members: dict[str, MemberInfo] = field(default_factory=dict)
    weights: dict[TaskId, int] = field(default_factory=lambda: {S0: 14 * WEIGHT, S1: 14 * WEIGHT, C0: WEIGHT})
    error: str | None = None
    review: RebalanceReview = field(init=False)
    current: TaskAssignments = field(init=False)

    def __post_init__(self) -> None:
        self.review = RebalanceReview(clock=lambda: self.now)
        places = {
            task: TaskPlacement(owner=f"m-{node}", node=node, since=1, home=node)
            for task, node in ((S0, "two"), (S1, "one"), (C0, "two"))
        }
        self.current = TaskAssignments(epoch=1, places=places, seen={"one": 0, "two": 0})
        self.report("one", S1)
        self.report("two", S0, C0)

    def report(self, node: str, *tasks: TaskId, epoch: int = 1) -> None:
        """A member sends its metadata in the next rebalance."""
        held = tuple(map(str, tasks))
        self.members[f"m-{node}"] = MemberInfo(
            node_id=node, url="", capacity=1, kinds=TaskKind.ALL, tasks=held, epoch=epoch
        )

    def plan(self) -> TaskAssignments:
        generation = self.current.epoch + 1
        return place_tasks(
            self.weights, self.members, settings=self.settings, before=self.current, generation=generation
        )

    def rebalance(self) -> None:
        self.current = self.plan()

    def is_due(self) -> bool:
        joined = Joined(
            generation=self.current.epoch,
            member_id="m-two",
            leader_id="m-two",
            members=dict(self.members),
            assignment=None,
            error=self.error,
        )
        return self.review.is_due(joined, planned=self.plan(), current=self.current)

    def move_what_was_lost(self) -> None:
        """Both nodes lose their membership and rejoin, and in that rebalance the checkpoint task moves to ``one``."""
        self.weights |= {S0: 15 * WEIGHT, S1: 13 * WEIGHT}
        for node in ("one", "two"):
            self.report(node, epoch=-1)
        self.rebalance()
        assert self.current.places[C0].owner == "m-two"
        assert self.current.places[C0].next == "m-one"


def test_nothing_is_due_while_the_plan_is_the_same(settings: FlowSettings) -> None:
    leader = Leader(settings=settings)
    assert not leader.is_due()
    leader.weights[TaskId(TaskKind.SOURCE, 2)] = WEIGHT
    assert leader.is_due()


def test_release_is_asked_for_if_the_owner_had_lost_the_task_with_its_membership(settings: FlowSettings) -> None:
    """It does not hold the task when it receives the revocation, so it releases nothing and reports nothing."""
    leader = Leader(settings=settings)
    leader.move_what_was_lost()
    assert leader.plan().same_plan(leader.current)
    assert leader.is_due()

    leader.report("one", S1, epoch=2)
    leader.report("two", S0, epoch=2)
    leader.rebalance()
    assert leader.current.run("m-one") == (C0, S1)
    assert not leader.is_due()


def test_owner_that_holds_the_task_is_not_asked(settings: FlowSettings) -> None:
    """It reports the release itself."""
    leader = Leader(settings=settings)
    leader.weights |= {S0: 15 * WEIGHT, S1: 13 * WEIGHT}
    leader.rebalance()
    assert leader.current.places[C0].next == "m-one"
    assert not leader.is_due()


def test_owner_that_has_not_applied_the_assignment_is_asked_again_later(settings: FlowSettings) -> None:
    leader = Leader(settings=settings)
    leader.move_what_was_lost()
    assert leader.is_due()
    leader.rebalance()
    assert leader.current.places[C0].next == "m-one"
    assert not leader.is_due()
    leader.now += ASK_AGAIN_S
    assert leader.is_due()


def test_nothing_is_asked_while_assignments_cannot_be_sent(settings: FlowSettings) -> None:
    leader = Leader(settings=settings)
    leader.move_what_was_lost()
    leader.error = "the assignments take too many bytes"
    assert not leader.is_due()
