"""A member of a consumer group sends, reads and assigns what Java's consumer does (java/ConsumerVectors.java)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pytest

from mm2.core.mirror1.assignors import ASSIGNORS, RANGE, ROUND_ROBIN, Subscriber
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from mm2.kafka.protocol.membership_requests import (
    Generation,
    HeartbeatRequest,
    JoinedGroup,
    JoinGroupRequest,
    JoiningMember,
    MemberCommitRequest,
    SyncedGroup,
    SyncGroupRequest,
)
from mm2.kafka.protocol.raw_request import RawRequest
from tests.golden.vectors import java_vectors

OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 8, 11, 12, 14
METADATA = bytes([0, 0, 1, 2])

Vector = dict[str, Any]


def messages(kind: str) -> list[Vector]:
    found = [vector for vector in java_vectors("consumer-protocol") if vector["kind"] == kind]
    assert {vector["version"] for vector in found} == {0, 1, 2, 3}
    return found


def partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


@pytest.mark.parametrize("vector", messages("subscription"), ids=lambda vector: f"v{vector['version']}")
def test_subscriptions(vector: Vector) -> None:
    data = bytes.fromhex(vector["bytes"])
    assert sorted(decode_subscription(data)) == sorted(vector["topics"])
    if vector["version"] == 0 and not vector["user_data"]:
        assert encode_subscription(vector["topics"]) == data


@pytest.mark.parametrize("vector", messages("assignment"), ids=lambda vector: f"v{vector['version']}")
def test_assignments(vector: Vector) -> None:
    data = bytes.fromhex(vector["bytes"])
    partitions = {partition(text) for text in vector["partitions"]}
    assert decode_assignment(data) == partitions
    if vector["version"] == 0 and not vector["user_data"]:
        assert encode_assignment(partitions) == data


ASSIGNMENTS = {RANGE: "range-assignments", ROUND_ROBIN: "round-robin-assignments"}


@pytest.mark.parametrize(
    ("assignor", "case"),
    [
        pytest.param(assignor, case, id=f"{assignor} of {len(case['topics'])} members")
        for assignor, name in ASSIGNMENTS.items()
        for case in java_vectors(name)
    ],
)
def test_assignors(assignor: str, case: Vector) -> None:
    members = [
        Subscriber(member_id=member_id, topics=topics, instance_id=case["instances"].get(member_id))
        for member_id, topics in case["topics"].items()
    ]
    assert ASSIGNORS[assignor](members, case["counts"]) == {
        member_id: {partition(text) for text in partitions} for member_id, partitions in case["assignment"].items()
    }


class Preparable(Protocol):
    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest: ...


def requests(api: int) -> list[Vector]:
    found = [vector for vector in java_vectors("membership-requests") if vector["api"] == api]
    assert found
    return found


def exchanged(request: Preparable, vector: Vector) -> Any:
    """Check the request's bytes (header and body) and decode Java's response to it as a connection does."""
    prepared = request.prepare({vector["api"]: (0, vector["version"])})
    assert prepared.build_request_header(7, "mm2").encode().hex() == vector["request_header"]
    assert prepared.encode().hex() == vector["request"]
    return prepared.decode(bytes.fromhex(vector["answer_header"] + vector["answer"]))


def member_of(vector: Vector, *, first_static: int) -> Generation:
    """Return the member that sends the request; it is static from version ``first_static`` on."""
    instance_id = "i1" if vector["version"] >= first_static else None
    return Generation(group_id="größe", generation=7, member_id="m1", instance_id=instance_id)


@pytest.mark.parametrize("vector", requests(JOIN_GROUP), ids=lambda vector: f"v{vector['version']}")
def test_join_group(vector: Vector) -> None:
    static = vector["version"] >= 5
    request = JoinGroupRequest(
        "größe",
        client_id="mm2",
        protocol_type="consumer",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id="m1",
        instance_id="i1" if static else None,
        protocols=[("range", METADATA)],
    )
    assert exchanged(request, vector) == JoinedGroup(
        error=79,
        generation=7,
        protocol="range",
        leader_id="m1",
        skip_assignment=vector["version"] >= 9,
        member_id="m1",
        members=[JoiningMember("m1", "i1" if static else None, METADATA), JoiningMember("m2", None, b"")],
    )


@pytest.mark.parametrize("vector", requests(SYNC_GROUP), ids=lambda vector: f"v{vector['version']}")
def test_sync_group(vector: Vector) -> None:
    member = member_of(vector, first_static=3)
    request = SyncGroupRequest(member, protocol_type="consumer", protocol="range", assignments={"m1": METADATA})
    assert exchanged(request, vector) == SyncedGroup(error=27, assignment=METADATA)


@pytest.mark.parametrize("vector", requests(HEARTBEAT), ids=lambda vector: f"v{vector['version']}")
def test_heartbeat(vector: Vector) -> None:
    assert exchanged(HeartbeatRequest(member_of(vector, first_static=3)), vector) == 27


@pytest.mark.parametrize("vector", requests(OFFSET_COMMIT), ids=lambda vector: f"v{vector['version']}")
def test_commits_of_members(vector: Vector) -> None:
    offsets = {TopicPartition("t1", 0): 5_000_000_000, TopicPartition("t1", 3): 1}
    request = MemberCommitRequest(member_of(vector, first_static=7), offsets)
    assert exchanged(request, vector) == {TopicPartition("t1", 0): 0, TopicPartition("t1", 3): 22}
