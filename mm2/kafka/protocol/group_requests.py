"""Requests about groups that aiokafka lacks, or has only in old versions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mm2.kafka.protocol.api_request import ApiRequest
from mm2.kafka.protocol.schema import BOOL, BYTES, INT8, INT16, INT32, STRING, UUID, Since, Table

FIND_COORDINATOR, CONSUMER_GROUP_DESCRIBE = 10, 69
MANY_COORDINATORS = 4  # FindCoordinator's version that takes several keys (KIP-699, brokers 3.0+)

CONSUMER_PROTOCOL = "consumer"

_GROUP_KEY = 0  # FindCoordinator's key type of groups


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as a broker lists it, with Kafka's names.

    ``protocol_type`` is ``consumer``, or empty for a group that has committed offsets but never had members. ``state``
    is reported from Kafka 2.6 on, ``kind`` (``classic``, or ``consumer`` for KIP-848) from 3.8 on; None before.
    """

    group: str
    protocol_type: str
    state: str | None
    kind: str | None


class FoundCoordinator(NamedTuple):
    """The broker that coordinates a group, or the ``error`` and ``message`` of the lookup."""

    group: str
    node_id: int
    error: int
    message: str | None


class GroupMember(NamedTuple):
    """A member of a group. ``host`` as the broker reports it: ``/10.0.0.7``.

    ``metadata`` is what a member of the classic protocol joined with, empty during a rebalance. ``assignment``: its
    partitions by topic, or under the classic protocol the bytes that its leader sent.
    """

    member: str
    client: str
    host: str
    metadata: bytes
    assignment: bytes | Mapping[str, Sequence[int]]


class DescribedGroup(NamedTuple):
    """A described group, or the ``error`` and the broker's ``message``."""

    group: str
    error: int
    message: str | None
    state: str
    protocol_type: str
    members: tuple[GroupMember, ...] = ()


class FindCoordinatorsRequest(
    ApiRequest,
    api_key=FIND_COORDINATOR,
    versions=(MANY_COORDINATORS,),
    first_flexible=3,
    request={"key_type": INT8, "keys": [STRING]},
    response={
        "_throttle_ms": INT32,
        "coordinators": [
            {"key": STRING, "node_id": INT32, "_host": STRING, "_port": INT32, "error": INT16, "message": STRING}
        ],
    },
):
    """Request the coordinators of ``groups`` from any broker. The response is a list of `FoundCoordinator`."""

    def __init__(self, groups: Collection[str]) -> None:
        super().__init__(_GROUP_KEY, groups)

    def parse(self, *fields: Any) -> list[FoundCoordinator]:
        (coordinators,) = fields
        return [FoundCoordinator(*row) for row in coordinators]


class ListGroupsRequest(
    ApiRequest,
    api_key=16,
    versions=range(6),
    first_flexible=3,
    bulk=True,
    request={"states": Since(4, [STRING]), "kinds": Since(5, [STRING])},
    response={
        "_throttle_ms": Since(1, INT32),
        "error": INT16,
        "groups": [
            {"group": STRING, "protocol_type": STRING, "state": Since(4, STRING), "kind": Since(5, STRING)},
        ],
    },
):
    """List all groups that a broker coordinates, of any kind and state.

    The response is (error code, list of `ListedGroup`).
    """

    def __init__(self) -> None:
        super().__init__((), ())

    def parse(self, *fields: Any) -> tuple[int, list[ListedGroup]]:
        error, groups = fields
        return error, [
            ListedGroup(group or "", protocol_type or "", state or None, kind or None)
            for group, protocol_type, state, kind in groups
        ]


class DescribeGroupsRequest(
    ApiRequest,
    api_key=15,
    versions=range(3),  # later ones only add details about members
    request={"groups": [STRING]},
    response={
        "_throttle_ms": Since(1, INT32),
        "groups": [
            {
                "error": INT16,
                "group": STRING,
                "state": STRING,
                "protocol_type": STRING,
                "_protocol": STRING,
                "members": [
                    {"member": STRING, "client": STRING, "host": STRING, "metadata": BYTES, "assignment": BYTES}
                ],
            }
        ],
    },
):
    """Describe groups of the classic protocol; a coordinator reports all others as Dead.

    The response is a list of `DescribedGroup`.
    """

    def __init__(self, groups: Collection[str]) -> None:
        super().__init__(groups)

    def parse(self, *fields: Any) -> list[DescribedGroup]:
        (groups,) = fields
        return [
            DescribedGroup(group or "", error, None, state or "", protocol_type or "", _classic_members(members))
            for error, group, state, protocol_type, members in groups
        ]


_ASSIGNMENT: Table = {"topics": [{"_topic_id": UUID, "name": STRING, "partitions": [INT32]}]}


class ConsumerGroupDescribeRequest(
    ApiRequest,
    api_key=CONSUMER_GROUP_DESCRIBE,
    versions=(0,),
    first_flexible=0,
    request={"groups": [STRING], "include_authorized_operations": BOOL},
    response={
        "_throttle_ms": INT32,
        "groups": [
            {
                "error": INT16,
                "message": STRING,
                "group": STRING,
                "state": STRING,
                "_epoch": INT32,
                "_assignment_epoch": INT32,
                "_assignor": STRING,
                "members": [
                    {
                        "member": STRING,
                        "_instance": STRING,
                        "_rack": STRING,
                        "_epoch": INT32,
                        "client": STRING,
                        "host": STRING,
                        "_topics": [STRING],
                        "_topic_regex": STRING,
                        "assignment": _ASSIGNMENT,
                        "_target_assignment": _ASSIGNMENT,
                    }
                ],
                "_authorized_operations": INT32,
            }
        ],
    },
):
    """Describe groups of the new protocol (KIP-848); the error of all others is GROUP_ID_NOT_FOUND.

    The response is a list of `DescribedGroup`.
    """

    def __init__(self, groups: Collection[str]) -> None:
        super().__init__(groups, False)

    def parse(self, *fields: Any) -> list[DescribedGroup]:
        (groups,) = fields
        return [
            DescribedGroup(group or "", error, message, state or "", CONSUMER_PROTOCOL, _assigned_members(members))
            for error, message, group, state, members in groups
        ]


def _classic_members(rows: Iterable[Any] | None) -> tuple[GroupMember, ...]:
    return tuple(
        GroupMember(member or "", client or "", host or "", metadata or b"", assignment or b"")
        for member, client, host, metadata, assignment in rows or ()
    )


def _assigned_members(rows: Iterable[Any] | None) -> tuple[GroupMember, ...]:
    return tuple(
        GroupMember(member or "", client or "", host or "", b"", {topic: tuple(numbers) for topic, numbers in topics})
        for member, client, host, (topics,) in rows or ()
    )
