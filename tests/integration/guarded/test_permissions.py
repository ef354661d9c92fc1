"""A target that allows little: what is missing is named, stops no more than it must, and is noticed when it comes."""

from __future__ import annotations

from confluent_kafka.admin import AclOperation, NewPartitions

from tests.integration.guarded.permissions import (
    add,
    allowed,
    copy,
    denied,
    take_back,
    wait_for_reason,
    wait_for_topic,
)
from tests.integration.shared_node import COPIED, SEEN
from tests.integration.test_flow_topic_configs import alter, configs
from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until


def test_a_few_permissions_suffice(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    topic = copy(source, target, "orders-allowed")
    assert wait_for_topic(node, topic, "RUNNING") == "None"


def test_a_topic_that_must_not_be_created(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    forbidden = denied(AclOperation.CREATE, "A.orders-forbidden")
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

    add(target, allowed(AclOperation.ALTER, f"A.{topic}"))
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
    assert wait_for_topic(node, topic, "RUNNING") == "None"


def test_a_topic_that_must_not_be_written(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    topic = source.create_topic("orders-read-only")
    add(target, denied(AclOperation.WRITE, f"A.{topic}"))
    write(source.bootstrap, topic, plain(10))
    wait_for_topic(node, topic, "FAILED")
    (partition,) = node.topic("A->B", topic)["partitions"]
    assert partition["state"] == "FAILED"
    assert "TOPIC_AUTHORIZATION_FAILED" in partition["error"]
    assert f"WRITE A.{topic}" in partition["error"]
    assert [reason for reason in node.health()["reasons"] if topic in reason]
    assert node.metric("mm2_task_state", state="FAILED") == 0, "the slot goes on with the others"

    for future in source.admin.delete_topics([topic]).values():
        future.result(30)
    wait_until(lambda: node.healthy, SEEN, "the flow is well again without it")


def test_a_remote_topic_that_is_hidden_from_us(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    """Somebody else's, perhaps: it exists, but may not even be described."""
    hidden = denied(AclOperation.DESCRIBE, "A.orders-hidden")
    add(target, hidden)
    target.create_topic("A.orders-hidden")
    topic = source.create_topic("orders-hidden")
    error = wait_for_topic(node, topic, "FAILED")
    assert "remote topic A.orders-hidden exists, but is not shown to us" in error
    assert "Describe" in error
    take_back(target, hidden)
    wait_for_topic(node, topic, "RUNNING")


def test_configurations_that_must_not_be_changed(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    """A warning: records are copied all the same."""
    topic = copy(source, target, "orders-configured")
    forbidden = denied(AclOperation.ALTER_CONFIGS, f"A.{topic}")
    add(target, forbidden)
    alter(source, topic, "retention.ms", "123456")
    wait_for_reason(node, f"A.{topic}", "TOPIC_AUTHORIZATION_FAILED", "AlterConfigs on the remote topics")
    wait_for_topic(node, topic, "RUNNING")
    take_back(target, forbidden)
    wait_until(lambda: configs(target, f"A.{topic}")["retention.ms"] == ("123456", True), SEEN, "it is synced")
    wait_until(lambda: "sync topic conf" not in str(node.flow("A->B")["reasons"]), SEEN, "no warning is left")
