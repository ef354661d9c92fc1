"""``POST /flows/{source}/{target}/pause``"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter

from mm2.core.coordination.commands import CommandRefusedError, CommandType
from mm2.core.coordination.pauses import PauseOrigin
from mm2.node.commands.leader import LeaderHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Stop copying ``topics`` (source names). Without topics the whole flow is paused, including checkpoints."""

    command: ClassVar[str] = "pause"
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsRequest:
    """The optional body of pause and resume.

    Unknown fields are rejected: a misspelled ``topics`` would otherwise apply to the whole flow.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    topics: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...],
        Field(description="topic names on the source cluster; empty: the whole flow"),
    ] = ()


def _request(topics: TopicsRequest | None = None) -> Pause:
    return Pause(topics=topics.topics if topics else ())


async def _carry_out(command: Pause, leader: LeaderHandle) -> str:
    _check_replicated(command.topics, leader)
    origin = PauseOrigin(who=leader.origin.caller.name, reason=leader.origin.reason)
    await leader.term.pause(leader.configs.pauses.pause(command.topics, at=int(time.time() * 1000), origin=origin))
    await leader.configs.catch_up()
    named = ", ".join(dict.fromkeys(command.topics))
    return f"paused {named or 'the whole flow'} until resumed; records in flight are still copied"


def _check_replicated(topics: tuple[str, ...], leader: LeaderHandle) -> None:
    """Raise CommandRefusedError for a topic that the flow does not replicate, such as a misspelled name."""
    if topics and leader.term.error is not None and not leader.term.topics:
        raise CommandRefusedError(f"the topics of the flow are not known yet: {leader.term.error}")
    known = {topic.topic for topic in leader.term.topics}
    unknown = [topic for topic in topics if topic not in known]
    if unknown:
        raise CommandRefusedError(f"the flow does not replicate {', '.join(unknown)}", is_unknown=True)


COMMAND = CommandType(
    path="pause",
    request=_request,
    parse=TypeAdapter(Pause).validate_python,
    summary="Pause a flow, or some of its topics",
    description="Copying stops and offsets are kept. A pause remains in effect after restarts and leader changes.",
    carry_out=_carry_out,
)
