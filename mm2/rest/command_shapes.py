"""The JSON of commands: what operators send to /flows/…, what comes back, and what nodes pass on to the leader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter

from mm2.core.commands import Command


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsShape:
    """The body of pause and resume; it may be left out. Another field is refused: a mistyped one must not look like
    none, which is the whole flow."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    topics: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...],
        Field(description="names on the source cluster; none: the whole flow"),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandShape:
    """A command that has been taken. What comes of it shows in /flows."""

    flow: Annotated[str, Field(description="source->target")]
    command: Annotated[str, Field(description="pause, resume, restart or refresh")]
    node: Annotated[str, Field(description="id of the node that carries it out: the flow's leader")]
    effect: Annotated[str, Field(description="one sentence: what happens now")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCommandShape:
    """A command that is not carried out."""

    detail: Annotated[str, Field(description="a sentence that says why, and what to do")]


COMMAND: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="command")])
"""A command on its way between nodes."""

COMMAND_TAKEN = TypeAdapter(CommandShape)
