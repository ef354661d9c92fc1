"""Requests about groups that aiokafka's set lacks, or knows in old versions only.

Grammar (`n+` marks what a version added; in flexible versions lengths are compact and tag sections follow):

    FindCoordinator 4, flexible
        request  := kind i8 | [key str]
        answer   := throttle i32 | [key str, node i32, host str, port i32, error i16, words str?]
    ListGroups 0 to 5, flexible from 3 on
        request  := 4+ [state str] | 5+ [kind str]
        answer   := 1+ throttle i32 | error i16 | [group str, protocol type str, 4+ state str, 5+ kind str]
    DescribeGroups 0 to 2
        request  := [group str]
        answer   := 1+ throttle i32 | [error i16, group str, state str, protocol type str, protocol str,
                                       [member str, client str, host str, metadata bytes, assignment bytes]]
    ConsumerGroupDescribe 0, flexible
        request  := [group str] | with operations bool
        answer   := throttle i32 | [error i16, words str?, group str, state str, epoch i32, assignment epoch i32,
                                    assignor str, members, operations i32]
        members  := [member str, instance str?, rack str?, epoch i32, client str, host str, [topic str], regex str?,
                     assigned now, assigned next]
        assigned := [topic id uuid, topic str, [partition i32]]
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mm2.kafka.answer_reader import AnswerReader
from mm2.kafka.raw_request import NO_TAGS, RawRequest, put_compact_strings, put_string, version_for

FIND_COORDINATOR, DESCRIBE_GROUPS, LIST_GROUPS, CONSUMER_GROUP_DESCRIBE = 10, 15, 16, 69
MANY_COORDINATORS = 4  # FindCoordinator's version that takes several keys (KIP-699, brokers 3.0+)

CONSUMER_PROTOCOL = "consumer"

_GROUP_KEY = 0
_NO_STRINGS = 1  # an empty compact array
_FLEXIBLE_LIST = 3
_HIGHEST_LIST = 5
_HIGHEST_DESCRIBE = 2  # later ones tell more of members (aiokafka's struct of 3 misreads a second group)
_YIELD_EVERY = 5_000  # groups decoded between two turns of the event loop: about 10 ms


_i32 = struct.Struct(">i")


class UndecodedGroups(NamedTuple):
    """An answer about many groups, left as bytes so that decoding it can pause for the event loop."""

    version: int
    reader: AnswerReader


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as a broker lists it: Kafka's words; None where the broker is too old to say.

    ``protocol_type`` is ``consumer``, or empty for a group that only ever committed offsets. ``state`` is known from
    Kafka 2.6 on; ``kind``, ``classic`` or ``consumer`` (KIP-848), from 3.8 on.
    """

    group: str
    protocol_type: str
    state: str | None
    kind: str | None


class FoundCoordinator(NamedTuple):
    """Which broker coordinates a group, or the ``error`` and the broker's ``words`` why that is not known."""

    group: str
    node_id: int
    error: int
    words: str | None


class GroupState(NamedTuple):
    """A described group, or the ``error`` and the broker's ``words`` why it is not described."""

    group: str
    error: int
    words: str | None
    state: str
    protocol_type: str


class FindCoordinatorsRequest:
    """Ask any broker for the coordinators of ``groups``."""

    API_KEY = FIND_COORDINATOR

    def __init__(self, groups: Collection[str]) -> None:
        self._groups = groups

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest:
        """Raises NotSupported for brokers that look up one at a time."""
        version = version_for(versions, self.API_KEY, "FindCoordinator", MANY_COORDINATORS, MANY_COORDINATORS)
        body = bytearray([_GROUP_KEY])
        put_compact_strings(body, self._groups)
        body.append(NO_TAGS)
        return RawRequest(self.API_KEY, version, bytes(body), _found_coordinators, flexible=True)


def _found_coordinators(data: bytes, at: int, version: int) -> list[FoundCoordinator]:
    reader = AnswerReader(data, at, flexible=True)
    reader.int32()  # throttle time: the broker itself delays us
    return [_found_coordinator(reader) for _ in range(reader.length())]


def _found_coordinator(reader: AnswerReader) -> FoundCoordinator:
    group, node_id = reader.string() or "", reader.int32()
    reader.skip_string()  # host and port: they are in the cluster's metadata
    reader.int32()
    found = FoundCoordinator(group, node_id, reader.int16(), reader.string())
    reader.tags()
    return found


