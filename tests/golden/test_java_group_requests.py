"""Group requests and responses, byte for byte as Kafka's own classes write them (java/GroupVectors.java)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.checkpoints import CommittedOffset
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.group_offset_requests import OffsetFetchRequest
from mm2.kafka.protocol.group_requests import (
    ConsumerGroupDescribeRequest,
    DescribedGroup,
    DescribeGroupsRequest,
    FindCoordinatorsRequest,
    FoundCoordinator,
    GroupMember,
    ListedGroup,
    ListGroupsRequest,
)
from mm2.kafka.protocol.raw_request import RawRequest
from tests.golden.vectors import java_vectors

NAMES = ["a,b", "", " ", "größe", "x" * 200]
FIND_COORDINATOR, DESCRIBE_GROUPS, LIST_GROUPS, OFFSET_FETCH, CONSUMER_GROUP_DESCRIBE = 10, 15, 16, 9, 69

Vector = dict[str, Any]


class Preparable(Protocol):
    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest: ...


def vectors(api: int) -> list[Vector]:
    found = [vector for vector in java_vectors("group-requests") if vector["api"] == api]
    assert found
    return found


def exchanged(request: Preparable, vector: Vector) -> Any:
    """Check the request's bytes (header and body) and decode Java's response to it as a connection does."""
    version = vector["version"]
    prepared = request.prepare({vector["api"]: (0, version)})
    assert prepared.build_request_header(7, "mm2").encode().hex() == vector["request_header"]
    assert prepared.encode().hex() == vector["request"]
    answer = bytes.fromhex(vector["answer_header"] + vector["answer"])
    assert prepared.answers(answer) == 7
    return prepared.decode(answer)


def test_many_coordinators() -> None:
    (vector,) = vectors(FIND_COORDINATOR)
    assert exchanged(FindCoordinatorsRequest(NAMES), vector) == [
        FoundCoordinator("a,b", 2, 0, None),
        FoundCoordinator("größe", -1, 30, "no"),
    ]


@pytest.mark.parametrize("vector", vectors(LIST_GROUPS), ids=lambda vector: f"v{vector['version']}")
async def test_list_groups(vector: Vector) -> None:
    says_state, says_kind = vector["version"] >= 4, vector["version"] >= 5
    error, groups = exchanged(ListGroupsRequest(), vector)
    assert error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    rows = [("a,b", "consumer", "Stable", "consumer"), ("", "", "Empty", "classic"), ("größe", "share", None, "share")]
    assert groups == [
        ListedGroup(
            group=group,
            protocol_type=protocol_type,
            state=state if says_state else None,
            kind=kind if says_kind else None,
        )
        for group, protocol_type, state, kind in rows
    ]


@pytest.mark.parametrize("vector", vectors(DESCRIBE_GROUPS), ids=lambda vector: f"v{vector['version']}")
def test_descriptions_of_classic_groups_with_members(vector: Vector) -> None:
    first, *others = exchanged(DescribeGroupsRequest(NAMES), vector)
    assert first._replace(members=()) == DescribedGroup("a,b", 0, None, "Stable", "consumer")
    assert [(one.member, one.client, one.host) for one in first.members] == [
        ("m1", "c1", "/127.0.0.1"),
        ("m2", "", ""),
    ]
    assert others == [
        DescribedGroup("", 30, None, "", ""),
        DescribedGroup("größe", 0, None, "Dead", ""),
    ]


def test_descriptions_of_the_new_protocol_with_members() -> None:
    (vector,) = vectors(CONSUMER_GROUP_DESCRIBE)
    first, *others = exchanged(ConsumerGroupDescribeRequest(NAMES), vector)
    assert first == DescribedGroup(
        *("a,b", 0, None, "Stable", "consumer"),
        (
            GroupMember("m1", "c1", "/127.0.0.1", b"", {"t1": (0, 1, 2), "t2": ()}),
            GroupMember("m2", "", "", b"", {}),
        ),
    )
    assert others == [
        DescribedGroup("", 69, "Group  not found.", "", "consumer"),
        DescribedGroup("größe", 0, None, "Empty", "consumer"),
    ]


OFFSETS = {
    TopicPartition("t1", 0): CommittedOffset(offset=5_000_000_000, metadata="mé"),
    TopicPartition("t1", 3): None,
    TopicPartition("t2", 1): CommittedOffset(offset=0),
}


async def test_offsets_of_many_groups() -> None:
    vector = vectors(OFFSET_FETCH)[-1]
    assert vector["version"] == 8
    found = exchanged(OffsetFetchRequest(NAMES), vector)
    assert list(found) == ["a,b", "", "größe"]
    assert found["a,b"] == OFFSETS
    assert found[""] == {}
    rejected = found["größe"]
    assert isinstance(rejected, BrokerError)
    assert rejected.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert "requires DESCRIBE on group größe" in str(rejected)


@pytest.mark.parametrize("vector", vectors(OFFSET_FETCH)[:-1], ids=lambda vector: f"v{vector['version']}")
async def test_offsets_of_one_group_from_older_brokers(vector: Vector) -> None:
    answer = exchanged(OffsetFetchRequest(["a,b"]), vector)
    moved = answer["a,b"]
    assert isinstance(moved, BrokerError)
    assert moved.code == ErrorCode.NOT_COORDINATOR
    assert moved.retriable
    without_error = vector | {"answer": vector["answer"].removesuffix("0010") + "0000"}
    assert exchanged(OffsetFetchRequest(["a,b"]), without_error) == {"a,b": OFFSETS}
