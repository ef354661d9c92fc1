"""Internal topics come into being as Java makes them, or are refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from mm2.core import internal_topics
from mm2.core.client_settings import SaslMechanism, SaslSettings, SecurityProtocol
from mm2.core.internal_topics import InternalTopic
from mm2.core.names import Flow
from mm2.kafka.admin import ClusterAdmin
from mm2.kafka.cluster import Cluster
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError
from mm2.kafka.internal_topics import WrongInternalTopic, ensure_internal_topic
from mm2.kafka.topic_configs import describe_topic_configs
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.listeners import AUTHORIZER, Listener
from tests.lab.waiting import until

Condition = Callable[[], bool | Awaitable[bool]]

SOON = 30.0  # seconds: ACLs on a machine that is busy
OFFSETS = internal_topics.source_offsets(Flow("A", "B"))
CONFIGS = internal_topics.configs(Flow("A", "B"))


@pytest.fixture
def fresh(unique: Callable[[str], str]) -> Callable[[InternalTopic], InternalTopic]:
    """The topic under a name of this test alone."""
    return lambda topic: replace(topic, name=unique(topic.name))


async def test_it_is_created_once_and_found_afterwards(
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


async def test_a_deleting_topic_is_refused_where_java_looks_and_taken_where_it_does_not(
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


async def test_the_config_topic_has_one_partition(
    cluster_b: KafkaCluster, fresh: Callable[[InternalTopic], InternalTopic]
) -> None:
    topic = fresh(CONFIGS)
    cluster_b.create_topic(topic.name, 3, config={"cleanup.policy": "compact"})
    async with connected(cluster_b) as cluster:
        with pytest.raises(WrongInternalTopic, match="has 3 partitions where exactly 1 is needed"):
            await ensure_internal_topic(ClusterAdmin(cluster), topic, replication_factor=1)


async def test_too_few_brokers_are_told_with_the_key(
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
    """A rule just created is not yet in force everywhere."""

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
    "sasl": SaslSettings(mechanism=SaslMechanism.PLAIN, username="alice", password="geheim"),
}


async def test_who_may_not_create_may_still_use_what_is_there(
    guarded: KafkaCluster, fresh: Callable[[InternalTopic], InternalTopic]
) -> None:
    topic = fresh(OFFSETS)
    guarded.create_topic(topic.name, 25, config={"cleanup.policy": "delete"})  # may not look, so as Java: trusted
    allow(guarded, topic.name, AclOperation.DESCRIBE)
    async with connected(guarded, "SASL_PLAINTEXT", **AS_ALICE) as cluster:
        await until_seen(cluster, topic.name)
        assert len((await ensure_internal_topic(ClusterAdmin(cluster), topic, replication_factor=1)).partitions) == 25
        allow(guarded, topic.name, AclOperation.DESCRIBE_CONFIGS)
        await until_configs_seen(cluster, topic.name)
        with pytest.raises(WrongInternalTopic, match=r"cleanup\.policy=delete"):
            await ensure_internal_topic(ClusterAdmin(cluster), topic, replication_factor=1)


async def test_who_may_not_create_is_told_what_to_create(
    guarded: KafkaCluster, fresh: Callable[[InternalTopic], InternalTopic]
) -> None:
    topic = fresh(OFFSETS)
    allow(guarded, topic.name, AclOperation.DESCRIBE)
    async with connected(guarded, "SASL_PLAINTEXT", **AS_ALICE) as cluster:
        await until_seen(cluster, topic.name)
        with pytest.raises(WrongInternalTopic, match=r"create it with 25 partitions and cleanup.policy=compact, or"):
            await ensure_internal_topic(ClusterAdmin(cluster), topic, replication_factor=1)


async def test_who_may_not_even_see_it_is_told_so(
    guarded: KafkaCluster, fresh: Callable[[InternalTopic], InternalTopic]
) -> None:
    topic = fresh(OFFSETS)
    guarded.create_topic(topic.name, 25, config={"cleanup.policy": "compact"})
    async with connected(guarded, "SASL_PLAINTEXT", **AS_ALICE) as cluster:
        with pytest.raises(BrokerError) as caught:
            await ensure_internal_topic(ClusterAdmin(cluster), topic, replication_factor=1)
        assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
