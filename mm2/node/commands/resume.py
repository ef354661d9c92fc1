"""``POST /flows/{source}/{target}/resume``"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import TypeAdapter

from mm2.core.coordination.commands import CommandRefusedError, CommandType
from mm2.node.commands.leader import LeaderHandle
from mm2.node.commands.pause import TopicsRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Resume ``topics`` (source names). Without topics every pause of the flow ends."""

    command: ClassVar[str] = "resume"
    topics: tuple[str, ...] = ()


def _request(topics: TopicsRequest | None = None) -> Resume:
    return Resume(topics=topics.topics if topics else ())


async def _carry_out(command: Resume, leader: LeaderHandle) -> str:
    configs = leader.configs
    not_paused = [topic for topic in command.topics if topic not in configs.pauses.topics]
    if not_paused:
        paused = ", ".join(topic or "the flow as a whole" for topic in configs.pauses.named) or "nothing"
        raise CommandRefusedError(f"{', '.join(not_paused)}: not paused by name; paused: {paused}", is_unknown=True)
    await leader.term.pause(configs.pauses.resume(command.topics))
    await configs.catch_up()
    left = [topic or "the flow" for topic in configs.pauses.named]
    return "resumed copying" + (f"; still paused: {', '.join(left)}" if left else "")


COMMAND = CommandType(
    path="resume",
    request=_request,
    parse=TypeAdapter(Resume).validate_python,
    summary="Resume a flow, or some of its topics",
    description="Copying resumes where it stopped.",
    carry_out=_carry_out,
)
