"""The leader's assignment of a flow's tasks, from the lists it published and the members' metadata, and when it is due
again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from mm2.config.settings import FlowSettings
from mm2.core.assignment.partition_assignment import WEIGHT
from mm2.core.assignment.rebalance import rebalance
from mm2.core.assignment.task_placement import MemberState, TaskAssignments
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.election.protocol import Joined, MemberInfo
from mm2.node.flow.task_runners import flow_tasks
from mm2.node.leader.leader_term import LeaderTerm
from mm2.node.status.status_builder import held_tasks
from mm2.node.store.config_store import ConfigStore

ASK_AGAIN_S = 5.0
"""How often a leader asks for a report that it lacks: each time is a rebalance, which takes less than a second."""


def weighted_tasks(
    settings: FlowSettings, configs: ConfigStore, leader_term: LeaderTerm | None, before: TaskAssignments
) -> dict[TaskId, int]:
    """Return the tasks of the flow with their weights.

    Until this node has started its term (``leader_term``), the newest lists of the previous leader have possibly not
    been read, so every source task of the previous assignment (``before``) is kept.
    """
    tasks = flow_tasks(settings, configs)
    measured = leader_term.weights() if leader_term is not None else {}
    tasks |= {task: measured[task.number] for task in tasks if task.kind == TaskKind.SOURCE and task.number in measured}
    if settings.enabled and (leader_term is None or not leader_term.started):
        tasks |= {one: WEIGHT for one in before.places if one.kind == TaskKind.SOURCE and one not in tasks}
    return tasks


def place_tasks(
    tasks: Mapping[TaskId, int],
    infos: Mapping[str, MemberInfo],
    *,
    settings: FlowSettings,
    before: TaskAssignments,
    generation: int,
) -> TaskAssignments:
    """Return the assignment that a rebalance with this generation results in now."""
    members = {
        member: MemberState(
            node=info.node_id,
            capacity=info.capacity,
            holds=held_tasks(info),
            epoch=info.epoch,
            kinds=frozenset(info.kinds),
        )
        for member, info in infos.items()
    }
    return rebalance(
        tasks,
        members,
        before=before,
        epoch=generation,
        now_ms=time.time_ns() // 1_000_000,
        delay_ms=settings.worker.scheduled_rebalance_max_delay_ms,
        salt=str(settings.flow),
    )


class RebalanceReview:
    """Decides for the leader whether a rebalance is due.

    Reasons are tasks that appeared or disappeared, load that has shifted, a lost node whose delay has expired, and a
    release that no member is going to report (`TaskAssignments.unreported`): members report in rebalances, and start
    one themselves only if they had something to release.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns seconds."""
        self._clock = clock
        self._ask_at = float("-inf")

    def is_due(self, joined: Joined, *, planned: TaskAssignments, current: TaskAssignments) -> bool:
        """Return whether to request a rebalance. ``planned`` is what it results in with the last reports."""
        if not planned.same_plan(current):
            return True
        held = {member: held_tasks(info) for member, info in joined.members.items()}
        now = self._clock()
        if joined.error is not None or now < self._ask_at or not current.unreported(held):
            return False
        self._ask_at = now + ASK_AGAIN_S
        return True


def expects_rebalance(settings: FlowSettings, configs: ConfigStore, placement: TaskAssignments) -> bool:
    """Return whether a task is moving from one node to another, or was published and is not assigned yet."""
    moving = any(one.next is not None for one in placement.places.values())
    return moving or any(task not in placement.places for task in flow_tasks(settings, configs))
