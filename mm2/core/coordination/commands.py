"""Operator commands for a flow: any node accepts a command, the leader executes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol


class Command(Protocol):
    """A command: a frozen dataclass whose fields are the arguments."""

    command: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]


class CommandRefusedError(Exception):
    """A command cannot be executed; the message gives the operator the reason.

    ``is_unknown``: it names a topic or a task that does not exist; otherwise the flow cannot execute it now.
    """

    def __init__(self, text: str, *, is_unknown: bool = False) -> None:
        super().__init__(text)
        self.is_unknown = is_unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandType:
    """One kind of command, as described by its module (`mm2.node.commands.registry.COMMANDS`).

    ``path`` follows ``/flows/{source}/{target}/``. ``request`` creates the command from a request: its parameters are
    taken from the path by name, and a dataclass parameter from the body. ``parse`` creates it from `as_message` without
    the name and raises ValueError. ``summary`` and ``description`` are shown in GET /docs.

    ``carry_out`` runs on the leader, with a `mm2.node.commands.leader.LeaderHandle`. It returns a message about the
    effect, or raises CommandRefusedError. ``on_every_node`` runs on every node, with its `TaskHost`, if the leader
    publishes the command.
    """

    path: str
    request: Callable[..., Command]
    parse: Callable[[Mapping[str, object]], Command]
    summary: str
    description: str
    carry_out: Callable[[Any, Any], Awaitable[str]]
    on_every_node: Callable[[Any, Any], None] | None = None


def as_message(command: Command) -> dict[str, object]:
    """Return the command as JSON for other nodes: ``{"command": name, argument: value, …}``."""
    return {"command": command.command, **asdict(command)}


def parse_message(message: object, types: Mapping[str, CommandType]) -> Command:
    """Read `as_message`; unknown arguments are ignored. Raises ValueError if the command does not exist."""
    match message:
        case {"command": str(name), **arguments} if name in types:
            return types[name].parse({str(key): value for key, value in arguments.items()})
    raise ValueError(f"not a command of this release: {message!r:.200}")
