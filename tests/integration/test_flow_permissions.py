"""A target that allows little: what is missing is named, stops no more than it must, and is noticed when it comes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from mm2.core.client_settings import SaslMechanism, SecurityProtocol
from tests.integration.shared_node import COPIED, SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.listeners import AUTHORIZER, Listener
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

USER, PASSWORD = "mirror", "mirror-secret"
LISTENER = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))
REMOTE = (AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.WRITE)


def acl(
    operation: AclOperation,
    name: str,
    *,
    kind: ResourceType = ResourceType.TOPIC,
    prefix: bool = False,
    deny: bool = False,
) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, f"User:{USER}", "*", operation, permission)


def add(cluster: KafkaCluster, *bindings: AclBinding) -> None:
    for future in cluster.admin.create_acls(list(bindings)).values():
        future.result(30)


def take_back(cluster: KafkaCluster, binding: AclBinding) -> None:
    described = AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
    for future in cluster.admin.delete_acls([described]).values():
        future.result(30)


@pytest.fixture(scope="module")
def target() -> Iterator[KafkaCluster]:
    with KafkaCluster("guarded", listeners=(LISTENER,), users={USER: PASSWORD}, properties=AUTHORIZER) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def source() -> Iterator[KafkaCluster]:
    with KafkaCluster("open") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def node(source: KafkaCluster, target: KafkaCluster) -> Iterator[Node]:
    """Started without any permission; they come one by one, and what is missing is said each time."""
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";'
    properties = one_flow(source, target, topics="orders-.*") | {
        "B.bootstrap.servers": target.bootstrap_of(LISTENER.label),
        "B.security.protocol": "SASL_PLAINTEXT",
        "B.sasl.mechanism": "PLAIN",
        "B.sasl.jaas.config": login,
    }
    with Node(properties, name="guarded-node") as node:
        node.wait_answering()
        wait_for_reason(node, "mm2-offsets.A.internal", "TOPIC_AUTHORIZATION_FAILED")
        add(target, acl(AclOperation.ALL, "mm2-", prefix=True), acl(AclOperation.ALL, "heartbeats"))
        wait_for_reason(node, "A-mm2", "grant our principal Read on that group")
        add(target, acl(AclOperation.READ, "A-mm2", kind=ResourceType.GROUP))
        add(target, *(acl(operation, "A.", prefix=True) for operation in REMOTE))
        node.wait_running()
        yield node


def wait_for_reason(node: Node, *words: str) -> str:
    """Until a reason of the flow has all these words; the reason."""

    def seen() -> str:
        reasons = node.flow("A->B").get("reasons", [])
        return next((reason for reason in reasons if all(word in reason for word in words)), "")

    return wait_until(seen, SEEN, f"/flows says {' … '.join(words)}")


def wait_for_topic(node: Node, topic: str, state: str) -> str:
    """Until the topic is in this state; its error."""
    wait_until(lambda: node.topic("A->B", topic).get("state") == state, SEEN, f"{topic} is {state}")
    return str(node.topic("A->B", topic)["error"])


def copy(source: KafkaCluster, target: KafkaCluster, topic: str) -> str:
    """Make a topic, fill it and see it copied."""
    source.create_topic(topic, 2)
    write(source.bootstrap, topic, plain(100, partitions=2))
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
    return topic


def test_a_few_permissions_suffice(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    topic = copy(source, target, "orders-allowed")
    assert wait_for_topic(node, topic, "RUNNING") == "None"


def test_a_topic_that_must_not_be_created(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    forbidden = acl(AclOperation.CREATE, "A.orders-forbidden", deny=True)
    add(target, forbidden)
    topic = source.create_topic("orders-forbidden")
    write(source.bootstrap, topic, plain(10))
    assert "TOPIC_AUTHORIZATION_FAILED" in wait_for_topic(node, topic, "FAILED")
    copy(source, target, "orders-beside-it")

    take_back(target, forbidden)
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
    assert wait_for_topic(node, topic, "RUNNING") == "None"


def test_a_topic_that_must_not_grow(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    topic = source.create_topic("orders-growing", 1)
    write(source.bootstrap, topic, plain(10))
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)

    for future in source.admin.create_partitions([NewPartitions(topic, 3)]).values():
        future.result(30)
    write(source.bootstrap, topic, plain(30, partitions=3, first=10))
    assert "TOPIC_AUTHORIZATION_FAILED" in wait_for_topic(node, topic, "FAILED")
    present = read_topic(source.bootstrap, topic)[0]
    wait_until(
        lambda: len(read_topic(target.bootstrap, f"A.{topic}")[0]) == len(present),
        COPIED,
        "the partition that has its place goes on",
    )

    add(target, acl(AclOperation.ALTER, f"A.{topic}"))
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
    assert wait_for_topic(node, topic, "RUNNING") == "None"


def test_a_topic_that_must_not_be_written(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    topic = source.create_topic("orders-read-only")
    add(target, acl(AclOperation.WRITE, f"A.{topic}", deny=True))
    write(source.bootstrap, topic, plain(10))
    wait_for_topic(node, topic, "FAILED")
    (partition,) = node.topic("A->B", topic)["partitions"]
    assert partition["state"] == "FAILED"
    assert "TOPIC_AUTHORIZATION_FAILED" in partition["error"]
    assert f"WRITE A.{topic}" in partition["error"]
    assert [reason for reason in node.health()["reasons"] if topic in reason]
    assert node.metric("mm2_task_state", state="FAILED") == 0, "the slot goes on with the others"
