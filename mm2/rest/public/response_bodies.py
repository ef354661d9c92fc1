"""Bodies of responses that the command line reads, too, without a server: those of commands and of losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter

from mm2.core.lanes.losses import Loss


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResponse:
    """A command that was accepted. GET /flows shows its effect."""

    flow: Annotated[str, Field(description="source->target")]
    command: Annotated[str, Field(description="pause, resume, restart or refresh")]
    node: Annotated[str, Field(description="ID of the node that executes it: the flow's leader")]
    effect: Annotated[str, Field(description="what happens now")]


COMMAND_RESPONSE = TypeAdapter(CommandResponse)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossesResponse:
    """Every recorded loss of a flow."""

    flow: Annotated[str, Field(description="source->target")]
    losses: Annotated[tuple[Loss, ...], Field(description="in the order in which they were recorded")]


LOSSES_RESPONSE = TypeAdapter(LossesResponse)
