"""``POST /flows/{source}/{target}/skip``"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter

from mm2.core.coordination.commands import CommandRefusedError, CommandType
from mm2.core.naming.names import TopicPartition
from mm2.node.commands.leader import LeaderHandle
from mm2.node.status.status_model import FlowStatus, PartitionStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Leave out what stops a partition at source offset ``offset``."""

    command: ClassVar[str] = "skip"
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipRequest:
    """The body. All fields are required, so that nothing is skipped by mistake."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    topic: Annotated[str, Field(min_length=1, description="topic name on the source cluster")]
    partition: Annotated[int, Field(ge=0)]
    offset: Annotated[int, Field(ge=0, description="source offset at which the partition is stopped")]


def _request(skipped: SkipRequest) -> Skip:
    return Skip(topic=skipped.topic, partition=skipped.partition, offset=skipped.offset)


async def _carry_out(command: Skip, leader: LeaderHandle) -> str:
    partition = TopicPartition(command.topic, command.partition)
    is_repeated = leader.configs.skips.offsets.get(partition) == command.offset
    status = await leader.status()
    found = _find(partition, status)
    if found.stopped_at != command.offset:
        if is_repeated:
            return f"already skipping offset {command.offset} of {partition}"
        raise CommandRefusedError(_why_not(partition, found, status))
    await leader.term.skip(partition, command.offset)
    last = (found.stopped_until or 0) - 1
    if last <= command.offset:
        return f"skipping offset {command.offset} of {partition}, recorded as a loss; copying continues after it"
    return (
        f"skipping offsets {command.offset}-{last} of {partition}, a batch that cannot be read, recorded as a loss;"
        " copying continues after it"
    )


def _find(partition: TopicPartition, status: FlowStatus) -> PartitionStatus:
    """Return the status of the partition. Raises CommandRefusedError if the flow does not replicate it."""
    partitions = {
        one.partition: one for topic in status.topics if topic.topic == partition.topic for one in topic.partitions
    }
    if partition.partition in partitions:
        return partitions[partition.partition]
    what = partition if partitions else partition.topic
    raise CommandRefusedError(f"the flow does not replicate {what}", is_unknown=True)


def _why_not(partition: TopicPartition, found: PartitionStatus, status: FlowStatus) -> str:
    if found.stopped_at is not None:
        return f"{partition} is not stopped at this offset, but at offset {found.stopped_at}: {found.error}"
    unknown = [reason for reason in status.reasons if reason.startswith("state of node ")]
    if found.position is None:
        unknown.append("its position is not known now, try again")
    details = "; ".join([*([found.error] if found.error else []), *unknown])
    return f"{partition} is not stopped by a record that cannot be copied: it is {found.state}" + (
        f" ({details})" if details else ""
    )


COMMAND = CommandType(
    path="skip",
    request=_request,
    parse=TypeAdapter(Skip).validate_python,
    summary="Skip a record that cannot be copied",
    description="Leaves out the record, or the batch that cannot be read, at which a partition is stopped, and records"
    " it as a loss.",
    carry_out=_carry_out,
)