class ListGroupsRequest:
    """Ask a broker for all groups it coordinates, of any kind and state; `listed_groups` reads the answer."""

    API_KEY = LIST_GROUPS

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest:
        version = version_for(versions, self.API_KEY, "ListGroups", 0, _HIGHEST_LIST)
        flexible = version >= _FLEXIBLE_LIST
        body = bytes([_NO_STRINGS] * (version - _FLEXIBLE_LIST) + [NO_TAGS]) if flexible else b""
        return RawRequest(self.API_KEY, version, body, _undecoded_list, flexible=flexible)


def _undecoded_list(data: bytes, at: int, version: int) -> UndecodedGroups:
    return UndecodedGroups(version, AnswerReader(data, at, flexible=version >= _FLEXIBLE_LIST))


async def listed_groups(answer: UndecodedGroups) -> tuple[int, list[ListedGroup]]:
    """The answer's error code and its groups; lets the event loop turn in between."""
    version, reader = answer
    if version >= 1:
        reader.int32()  # throttle time
    error = reader.int16()
    groups: list[ListedGroup] = []
    for number in range(1, reader.length() + 1):
        groups.append(_listed_group(reader, version))
        if number % _YIELD_EVERY == 0:
            await asyncio.sleep(0)
    return error, groups


def _listed_group(reader: AnswerReader, version: int) -> ListedGroup:
    group = ListedGroup(
        group=reader.string() or "",
        protocol_type=reader.string() or "",
        state=(reader.string() if version >= 4 else None) or None,
        kind=(reader.string() if version >= 5 else None) or None,
    )
    reader.tags()
    return group


class DescribeGroupsRequest:
    """Ask a coordinator about groups of the classic protocol; it calls all others Dead."""

    API_KEY = DESCRIBE_GROUPS

    def __init__(self, groups: Collection[str]) -> None:
        self._groups = groups

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest:
        """The request in the highest version up to 2. Raises NotSupported."""
        version = version_for(versions, self.API_KEY, "DescribeGroups", 0, _HIGHEST_DESCRIBE)
        body = bytearray(_i32.pack(len(self._groups)))
        for group in self._groups:
            put_string(body, group)
        return RawRequest(self.API_KEY, version, bytes(body), _classic_groups)


def _classic_groups(data: bytes, at: int, version: int) -> list[GroupState]:
    reader = AnswerReader(data, at)
    if version >= 1:
        reader.int32()  # throttle time
    return [_classic_group(reader) for _ in range(reader.length())]


def _classic_group(reader: AnswerReader) -> GroupState:
    error = reader.int16()
    group, state, protocol_type = (reader.string() or "" for _ in range(3))
    reader.skip_string()  # protocol
    for _ in range(reader.length()):
        for _ in range(3):  # member, client, host
            reader.skip_string()
        for _ in range(2):  # metadata, assignment
            reader.skip(max(0, reader.int32()))
    return GroupState(group, error, None, state, protocol_type)


class DescribeConsumerGroupsRequest:
    """Ask a coordinator about groups of the new protocol (KIP-848); it calls all others GROUP_ID_NOT_FOUND."""

    API_KEY = CONSUMER_GROUP_DESCRIBE

    def __init__(self, groups: Collection[str]) -> None:
        self._groups = groups

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest:
        version = version_for(versions, self.API_KEY, "ConsumerGroupDescribe", 0, 0)
        body = bytearray()
        put_compact_strings(body, self._groups)
        body += bytes([False, NO_TAGS])
        return RawRequest(self.API_KEY, version, bytes(body), _described_groups, flexible=True)


def _described_groups(data: bytes, at: int, version: int) -> list[GroupState]:
    reader = AnswerReader(data, at, flexible=True)
    reader.int32()  # throttle time
    return [_described_group(reader) for _ in range(reader.length())]


def _described_group(reader: AnswerReader) -> GroupState:
    error, words, group, state = reader.int16(), reader.string(), reader.string() or "", reader.string() or ""
    reader.skip(4 + 4)  # epochs
    reader.skip_string()  # assignor
    for _ in range(reader.length()):
        _skip_member(reader)
    reader.skip(4)  # operations, not asked for
    reader.tags()
    return GroupState(group, error, words, state, CONSUMER_PROTOCOL)


def _skip_member(reader: AnswerReader) -> None:
    for _ in range(3):  # member, instance, rack
        reader.skip_string()
    reader.skip(4)  # epoch
    reader.skip_string()  # client
    reader.skip_string()  # host
    for _ in range(reader.length()):
        reader.skip_string()  # topics subscribed to
    reader.skip_string()  # or their regular expression
    for _ in range(2):  # assignment now, and the one to come
        for _ in range(reader.length()):
            reader.skip(16)
            reader.skip_string()
            reader.skip(4 * reader.length())
            reader.tags()
        reader.tags()
    reader.tags()
