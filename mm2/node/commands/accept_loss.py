"""``POST /flows/{source}/{target}/accept-loss``"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter

from mm2.core.coordination.commands import CommandRefusedError, CommandType
from mm2.core.lanes.losses import Loss, extent
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import is_lost_offset
from mm2.node.commands.leader import LeaderHandle

MOST_NAMED = 20
"""Losses, and partitions, that an answer names: a screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLoss:
    """Accept recorded losses, continue after those that stopped source partitions or the whole flow, and start
    partitions whose stored offsets are gone.

    ``partition`` None: all partitions of ``topic``. ``topic`` None: all of the flow.
    """

    command: ClassVar[str] = "accept-loss"
    topic: str | None = None
    partition: int | None = None

    def covers(self, partition: TopicPartition) -> bool:
        """Return whether the command is for this partition."""
        return self.topic in (None, partition.topic) and self.partition in (None, partition.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRequest:
    """The body of accept-loss."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    topic: Annotated[
        str | None, Field(min_length=1, description="topic name on the source cluster; null: every topic of the flow")
    ] = None
    partition: Annotated[int | None, Field(ge=0, description="null: every partition of the topic")] = None


def _request(partition: PartitionRequest) -> AcceptLoss:
    return AcceptLoss(topic=partition.topic, partition=partition.partition)


async def _carry_out(command: AcceptLoss, leader: LeaderHandle) -> str:
    if command.topic is None and command.partition is not None:
        raise CommandRefusedError("a partition needs its topic")
    status = await leader.status()
    stopped = [
        one
        for topic in status.topics
        for partition in topic.partitions
        if command.covers(one := TopicPartition(topic.topic, partition.partition))
        and is_lost_offset(one, partition.error)
    ]
    started = await leader.term.start_again(stopped) if stopped else []
    origin = leader.origin
    accepted = await leader.losses.accept(command.covers, by=origin.caller.name, reason=origin.reason)
    done = list(map(_accepted, accepted[:MOST_NAMED]))
    if len(accepted) > MOST_NAMED:
        done.append(f"and {len(accepted) - MOST_NAMED} more losses")
    if started:
        done.append(f"starting as if nothing was copied: {', '.join(map(str, started))}")
    if done:
        return "; ".join(done)
    waiting = sorted({f"{loss.topic} partition {loss.partition}" for loss in leader.losses.book.unaccepted})
    more = [f"and {len(waiting) - MOST_NAMED} more"] if len(waiting) > MOST_NAMED else []
    raise CommandRefusedError(
        f"no loss of {_what(command)} waits for acceptance; waiting for acceptance:"
        f" {', '.join([*waiting[:MOST_NAMED], *more]) or 'none'}",
        is_unknown=True,
    )


def _accepted(loss: Loss) -> str:
    continues = "; copying continues after that" if loss.stops else ""
    return f"accepted: {extent(loss)} of {loss.topic}-{loss.partition}{continues}"


def _what(command: AcceptLoss) -> str:
    if command.topic is None:
        return "the flow"
    return f"topic {command.topic}" + ("" if command.partition is None else f" partition {command.partition}")


COMMAND = CommandType(
    path="accept-loss",
    request=_request,
    parse=TypeAdapter(AcceptLoss).validate_python,
    summary="Accept losses",
    description="Records that an operator has dealt with recorded losses, with time, name and reason. If they stopped"
    " a partition or a flow (mm2.on.data.loss is stop-partition or stop-flow), copying continues after the lost"
    " offsets. A partition that is stopped because its stored offset is gone starts again.",
    carry_out=_carry_out,
)
