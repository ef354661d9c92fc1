"""``POST /flows/{source}/{target}/tasks/{task}/restart``"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import TypeAdapter

from mm2.core.assignment.tasks import TaskId
from mm2.core.coordination.commands import CommandRefusedError, CommandType
from mm2.node.commands.leader import LeaderHandle
from mm2.node.flow.task_host import TaskHost


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartTask:
    """Restart one task, including a FAILED one. ``task`` is its ID, such as MirrorSourceConnector-0."""

    command: ClassVar[str] = "restart"
    task: str


def _request(task: str) -> RestartTask:
    return RestartTask(task=task)


async def _carry_out(command: RestartTask, leader: LeaderHandle) -> str:
    tasks = {str(task): place for task, place in leader.placement.places.items()}
    place = tasks.get(command.task)
    if place is None:
        others = ", ".join(tasks) or "none"
        raise CommandRefusedError(f"there is no task {command.task}; the flow's tasks: {others}", is_unknown=True)
    if place.owner is None:
        raise CommandRefusedError(f"{command.task} is not assigned to a node; it starts when it is assigned")
    await leader.term.publish_command(command)
    return f"restarting {command.task} on node {place.node}"


def _on_every_node(command: RestartTask, host: TaskHost) -> None:
    if command.task in {str(task) for task in host.holds}:
        host.restart(TaskId.parse(command.task))


COMMAND = CommandType(
    path="tasks/{task}/restart",
    request=_request,
    parse=TypeAdapter(RestartTask).validate_python,
    summary="Restart one task",
    description="Stops the task and starts it from its stored offsets. A FAILED task can be restarted, too.",
    carry_out=_carry_out,
    on_every_node=_on_every_node,
)
