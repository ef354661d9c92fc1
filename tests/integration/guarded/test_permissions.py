"""Missing permissions on the target are named, affect only what needs them, and are noticed when granted."""

from __future__ import annotations

from confluent_kafka.admin import AclOperation

from tests.integration.guarded.permissions import (
    add,
    allowed,
    copy,
    denied,
    remove,
    wait_for_reason,
    wait_for_status,
    wait_for_topic,
)
from tests.integration.shared_node import COPIED, SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.topic_configs import alter, configs
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until


def test_minimal_permissions_suffice(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    topic = copy(source, target, "orders-allowed")
    assert wait_for_topic(node, topic, "RUNNING") == "None"


def test_no_permission_to_create_a_topic(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    forbidden = denied(AclOperation.CREATE, "A.orders-forbidden")
    add(target, forbidden)
    topic = source.create_topic("orders-forbidden")
    write(source.bootstrap, topic, plain(10))
    assert "TOPIC_AUTHORIZATION_FAILED" in wait_for_topic(node, topic, "FAILED")
    copy(source, target, "orders-beside-it")

    remove(target, forbidden)
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
    assert wait_for_topic(node, topic, "RUNNING") == "None"


def test_no_permission_to_add_partitions(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    topic = source.create_topic("orders-growing", 1)
    write(source.bootstrap, topic, plain(10))
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)

    source.grow_topic(topic, 3)
    write(source.bootstrap, topic, plain(30, partitions=3, first=10))
    assert "TOPIC_AUTHORIZATION_FAILED" in wait_for_topic(node, topic, "FAILED")
    present = read_topic(source.bootstrap, topic)[0]
    wait_until(
        lambda: len(read_topic(target.bootstrap, f"A.{topic}")[0]) == len(present),
        COPIED,
        "the existing partition continues",
    )

    add(target, allowed(AclOperation.ALTER, f"A.{topic}"))
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
    assert wait_for_topic(node, topic, "RUNNING") == "None"


def test_no_permission_to_write(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    topic = source.create_topic("orders-read-only")
    add(target, denied(AclOperation.WRITE, f"A.{topic}"))
    write(source.bootstrap, topic, plain(10))
    (partition,) = wait_for_status(node, topic, "FAILED")["partitions"]
    assert partition["state"] == "FAILED"
    assert "TOPIC_AUTHORIZATION_FAILED" in partition["error"]
    assert f"WRITE on topic A.{topic}" in partition["error"]
    wait_until(lambda: topic in str(node.health().get("reasons")), SEEN, "/health shows the error")
    assert node.metric("mm2_task_state", state="FAILED") == 0, "the source task continues with the others"

    for future in source.admin.delete_topics([topic]).values():
        future.result(30)
    wait_until(lambda: node.healthy, SEEN, "the flow is healthy again without it")


def test_no_permission_to_describe_the_remote_topic(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    """The topic exists, but the node's principal cannot describe it, as with a topic of another user."""
    hidden = denied(AclOperation.DESCRIBE, "A.orders-hidden")
    add(target, hidden)
    target.create_topic("A.orders-hidden")
    topic = source.create_topic("orders-hidden")
    error = wait_for_topic(node, topic, "FAILED")
    assert "remote topic A.orders-hidden exists, but is not visible to the node's principal" in error
    assert "requires DESCRIBE on topic A.orders-hidden of cluster B" in error
    remove(target, hidden)
    wait_for_topic(node, topic, "RUNNING")


def test_no_permission_to_alter_configs(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    """Causes only a warning; records are copied."""
    topic = copy(source, target, "orders-configured")
    forbidden = denied(AclOperation.ALTER_CONFIGS, f"A.{topic}")
    add(target, forbidden)
    alter(source, topic, "retention.ms", "123456")
    wait_for_reason(
        node, f"A.{topic}", "TOPIC_AUTHORIZATION_FAILED", f"requires ALTER_CONFIGS on topic A.{topic} of cluster B"
    )
    wait_for_topic(node, topic, "RUNNING")
    remove(target, forbidden)
    wait_until(lambda: configs(target, f"A.{topic}")["retention.ms"] == ("123456", True), SEEN, "the config is synced")
    wait_until(lambda: "sync topic conf" not in str(node.flow("A->B")["reasons"]), SEEN, "no warning is left")


def test_no_permission_to_read_the_config_topic_does_not_stop_copying(
    node: Node, source: KafkaCluster, target: KafkaCluster
) -> None:
    topic = copy(source, target, "orders-without-configs")
    epoch = node.flow("A->B")["epoch"]
    unreadable = denied(AclOperation.READ, "mm2-configs.A.internal")
    add(target, unreadable)
    wait_for_reason(node, "cannot read mm2-configs.A.internal", "TOPIC_AUTHORIZATION_FAILED")
    write(source.bootstrap, topic, plain(100, partitions=2, first=100))
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
    wait_for_topic(node, topic, "RUNNING")

    remove(target, unreadable)
    wait_until(lambda: node.healthy, SEEN, "the flow is healthy again")
    assert node.flow("A->B")["epoch"] == epoch, "the node remained a member"
