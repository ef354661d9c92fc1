"""``POST /flows/{source}/{target}/copy-again``"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter

from mm2.core.coordination.commands import CommandRefusedError, CommandType
from mm2.core.coordination.repeats import (
    MOST_NAMED,
    FromEarliest,
    FromOffset,
    FromTime,
    PlannedRepeat,
    RefusedRepeatError,
    RepeatState,
    plan_repeat,
    requested,
    some_of,
    unknown_history,
)
from mm2.core.naming.names import TopicPartition
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.commands.leader import LeaderHandle
from mm2.node.status.progress import ReplicatedTopic

WAIT_S = 20.0
"""How long an answer waits until the starts are stored; source tasks drain within a second or two."""

_LATEST_TIME_MS = 253_402_300_799_999  # the end of the year 9999


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAgain:
    """Copy ``partition`` of ``topic`` again, all partitions if None, from source ``offset``, from ``time`` (epoch ms),
    or if both are None, from the earliest offset that the source has.

    ``dry_run``: only say what would be copied again. ``yes``: also if it is unknown which query applied to the records.
    """

    command: ClassVar[str] = "copy-again"
    topic: str
    partition: int | None = None
    offset: int | None = None
    time: int | None = None
    dry_run: bool = False
    yes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAgainRequest:
    """The body of copy-again."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    topic: Annotated[str, Field(min_length=1, description="topic name on the source cluster")]
    partition: Annotated[int | None, Field(ge=0, description="null: every partition of the topic")] = None
    offset: Annotated[
        int | None, Field(ge=0, description="source offset from which records are copied again; null: see time")
    ] = None
    time: Annotated[
        int | None,
        Field(
            ge=0,
            le=_LATEST_TIME_MS,
            description="milliseconds since 1970; the source is asked for its first record from then on. Without offset"
            " and time: the earliest offset that the source has",
        ),
    ] = None
    dry_run: Annotated[bool, Field(description="only say what would be copied again")] = False
    yes: Annotated[
        bool, Field(description="also if the topic has a query, and it is unknown which one applied to the records")
    ] = False


def _request(again: CopyAgainRequest) -> CopyAgain:
    return CopyAgain(
        topic=again.topic,
        partition=again.partition,
        offset=again.offset,
        time=again.time,
        dry_run=again.dry_run,
        yes=again.yes,
    )


async def _carry_out(command: CopyAgain, leader: LeaderHandle) -> str:
    if command.offset is not None and command.time is not None:
        raise CommandRefusedError("copy again from an offset or from a time, not from both")
    topic, partitions = await _find(command, leader)
    if leader.configs.pauses.covers(topic.topic):
        raise CommandRefusedError(f"{topic.topic} is paused: resume it first, then copy it again")
    if pending := sorted(leader.configs.repeats.pending.intersection(partitions)):
        named = some_of(list(map(str, pending)))
        raise CommandRefusedError(f"already requested for {named}, and waiting until records in flight are stored")
    plans, left_out = await _plan(command, partitions, leader)
    what = await _announcement(command, topic, plans, left_out, leader)
    if command.dry_run:
        return what
    repeats, origin = leader.configs.repeats, leader.origin
    now = int(time.time() * 1000)
    assert leader.term.repeats is not None
    await leader.term.repeats.request(
        [
            requested(
                one,
                number=repeats.number(one.partition),
                by=origin.caller.name,
                reason=origin.reason,
                topic_id=topic.topic_ids.source,
                now=now,
            )
            for one in plans
        ]
    )
    await leader.term.repeats.settled([one.partition for one in plans], WAIT_S)
    return "\n".join([what, *_outcome(plans, leader)])


async def _find(command: CopyAgain, leader: LeaderHandle) -> tuple[ReplicatedTopic, list[TopicPartition]]:
    """Return the topic, and the partitions to copy again. Raises CommandRefusedError if the flow does not have them."""
    term = leader.term
    if term.error is not None and not term.topics:
        raise CommandRefusedError(f"the topics of the flow are not known yet: {term.error}")
    topic = next((one for one in term.topics if one.topic == command.topic), None)
    if topic is None:
        raise CommandRefusedError(await _why_unknown(command.topic, leader), is_unknown=True)
    if command.partition is not None and command.partition >= topic.partitions:
        raise CommandRefusedError(
            f"topic {topic.topic} has no partition {command.partition}; it has {topic.partitions}", is_unknown=True
        )
    numbers = range(topic.partitions) if command.partition is None else [command.partition]
    return topic, [TopicPartition(topic.topic, number) for number in numbers]


async def _why_unknown(topic: str, leader: LeaderHandle) -> str:
    source = leader.term.flow.source
    found = (await leader.term.log_starts([TopicPartition(topic, 0)])).get(TopicPartition(topic, 0))
    if isinstance(found, int):
        return f"the flow does not select topic {topic} of {source} (topics, topics.exclude): nothing of it is copied"
    if isinstance(found, BrokerError) and found.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"{source} has no topic {topic}"
    return f"the flow does not replicate {topic}"


