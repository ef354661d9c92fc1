"""Consumer groups on real brokers: listing, committed offsets, and commits on their behalf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.protocol.group import JoinGroupRequest
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.kafka.groups.groups import GroupActive, commit_offsets, committed_offsets, group_states, list_groups
from mm2.kafka.protocol.api_request import ApiRequest
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.schema import INT32, STRING
from tests.integration.kafka.clients import connected
from tests.integration.kafka.group_clients import (
    LIST_GROUPS,
    OFFSET_COMMIT,
    SOON,
    Condition,
    CountedCluster,
    at,
    code,
    commit,
    made,
    member,
    seen,
)
from tests.lab.cluster import ADMIN_TIMEOUT, KafkaCluster
from tests.lab.groups import commit_as
from tests.lab.listeners import AUTHORIZER, Listener
from tests.lab.waiting import until

ODD_NAMES = ("a,b", " ", "  two  words ", "größe-日本-😀", "a->b", "\t", "${x}", ".", "x" * 249)
SHARE_GROUP_HEARTBEAT = 76


async def test_unusual_group_names(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic = made(cluster_a, unique("odd"), 2)
    names = [unique(name) if len(name) < 200 else name for name in ODD_NAMES]
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with connected(cluster_a) as cluster:
        for number, name in enumerate(names):
            done = await commit_offsets(cluster, name, {one: at(number, "größe"), two: at(2**40)})
            assert done == {one: None, two: None}
        for number, name in enumerate(names):
            assert seen(cluster_a, name, topic) == (number, "größe")
        assert await committed_offsets(cluster, names) == {
            name: {one: at(number, "größe"), two: at(2**40)} for number, name in enumerate(names)
        }
        listed = {group.group: group for group in await list_groups(cluster)}
        for name in names:
            assert (listed[name].protocol_type, listed[name].state, listed[name].kind) == ("", "Empty", "classic")
        assert await group_states(cluster, names) == dict.fromkeys(names, "Empty")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_group_with_and_without_members(
    cluster_a: KafkaCluster, unique: Callable[[str], str], protocol: str
) -> None:
    topic, group = made(cluster_a, unique("t"), 2), unique(protocol)
    partition = TopicPartition(topic, 0)
    async with connected(cluster_a) as cluster:
        async with member(cluster_a, group, topic, protocol) as consumer:
            commit_as(consumer, [Position(topic, 0, 7)])
            assert await group_states(cluster, [group]) == {group: "Stable"}
            (listed,) = [one for one in await list_groups(cluster) if one.group == group]
            assert (listed.protocol_type, listed.state, listed.kind) == ("consumer", "Stable", protocol)
            assert await committed_offsets(cluster, [group]) == {group: {partition: at(7)}}
            refused = (await commit_offsets(cluster, group, {partition: at(3)}))[partition]
            assert isinstance(refused, GroupActive)
            assert not refused.retriable
            assert seen(cluster_a, group, topic) == (7, None)
        assert await group_states(cluster, [group]) == {group: "Empty"}
        assert await commit_offsets(cluster, group, {partition: at(9)}) == {partition: None}
        assert seen(cluster_a, group, topic) == (9, None)


async def test_group_described_by_name_only(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    """Groups missing in the list are described by name, also those of the consumer protocol."""
    topic, group, absent = made(cluster_a, unique("t")), unique("g"), unique("absent")

    class NothingListed(CountedCluster):
        async def send(self, node_id: int, request: Any, **options: Any) -> Any:
            answer = await super().send(node_id, request, **options)
            return (0, []) if request.API_KEY == LIST_GROUPS else answer

    async with NothingListed(cluster_a) as cluster, member(cluster_a, group, topic, "consumer"):
        assert await list_groups(cluster) == []
        assert await group_states(cluster, [group, absent]) == {group: "Stable", absent: None}


async def test_missing_group(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic, group = made(cluster_a, unique("t")), unique("absent")
    partition = TopicPartition(topic, 0)
    async with connected(cluster_a) as cluster:
        assert await group_states(cluster, [group]) == {group: None}
        assert await committed_offsets(cluster, [group]) == {group: {}}
        assert group not in {one.group for one in await list_groups(cluster)}
        assert await commit_offsets(cluster, group, {}) == {}
        assert await group_states(cluster, [group]) == {group: None}
        assert await commit_offsets(cluster, group, {partition: at(4)}) == {partition: None}
        assert await group_states(cluster, [group]) == {group: "Empty"}


async def test_other_kinds_of_groups_are_not_listed(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic, share, connect = made(cluster_a, unique("t")), unique("share"), unique("connect")
    async with connected(cluster_a) as cluster:
        for group, request in ((share, _JoinShareGroup(share, topic)), (connect, _join(connect, "connect"))):
            await group_states(cluster, [group])  # looks up the coordinator
            await cluster.send(cluster.group_coordinators[group], request)
        assert await group_states(cluster, [share, connect]) == {share: "share group", connect: "connect group"}
        assert not {share, connect} & {one.group for one in await list_groups(cluster)}


class _JoinShareGroup(
    ApiRequest,
    api_key=SHARE_GROUP_HEARTBEAT,
    versions=(1,),
    first_flexible=0,
    request={"group": STRING, "member": STRING, "epoch": INT32, "rack": STRING, "topics": [STRING]},
    response={"throttle_ms": INT32},
):
    """ShareGroupHeartbeat version 1 of a new member."""

    def __init__(self, group: str, topic: str) -> None:
        super().__init__(group, str(uuid4()), 0, None, [topic])


def _join(group: str, protocol_type: str) -> JoinGroupRequest:
    return JoinGroupRequest(group, 6_000, 6_000, "", "", protocol_type, [("range", b"")])


async def test_rejected_partitions_are_reported_one_by_one(
    cluster_a: KafkaCluster, unique: Callable[[str], str]
) -> None:
    topic, group = made(cluster_a, unique("t"), 2), unique("g")
    good, large, missing = (TopicPartition(topic, number) for number in range(3))
    unknown = TopicPartition(unique("no"), 0)
    async with connected(cluster_a) as cluster:
        done = await commit_offsets(
            cluster, group, {good: at(1), missing: at(1), unknown: at(1), large: at(1, "x" * 5_000)}
        )
        assert done[good] is None
        assert code(done[missing]) == code(done[unknown]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert code(done[large]) == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert await committed_offsets(cluster, [group]) == {group: {good: at(1)}}


async def test_commit_larger_than_a_batch(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic, group = made(cluster_a, unique("wide"), 300), unique("g")
    offsets = {TopicPartition(topic, number): at(number, "m" * 4_000) for number in range(300)}  # 1.2 MB
    async with CountedCluster(cluster_a) as cluster:
        assert await commit_offsets(cluster, group, offsets) == dict.fromkeys(offsets)
        assert cluster.requests(OFFSET_COMMIT) == 3
        assert await committed_offsets(cluster, [group]) == {group: offsets}


async def test_missing_permissions_are_reported_by_group(unique: Callable[[str], str]) -> None:
    listener = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))
    sasl = PasswordLogin(mechanism=SaslMechanism.PLAIN, username="alice", password="geheim")
    options = {"security_protocol": SecurityProtocol.SASL_PLAINTEXT, "sasl": sasl}
    with KafkaCluster("guarded", listeners=(listener,), users={"alice": "geheim"}, properties=AUTHORIZER) as kafka:
        topic, hidden = made(kafka, "t"), made(kafka, "hidden")
        commit(kafka, ["mine", "theirs"], topic, 5)
        commit(kafka, ["mine"], hidden, 6)
        allow(kafka, ResourceType.GROUP, "mine", AclOperation.DESCRIBE)
        shown, unseen = TopicPartition(topic, 0), TopicPartition(hidden, 0)
        async with connected(kafka, "SASL_PLAINTEXT", **options) as cluster:

            async def rights() -> bool:
                return "mine" in {one.group for one in await list_groups(cluster)}

            listed: Condition = rights
            await until(listed, SOON, "alice sees group mine")
            assert [one.group for one in await list_groups(cluster)] == ["mine"]
            states = await group_states(cluster, ["mine", "theirs"])
            assert states["mine"] == "Empty"
            assert code(states["theirs"]) == ErrorCode.GROUP_AUTHORIZATION_FAILED
            assert "requires DESCRIBE on group theirs" in str(states["theirs"])
            found = await committed_offsets(cluster, ["mine", "theirs"])
            assert found["mine"] == {}  # no offsets of topics that alice cannot describe
            assert "requires DESCRIBE on group theirs" in str(found["theirs"])

            outcome = await commit_offsets(cluster, "mine", {shown: at(7)})
            assert "requires READ on group " in str(outcome[shown])
            allow(kafka, ResourceType.GROUP, "mine", AclOperation.READ)
            allow(kafka, ResourceType.TOPIC, topic, AclOperation.READ)

            async def committed() -> bool:
                nonlocal outcome
                outcome = await commit_offsets(cluster, "mine", {shown: at(7), unseen: at(7)})
                return outcome[shown] is None

            condition: Condition = committed
            await until(condition, SOON, "alice commits for group mine")
            assert "requires READ on topic hidden" in str(outcome[unseen])
            assert await committed_offsets(cluster, ["mine"]) == {"mine": {shown: at(7)}}
        assert seen(kafka, "mine", hidden)[0] == 6


def allow(kafka: KafkaCluster, kind: ResourceType, name: str, operation: AclOperation) -> None:
    allowed = AclPermissionType.ALLOW
    rule = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:alice", "*", operation, allowed)
    for future in kafka.admin.create_acls([rule]).values():
        future.result(ADMIN_TIMEOUT)
