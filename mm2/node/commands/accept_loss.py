"""``POST /flows/{source}/{target}/accept-loss``"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter

from mm2.core.coordination.commands import CommandRefusedError, CommandType
from mm2.core.lanes.losses import extent
from mm2.core.naming.names import TopicPartition
from mm2.node.commands.leader import LeaderHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLoss:
    """Continue after the losses of a source partition that stopped it, or the whole flow."""

    command: ClassVar[str] = "accept-loss"
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRequest:
    """The body of accept-loss."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    topic: Annotated[str, Field(min_length=1, description="topic name on the source cluster")]
    partition: Annotated[int, Field(ge=0)]


def _request(partition: PartitionRequest) -> AcceptLoss:
    return AcceptLoss(topic=partition.topic, partition=partition.partition)


async def _carry_out(command: AcceptLoss, leader: LeaderHandle) -> str:
    partition = TopicPartition(command.topic, command.partition)
    accepted = await leader.losses.accept(partition)
    if accepted:
        return f"accepted: {', '.join(map(extent, accepted))} of {partition}; copying continues after that"
    waiting = sorted({f"{loss.topic} partition {loss.partition}" for loss in leader.losses.waiting})
    raise CommandRefusedError(
        f"no loss of topic {command.topic} partition {command.partition} stopped anything; waiting for acceptance:"
        f" {', '.join(waiting) or 'none'}",
        is_unknown=True,
    )


COMMAND = CommandType(
    path="accept-loss",
    request=_request,
    parse=TypeAdapter(AcceptLoss).validate_python,
    summary="Accept the loss that stopped a partition or a flow",
    description="Copying continues after the lost offsets. Losses stop something if mm2.on.data.loss is stop-partition"
    " or stop-flow.",
    carry_out=_carry_out,
)
