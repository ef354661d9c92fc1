"""What operators may ask of a flow. The leader carries it out; any node takes it and passes it on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Stop copying ``topics``, by their names on the source; none: the whole flow, also its checkpoints."""

    topics: tuple[str, ...] = ()
    command: Literal["pause"] = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """End a pause of ``topics``; none: every pause in the flow."""

    topics: tuple[str, ...] = ()
    command: Literal["resume"] = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartTask:
    """Stop one task and start it anew, also when it has FAILED. ``task``: MirrorSourceConnector-0 and so on."""

    task: str
    command: Literal["restart"] = "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """Look for topics, groups, configurations and ACLs now, not at the end of their intervals."""

    command: Literal["refresh"] = "refresh"


Command = Pause | Resume | RestartTask | Refresh


class CommandRefusedError(Exception):
    """A command cannot be carried out; the text says why, for the operator. ``is_unknown``: it speaks of a topic or a
    task that is not there; else the flow cannot do it now."""

    def __init__(self, text: str, *, is_unknown: bool = False) -> None:
        super().__init__(text)
        self.is_unknown = is_unknown