async def _plan(
    command: CopyAgain, partitions: Sequence[TopicPartition], leader: LeaderHandle
) -> tuple[list[PlannedRepeat], list[str]]:
    """Return what is copied again, and why nothing of other partitions is. Raises CommandRefusedError."""
    stored = await leader.term.stored_positions(partitions)
    earliest = _known(await leader.term.log_starts(partitions), "the start of")
    at_time: Mapping[TopicPartition, int] = {}
    if command.time is not None:
        at_time = _known(await leader.term.offsets_at(partitions, command.time), "the time in")
    plans: list[PlannedRepeat] = []
    left_out: list[str] = []
    for one in partitions:
        start: FromOffset | FromTime | FromEarliest = FromEarliest()
        if command.offset is not None:
            start = FromOffset(offset=command.offset)
        elif command.time is not None:
            found = at_time[one]
            start = FromTime(time=command.time, offset=None if found < 0 else found)
        try:
            planned = plan_repeat(one, start, stored=stored.get(one), earliest=earliest[one])
        except RefusedRepeatError as error:
            raise CommandRefusedError(str(error)) from error
        if isinstance(planned, str):
            left_out.append(planned)
        else:
            plans.append(planned)
    if not plans:
        raise CommandRefusedError(f"nothing to copy again: {'; '.join(left_out[:MOST_NAMED])}")
    return plans, left_out


def _known(found: Mapping[TopicPartition, int | ClusterError], what: str) -> dict[TopicPartition, int]:
    """Return the offsets. Raises CommandRefusedError if the source has not told one."""
    for one, offset in found.items():
        if isinstance(offset, ClusterError):
            raise CommandRefusedError(f"cannot ask the source for {what} {one}: {offset}")
    return {one: offset for one, offset in found.items() if isinstance(offset, int)}


async def _announcement(
    command: CopyAgain,
    topic: ReplicatedTopic,
    plans: Sequence[PlannedRepeat],
    left_out: Sequence[str],
    leader: LeaderHandle,
) -> str:
    """Return what is copied again and what follows from that. Raises CommandRefusedError for an unknown history."""
    offsets = sum(one.offsets for one in plans)
    verb = "would copy" if command.dry_run else "copying"
    lines = [
        f"{verb} {topic.topic} again: at most {offsets:,} records of"
        f" {len(plans)} {'partition' if len(plans) == 1 else 'partitions'}"
    ]
    lines += [
        f"partition {one.partition.partition}: offsets {one.first}-{one.until - 1}, at most {one.offsets:,} records"
        for one in plans[:MOST_NAMED]
    ]
    if len(plans) > MOST_NAMED:
        lines.append(f"and {len(plans) - MOST_NAMED} more partitions")
    if left_out:
        lines.append(f"not copied again: {'; '.join(left_out[:MOST_NAMED])}")
    lines.append(
        f"consumers of {topic.remote_topic} read these records a second time, behind those that it has now; committed"
        " offsets do not move back"
    )
    lines += _of_queries(command, topic, plans, leader)
    lines += await _of_losses(plans, leader)
    return "\n".join(lines)


def _of_queries(
    command: CopyAgain, topic: ReplicatedTopic, plans: Sequence[PlannedRepeat], leader: LeaderHandle
) -> list[str]:
    histories = leader.configs.query_histories
    concerned = {
        one.partition: histories.of(one.partition)
        for one in plans
        if topic.query is not None or histories.of(one.partition).entries
    }
    if not concerned:
        return []
    now = "without a query" if topic.query is None else f"with query {topic.query}"
    unknown = unknown_history(plans, concerned)
    if unknown is None:
        return [f"the records are copied again {now}, whatever query applied to them before"]
    text = f"it is not known which query applied to all of these records of {unknown}; they are copied again {now}"
    if command.yes or command.dry_run:
        return [text if command.yes else f"{text}: needs --yes"]
    raise CommandRefusedError(f"{text}, so the copies may differ: confirm that with --yes")


async def _of_losses(plans: Sequence[PlannedRepeat], leader: LeaderHandle) -> list[str]:
    """Return a line about recorded losses in what is copied again."""
    areas = {one.partition: one for one in plans}
    found = [
        loss
        for loss in await leader.losses.recorded()
        if (area := areas.get(TopicPartition(loss.topic, loss.partition))) is not None
        and loss.first < area.until
        and area.first < loss.until
    ]
    if not found:
        return []
    what = "1 recorded loss is" if len(found) == 1 else f"{len(found)} recorded losses are"
    return [
        f"{what} in these offsets; what the source still has of them is copied now, and mm2 losses keeps showing them:"
        " once they are copied, accept them with mm2 accept-loss"
    ]


def _outcome(plans: Sequence[PlannedRepeat], leader: LeaderHandle) -> list[str]:
    """Return what has become of the repeats."""
    repeats = [found for one in plans if (found := leader.configs.repeats.of(one.partition)) is not None]
    pending = [str(one.partition) for one in repeats if one.is_pending]
    lines = [f"{one.partition}: {one.last_word}" for one in repeats if one.state is RepeatState.CANCELLED]
    if pending:
        lines.append(
            f"{some_of(pending)}: still waiting until records in flight are stored; copying starts again after that"
            " without further commands, see mm2 status"
        )
    return lines


COMMAND = CommandType(
    path="copy-again",
    request=_request,
    parse=TypeAdapter(CopyAgain).validate_python,
    summary="Copy a topic again",
    description="Drains partitions of a topic, stores the offset to start from, and copies from there again. The answer"
    " says which offsets of which partitions are repeated; consumers of the remote topic read them a second time.",
    carry_out=_carry_out,
)
