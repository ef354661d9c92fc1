"""The response to a command; a module of its own, because the command line reads it without a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResponse:
    """A command that was accepted. GET /flows shows its effect."""

    flow: Annotated[str, Field(description="source->target")]
    command: Annotated[str, Field(description="pause, resume, restart or refresh")]
    node: Annotated[str, Field(description="ID of the node that executes it: the flow's leader")]
    effect: Annotated[str, Field(description="what happens now")]


COMMAND_RESPONSE = TypeAdapter(CommandResponse)
