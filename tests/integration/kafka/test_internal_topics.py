"""Internal topics are created as in Java, or rejected."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from mm2.core.naming import internal_topics
from mm2.core.naming.internal_topics import InternalTopic
from mm2.core.naming.names import Flow
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.admin.internal_topics import WrongInternalTopic, ensure_internal_topic
from mm2.kafka.admin.topic_configs import describe_topic_configs
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.listeners import AUTHORIZER, Listener
from tests.lab.waiting import until

Condition = Callable[[], bool | Awaitable[bool]]

SOON = 30.0  # seconds: ACLs on a busy machine
OFFSETS = internal_topics.source_offsets(Flow("A", "B"))
CONFIGS = internal_topics.configs(Flow("A", "B"))


@pytest.fixture
def fresh(unique: Callable[[str], str]) -> Callable[[InternalTopic], InternalTopic]:
    """Returns the topic with a name unique to this test."""
    return lambda topic: replace(topic, name=unique(topic.name))


async def test_topic_is_created_once_and_reused(
    cluster_b: KafkaCluster, fresh: Callable[[InternalTopic], InternalTopic]
) -> None:
    topic = fresh(OFFSETS)
    async with connected(cluster_b) as cluster:
        settings = {"segment.bytes": "10485760", "cleanup.policy": "delete"}
        for _ in range(2):
            info = await ensure_internal_topic(ClusterAdmin(cluster), topic, replication_factor=1, settings=settings)
            assert [one.leader for one in info.partitions] == [1] * 25
        found = (await describe_topic_configs(cluster, [topic.name]))[topic.name]
        assert not isinstance(found, BrokerError)
        assert found["cleanup.policy"].value == "compact"
        assert found["segment.bytes"].value == "10485760"


async def test_cleanup_policy_delete_is_rejected_where_java_checks_it(
    cluster_b: KafkaCluster, fresh: Callable[[InternalTopic], InternalTopic]
) -> None:
    checked = fresh(OFFSETS)
    unchecked = replace(checked, checked=False)
    cluster_b.create_topic(checked.name, 25, config={"cleanup.policy": "compact,delete"})
    async with connected(cluster_b) as cluster:
        await ensure_internal_topic(ClusterAdmin(cluster), unchecked, replication_factor=1)
        with pytest.raises(WrongInternalTopic) as caught:
            await ensure_internal_topic(ClusterAdmin(cluster), checked, replication_factor=1)
        for word in ("cluster b: ", checked.name, "cleanup.policy=compact,delete", "kafka-configs.sh"):
            assert word in str(caught.value)
        assert not caught.value.retriable


async def test_config_topic_must_have_one_partition(
    cluster_b: KafkaCluster, fresh: Callable[[InternalTopic], InternalTopic]
) -> None:
    topic = fresh(CONFIGS)
    cluster_b.create_topic(topic.name, 3, config={"cleanup.policy": "compact"})
    async with connected(cluster_b) as cluster:
        with pytest.raises(WrongInternalTopic, match="has 3 partitions, but must have exactly 1"):
            await ensure_internal_topic(ClusterAdmin(cluster), topic, replication_factor=1)


async def test_too_few_brokers_are_reported_with_the_property(
    cluster_b: KafkaCluster, fresh: Callable[[InternalTopic], InternalTopic]
) -> None:
    async with connected(cluster_b) as cluster:
        with pytest.raises(BrokerError, match=r"only 1 broker.*Check offset.storage.replication.factor \(3\)"):
            await ensure_internal_topic(ClusterAdmin(cluster), fresh(OFFSETS), replication_factor=3)


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    listener = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))
    with KafkaCluster("b", listeners=(listener,), users={"alice": "geheim"}, properties=AUTHORIZER) as cluster:
        yield cluster


def allow(kafka: KafkaCluster, topic: str, operation: AclOperation) -> None:
    allowed = AclPermissionType.ALLOW
    rule = AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:alice", "*", operation, allowed)
    for future in kafka.admin.create_acls([rule]).values():
        future.result(30)


async def until_seen(cluster: Cluster, topic: str) -> None:
    """Wait until a new ACL is in effect and alice can describe ``topic``."""

    async def seen() -> bool:
        return (await cluster.metadata([topic])).topics[topic].error != ErrorCode.TOPIC_AUTHORIZATION_FAILED

    condition: Condition = seen
    await until(condition, SOON, f"alice sees {topic}")


async def until_configs_seen(cluster: Cluster, topic: str) -> None:
    async def seen() -> bool:
        return not isinstance((await describe_topic_configs(cluster, [topic]))[topic], BrokerError)

    condition: Condition = seen
    await until(condition, SOON, f"alice sees the configuration of {topic}")


AS_ALICE = {
    "security_protocol": SecurityProtocol.SASL_PLAINTEXT,
    "sasl": PasswordLogin(mechanism=SaslMechanism.PLAIN, username="alice", password="geheim"),
}


async def test_existing_topic_is_used_without_create_permission(
    guarded: KafkaCluster, fresh: Callable[[InternalTopic], InternalTopic]
) -> None:
    topic = fresh(OFFSETS)
    # The user is not allowed to read configs, so they are trusted as in Java.
    guarded.create_topic(topic.name, 25, config={"cleanup.policy": "delete"})
    allow(guarded, topic.name, AclOperation.DESCRIBE)
    async with connected(guarded, "SASL_PLAINTEXT", **AS_ALICE) as cluster:
        await until_seen(cluster, topic.name)
        assert len((await ensure_internal_topic(ClusterAdmin(cluster), topic, replication_factor=1)).partitions) == 25
        allow(guarded, topic.name, AclOperation.DESCRIBE_CONFIGS)
        await until_configs_seen(cluster, topic.name)
        with pytest.raises(WrongInternalTopic, match=r"cleanup\.policy=delete"):
            await ensure_internal_topic(ClusterAdmin(cluster), topic, replication_factor=1)


async def test_missing_create_permission_is_reported_with_the_topic_to_create(
    guarded: KafkaCluster, fresh: Callable[[InternalTopic], InternalTopic]
) -> None:
    topic = fresh(OFFSETS)
    allow(guarded, topic.name, AclOperation.DESCRIBE)
    async with connected(guarded, "SASL_PLAINTEXT", **AS_ALICE) as cluster:
        await until_seen(cluster, topic.name)
        with pytest.raises(WrongInternalTopic, match=r"requires CREATE on .*, or create it with 25 partitions"):
            await ensure_internal_topic(ClusterAdmin(cluster), topic, replication_factor=1)


async def test_missing_describe_permission_is_reported(
    guarded: KafkaCluster, fresh: Callable[[InternalTopic], InternalTopic]
) -> None:
    topic = fresh(OFFSETS)
    guarded.create_topic(topic.name, 25, config={"cleanup.policy": "compact"})
    async with connected(guarded, "SASL_PLAINTEXT", **AS_ALICE) as cluster:
        missing = rf"requires DESCRIBE on topic {topic.name} .*; unless it exists, also requires CREATE on topic"
        with pytest.raises(WrongInternalTopic, match=missing):
            await ensure_internal_topic(ClusterAdmin(cluster), topic, replication_factor=1)
