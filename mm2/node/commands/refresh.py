"""``POST /flows/{source}/{target}/refresh``"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import TypeAdapter

from mm2.core.coordination.commands import CommandType
from mm2.node.commands.leader import LeaderHandle
from mm2.node.flow.task_host import TaskHost


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """Refresh topics, groups, topic configurations and ACLs now instead of at the end of their intervals."""

    command: ClassVar[str] = "refresh"


async def _carry_out(command: Refresh, leader: LeaderHandle) -> str:
    leader.term.refresh()
    await leader.term.publish_command(command)
    return "refreshing topics, groups, topic configurations and ACLs now"


def _on_every_node(_: Refresh, host: TaskHost) -> None:
    host.refresh()


COMMAND = CommandType(
    path="refresh",
    request=Refresh,
    parse=TypeAdapter(Refresh).validate_python,
    summary="Refresh topics and groups now",
    description="Refreshes topics, groups, topic configurations and ACLs now instead of at the end of their intervals.",
    carry_out=_carry_out,
    on_every_node=_on_every_node,
)
