"""Errors of group members: what to change, and which commits failed for good."""

from __future__ import annotations

import pickle

import pytest

from mm2.core.mirror1.settings import GroupMembership
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError, NotSupported
from mm2.kafka.groups.consumer_member import commit_as_member, generation_ended
from mm2.kafka.groups.member_errors import CommitFailed, MembershipRefused, member_commit_error, refused
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.membership_requests import Generation

CLUSTER = Cluster(ClientSettings(bootstrap_servers=("localhost:9",), alias="old"))
PARTITION = TopicPartition("orders", 3)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "join group g"), "grant the principal READ on group g"),
        (BrokerError(ErrorCode.INVALID_GROUP_ID, "join group g"), "set group.id"),
        (BrokerError(ErrorCode.GROUP_MAX_SIZE_REACHED, "join group g"), "group.max.size"),
        (BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "join group g"), "see the log of the group's coordinator"),
        (NotSupported("the broker is older than Kafka 2.3"), "remove group.instance.id"),
        (
            BrokerError(ErrorCode.FENCED_INSTANCE_ID, "join group g"),
            "group.instance.id = one: give each process its own",
        ),
    ],
)
async def test_a_rejection_names_the_cluster_and_the_property(error: ClusterError, advice: str) -> None:
    found = await refused(CLUSTER, GroupMembership(group_id="g", instance_id="one"), error)
    assert str(found).startswith(f"group g on cluster old: {error}: ")
    assert advice in str(found)
    assert not found.retriable
    assert found.code == (error.code if isinstance(error, BrokerError) else None)


async def test_other_rejections_are_the_brokers() -> None:
    error = BrokerError(ErrorCode.INVALID_REQUEST, "join group g")
    found = await refused(CLUSTER, GroupMembership(group_id="g"), error)
    assert str(found) == "group g on cluster old: cannot join group g: INVALID_REQUEST"


def test_rejections_can_be_copied() -> None:
    error = pickle.loads(pickle.dumps(MembershipRefused("no", 30)))
    assert (str(error), error.code) == ("no", 30)


@pytest.mark.parametrize(
    "code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS]
)
def test_commits_of_another_generation_fail_for_good(code: ErrorCode) -> None:
    error = member_commit_error(code, "g", PARTITION)
    assert isinstance(error, CommitFailed)
    assert not error.retriable
    assert str(error) == f"cannot commit an offset of group g for orders-3: the group has rebalanced: {code.name}"


def test_other_commit_errors_keep_their_kind() -> None:
    error = member_commit_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "g", PARTITION)
    assert not isinstance(error, CommitFailed)
    assert "requires READ on topic orders" in str(error)
    assert member_commit_error(ErrorCode.NOT_COORDINATOR, "g", PARTITION).retriable


async def test_nothing_to_commit_needs_no_request() -> None:
    member = Generation(group_id="g", generation=1, member_id="m", instance_id=None)
    assert await commit_as_member(CLUSTER, member, {}, is_current=lambda: True, purpose="p", timeout_ms=1) == {}
    assert isinstance(generation_ended("g", [PARTITION])[PARTITION], CommitFailed)
