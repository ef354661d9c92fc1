"""OffsetFetch: all committed offsets of groups, many groups a request where the broker can (KIP-709, brokers 3.0+).

Grammar (`n+` marks what a version added, `-n` what it dropped; version 8 is flexible: compact lengths, tag sections):

    request   := v2 to v5: group str | topics null [..]
                 v8: [group str, topics null [..]] | require stable bool
    answer    := 3+ throttle i32
                 | 2-7 topics, error i16
                 | 8+ [group str, topics, error i16]
    topics    := [topic str, [partition i32, offset i64, 5+ leader epoch i32, metadata str?, error i16]]

Transactions that are still open are not waited for: require stable is false, as in Java's admin client.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mm2.core.checkpoints import CommittedOffset
from mm2.core.names import TopicPartition
from mm2.kafka.answer_reader import AnswerReader
from mm2.kafka.errors import BrokerError
from mm2.kafka.group_errors import describe_error
from mm2.kafka.raw_request import NO_TAGS, RawRequest, put_compact_string, put_string, put_varint, version_for

OFFSET_FETCH = 9
MANY_GROUPS = 8  # OffsetFetch's version that takes several groups

_LOWEST_SINGLE, _HIGHEST_SINGLE = 2, 5  # 2 can ask for all partitions; from 6 on it is flexible, for nothing new
_LEADER_EPOCHS = 5
_YIELD_EVERY = 5_000  # partitions decoded between two turns of the event loop: about 10 ms

_NULL_COMPACT = 0
_NULL = struct.Struct(">i").pack(-1)
_POSITION = struct.Struct(">iq")
_POSITION_5 = struct.Struct(">iqi")

CommittedOffsets = dict[TopicPartition, CommittedOffset | None]


class UndecodedOffsets(NamedTuple):
    """An answer left as bytes, so that decoding it can pause for the event loop; ``groups`` as asked."""

    version: int
    groups: Sequence[str]
    reader: AnswerReader


class OffsetFetchRequest:
    """Ask a coordinator for everything that ``groups`` committed; one group only, where it is older than 3.0.

    `fetched_offsets` reads the answer.
    """

    API_KEY = OFFSET_FETCH

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest:
        """The request in the highest version that does it. Raises NotSupported."""
        if fetches_many(versions):
            return RawRequest(OFFSET_FETCH, MANY_GROUPS, self._many(), self._undecoded, flexible=True)
        (group,) = self._groups
        version = version_for(versions, OFFSET_FETCH, "OffsetFetch", _LOWEST_SINGLE, _HIGHEST_SINGLE)
        body = bytearray()
        put_string(body, group)
        return RawRequest(OFFSET_FETCH, version, bytes(body + _NULL), self._undecoded)

    def _many(self) -> bytes:
        body = bytearray()
        put_varint(body, len(self._groups) + 1)
        for group in self._groups:
            put_compact_string(body, group)
            body += bytes([_NULL_COMPACT, NO_TAGS])
        body += bytes([False, NO_TAGS])
        return bytes(body)

    def _undecoded(self, data: bytes, at: int, version: int) -> UndecodedOffsets:
        return UndecodedOffsets(version, self._groups, AnswerReader(data, at, flexible=version >= MANY_GROUPS))


def fetches_many(versions: Mapping[int, tuple[int, int]]) -> bool:
    """Whether a broker takes several groups in one request."""
    lowest, highest = versions.get(OFFSET_FETCH, (0, -1))
    return lowest <= MANY_GROUPS <= highest


async def fetched_offsets(answer: UndecodedOffsets) -> dict[str, CommittedOffsets | BrokerError]:
    """Read an answer, letting the event loop turn in between. A group that does not exist has no offsets."""
    reader = answer.reader
    if answer.version >= 3:
        reader.int32()  # throttle time: the broker itself delays us
    if answer.version < MANY_GROUPS:
        (group,) = answer.groups
        return {group: await _group(reader, group, answer.version)}
    found: dict[str, CommittedOffsets | BrokerError] = {}
    since_yield = 0
    for _ in range(reader.length()):
        group = reader.string() or ""
        found[group] = offsets = await _group(reader, group, answer.version)
        reader.tags()
        since_yield += 1 if isinstance(offsets, BrokerError) else 1 + len(offsets)
        if since_yield >= _YIELD_EVERY:
            since_yield = 0
            await asyncio.sleep(0)
    return found


async def _group(reader: AnswerReader, group: str, version: int) -> CommittedOffsets | BrokerError:
    """One group; an error of one of its partitions, which a broker has no reason to give, becomes the group's."""
    offsets: CommittedOffsets = {}
    error = since_yield = 0
    for _ in range(reader.length()):
        topic = reader.string() or ""
        partitions = reader.length()
        for _ in range(partitions):
            partition, committed, code = _partition(reader, version)
            offsets[TopicPartition(topic, partition)] = committed
            error = code or error
        reader.tags()
        since_yield += partitions
        if since_yield >= _YIELD_EVERY:
            since_yield = 0
            await asyncio.sleep(0)
    error = reader.int16() or error
    return describe_error(error, "fetch the offsets of group", group) if error else offsets


def _partition(reader: AnswerReader, version: int) -> tuple[int, CommittedOffset | None, int]:
    partition, offset, *_ = reader.fixed(_POSITION_5 if version >= _LEADER_EPOCHS else _POSITION)
    metadata, error = reader.string(), reader.int16()
    reader.tags()
    return partition, CommittedOffset(offset=offset, metadata=metadata or "") if offset >= 0 else None, error
