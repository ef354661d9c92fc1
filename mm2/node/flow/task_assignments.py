"""The leader's assignment of a flow's tasks, from the lists it published and the members' metadata."""

from __future__ import annotations

import time
from collections.abc import Mapping

from mm2.config.settings import FlowSettings
from mm2.core.assignment.partition_assignment import WEIGHT
from mm2.core.assignment.rebalance import rebalance
from mm2.core.assignment.task_placement import MemberState, TaskAssignments
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.election.protocol import MemberInfo
from mm2.node.flow.task_runners import flow_tasks
from mm2.node.leader.leader_term import LeaderTerm
from mm2.node.status.status_builder import held_tasks
from mm2.node.store.config_store import ConfigStore


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
            kinds=None if info.kinds is None else frozenset(info.kinds),
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


def expects_rebalance(settings: FlowSettings, configs: ConfigStore, placement: TaskAssignments) -> bool:
    """Return whether a task is moving from one node to another, or was published and is not assigned yet."""
    moving = any(one.next is not None for one in placement.places.values())
    return moving or any(task not in placement.places for task in flow_tasks(settings, configs))
