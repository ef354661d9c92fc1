"""The table of commands."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache

from mm2.core.coordination.commands import Command, CommandRefusedError, CommandType
from mm2.kafka.errors import ClusterError
from mm2.node.commands.leader import LeaderHandle
from mm2.node.flow.task_host import TaskHost

COMMANDS: dict[str, str] = {
    "pause": "mm2.node.commands.pause:COMMAND",
    "resume": "mm2.node.commands.resume:COMMAND",
    "restart": "mm2.node.commands.restart:COMMAND",
    "accept-loss": "mm2.node.commands.accept_loss:COMMAND",
    "refresh": "mm2.node.commands.refresh:COMMAND",
    "skip": "mm2.node.commands.skip:COMMAND",
    "copy-again": "mm2.node.commands.copy_again:COMMAND",
}
"""From the name of a command to the import string of its `CommandType`."""


@cache
def command_types() -> Mapping[str, CommandType]:
    """Return the command types of `COMMANDS`, by name."""
    return {name: pkgutil.resolve_name(place) for name, place in COMMANDS.items()}


async def carry_out(command: Command, leader: LeaderHandle) -> str:
    """Run ``command`` on the leader; return a message about its effect. Raises CommandRefusedError."""
    try:
        return await command_types()[command.command].carry_out(command, leader)
    except ClusterError as error:
        raise CommandRefusedError(f"cannot store the command: {error}") from error


def run_on_this_node(command: Command, host: TaskHost) -> None:
    """Run the part of a command that every node runs, if it has one."""
    on_every_node = command_types()[command.command].on_every_node
    if on_every_node is not None:
        on_every_node(command, host)
