"""What a flow's leader has placed, and on whom: from what was published and what the members say."""

from __future__ import annotations

import time
from collections.abc import Mapping

from mm2.config.settings import FlowSettings
from mm2.core.assignment import WEIGHT
from mm2.core.placement import Member, Placement
from mm2.core.placement_round import place
from mm2.core.tasks import TaskId, TaskKind
from mm2.election.protocol import MemberInfo
from mm2.node.config_topic import ConfigTopic
from mm2.node.flow_picture import held_tasks
from mm2.node.leadership import Leadership, flow_tasks
from mm2.node.task_host import lasting_tasks


def shared_tasks(
    settings: FlowSettings, configs: ConfigTopic, leading: Leadership | None, before: Placement
) -> dict[TaskId, int]:
    """What the flow's nodes share out, with weights. ``leading``: where this node leads; before it has begun to, what
    the leader before published last may not have been read, and nothing that is placed is taken for gone."""
    tasks = _published(settings, configs, leading.weights() if leading is not None else {})
    if settings.enabled and (leading is None or not leading.begun):
        slots = (task for task in before.places if task.kind is TaskKind.SOURCE)
        tasks |= {task: WEIGHT for task in slots if task not in tasks}
    return tasks


def placed(
    tasks: Mapping[TaskId, int],
    infos: Mapping[str, MemberInfo],
    *,
    settings: FlowSettings,
    before: Placement,
    generation: int,
) -> Placement:
    """The outcome of a round of this generation, or of one that were made now."""
    members = {
        member: Member(node=info.node_id, capacity=info.capacity, holds=held_tasks(info), epoch=info.epoch)
        for member, info in infos.items()
    }
    return place(
        tasks,
        members,
        before=before,
        epoch=generation,
        now_ms=time.time_ns() // 1_000_000,
        delay_ms=settings.worker.scheduled_rebalance_max_delay_ms,
        salt=str(settings.flow),
    )


def waits_for_round(settings: FlowSettings, configs: ConfigTopic, placement: Placement) -> bool:
    """Whether a task is on its way from one node to another, or was published and not placed yet."""
    moving = any(one.next is not None for one in placement.places.values())
    return moving or any(task not in placement.places for task in _published(settings, configs, {}))


def _published(settings: FlowSettings, configs: ConfigTopic, weights: Mapping[int, int]) -> dict[TaskId, int]:
    lists = configs.slots.records if settings.enabled else {}
    return flow_tasks(lists, lasting_tasks(settings, configs.groups.sizes()), weights)
