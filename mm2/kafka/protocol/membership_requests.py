"""Requests of a member of a group: JoinGroup, SyncGroup, Heartbeat and OffsetCommit.

``instance_id`` is group.instance.id (KIP-345, brokers 2.3+), None for a dynamic member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from mm2.core.naming.names import TopicPartition
from mm2.kafka.protocol.api_request import ApiRequest
from mm2.kafka.protocol.raw_request import RawRequest, by_topic
from mm2.kafka.protocol.schema import BOOL, BYTES, INT16, INT32, INT64, STRING, Since

_STATIC_MEMBERS = "2.3"  # the release that introduced group.instance.id
_BROKER_RETENTION = -1
_NO_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A member in one generation of its group, as the broker knows it."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


class JoiningMember(NamedTuple):
    """A member in the response to the leader's JoinGroup."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinedGroup(NamedTuple):
    """The response to JoinGroup. Only the leader receives ``members``.

    ``skip_assignment``: the leader rejoined with its instance ID, and the last assignment is still valid (KIP-814).
    """

    error: int
    generation: int
    protocol: str
    leader_id: str
    skip_assignment: bool
    member_id: str
    members: Sequence[JoiningMember]


class SyncedGroup(NamedTuple):
    """The response to SyncGroup."""

    error: int
    assignment: bytes


class _MemberRequest(ApiRequest, api_key=-1, versions=(), request={}, response={}):
    """A request of a member, which needs ``_first_static`` or a later version for one with an instance ID."""

    _first_static: ClassVar[int]

    def __init__(self, instance_id: str | None, *values: Any) -> None:
        super().__init__(*values)
        self._static = instance_id is not None
        if self._static:
            self.KAFKA = _STATIC_MEMBERS

    def usable_versions(self) -> Sequence[int]:
        return [one for one in self._versions if one >= self._first_static] if self._static else self._versions


class JoinGroupRequest(
    _MemberRequest,
    api_key=11,
    versions=range(2, 10),
    first_flexible=6,
    request={
        "group": STRING,
        "session_timeout_ms": INT32,
        "rebalance_timeout_ms": INT32,
        "member_id": STRING,
        "instance_id": Since(5, STRING),
        "protocol_type": STRING,
        "protocols": [{"name": STRING, "metadata": BYTES}],
        "reason": Since(8, STRING),
    },
    response={
        "_throttle_ms": INT32,
        "error": INT16,
        "generation": INT32,
        "_protocol_type": Since(7, STRING),
        "protocol": STRING,
        "leader_id": STRING,
        "skip_assignment": Since(9, BOOL),
        "member_id": STRING,
        "members": [{"member_id": STRING, "instance_id": Since(5, STRING), "metadata": BYTES}],
    },
):
    """Join ``group``; ``member_id`` is empty at first. Times are milliseconds.

    ``protocols`` are names (of a consumer: assignors) with the metadata for each, the preferred one first; the response
    has the one that the broker has chosen.

    ``client_id`` is the member's own, with which the broker begins the member ID. The response is a `JoinedGroup`.
    """

    _first_static = 5

    def __init__(
        self,
        group: str,
        *,
        client_id: str,
        protocol_type: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        member_id: str,
        instance_id: str | None,
        protocols: Sequence[tuple[str, bytes]],
    ) -> None:
        times = session_timeout_ms, rebalance_timeout_ms
        super().__init__(instance_id, group, *times, member_id, instance_id, protocol_type, list(protocols), None)
        self._client_id = client_id

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest:
        request = super().prepare(versions)
        request.client_id = self._client_id
        return request

    def parse(self, *fields: Any) -> JoinedGroup:
        error, generation, protocol, leader_id, skip_assignment, member_id, members = fields
        rows = [JoiningMember(one, instance_id, metadata or b"") for one, instance_id, metadata in members or ()]
        return JoinedGroup(
            error, generation, protocol or "", leader_id or "", bool(skip_assignment), member_id or "", rows
        )


class SyncGroupRequest(
    _MemberRequest,
    api_key=14,
    versions=range(1, 6),
    first_flexible=4,
    request={
        "group": STRING,
        "generation": INT32,
        "member_id": STRING,
        "instance_id": Since(3, STRING),
        "protocol_type": Since(5, STRING),
        "protocol": Since(5, STRING),
        "assignments": [{"member_id": STRING, "assignment": BYTES}],
    },
    response={
        "_throttle_ms": INT32,
        "error": INT16,
        "_protocol_type": Since(5, STRING),
        "_protocol": Since(5, STRING),
        "assignment": BYTES,
    },
):
    """Send the leader's ``assignments`` (by member ID; empty from others) and wait for that of this member.

    The response is a `SyncedGroup`.
    """

    _first_static = 3

    def __init__(
        self, member: Generation, *, protocol_type: str, protocol: str, assignments: Mapping[str, bytes]
    ) -> None:
        sent = list(assignments.items())
        super().__init__(member.instance_id, *_identity(member), protocol_type, protocol, sent)

    def parse(self, *fields: Any) -> SyncedGroup:
        error, assignment = fields
        return SyncedGroup(error, assignment or b"")


class HeartbeatRequest(
    _MemberRequest,
    api_key=12,
    versions=range(1, 5),
    first_flexible=4,
    request={"group": STRING, "generation": INT32, "member_id": STRING, "instance_id": Since(3, STRING)},
    response={"_throttle_ms": INT32, "error": INT16},
):
    """Extend the session of a member. The response is the error code."""

    _first_static = 3

    def __init__(self, member: Generation) -> None:
        super().__init__(member.instance_id, *_identity(member))

    def parse(self, *fields: Any) -> int:
        (error,) = fields
        return int(error)


class MemberCommitRequest(
    _MemberRequest,
    api_key=8,
    versions=range(2, 10),  # 10 names topics by their IDs
    first_flexible=8,
    request={
        "group": STRING,
        "generation": INT32,
        "member_id": STRING,
        "instance_id": Since(7, STRING),
        "retention_ms": Since(2, INT64, until=4),
        "topics": [
            {
                "name": STRING,
                "partitions": [
                    {"partition": INT32, "offset": INT64, "leader_epoch": Since(6, INT32), "metadata": STRING}
                ],
            }
        ],
    },
    response={
        "_throttle_ms": Since(3, INT32),
        "topics": [{"name": STRING, "partitions": [{"partition": INT32, "error": INT16}]}],
    },
):
    """OffsetCommit of a member, without metadata. The response is the error code of each partition."""

    _first_static = 7

    def __init__(self, member: Generation, offsets: Mapping[TopicPartition, int]) -> None:
        topics = [
            (topic, [(partition, offset, _NO_EPOCH, "") for partition, offset in partitions])
            for topic, partitions in by_topic(offsets.items()).items()
        ]
        super().__init__(member.instance_id, *_identity(member), _BROKER_RETENTION, topics)

    def parse(self, *fields: Any) -> dict[TopicPartition, int]:
        (topics,) = fields
        return {TopicPartition(topic, number): error for topic, numbers in topics for number, error in numbers}


def _identity(member: Generation) -> tuple[str, int, str, str | None]:
    """Return the fields that name the member, in the order of all requests."""
    return member.group_id, member.generation, member.member_id, member.instance_id
