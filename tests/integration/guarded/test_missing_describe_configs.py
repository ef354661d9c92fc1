"""No permission to describe configurations: testMissingDescribeConfigsAcl of Java's MirrorSourceConnectorTest."""

from __future__ import annotations

from confluent_kafka.admin import AclOperation

from tests.integration.guarded.permissions import add, copy, denied, remove, wait_for_reason, wait_for_topic
from tests.integration.shared_node import SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.node import Node
from tests.lab.topic_configs import alter, configs
from tests.lab.waiting import wait_until


def test_error_names_operation_and_cluster(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    topic = copy(source, target, "orders-opaque")
    hidden = denied(AclOperation.DESCRIBE_CONFIGS, f"A.{topic}")
    also = denied(AclOperation.ALTER_CONFIGS, f"A.{topic}")  # AlterConfigs implies DescribeConfigs
    add(target, hidden, also)
    alter(source, topic, "retention.ms", "654321")
    permission = f"requires DESCRIBE_CONFIGS on topic A.{topic} of cluster B"
    reason = wait_for_reason(node, f"A.{topic}", "TOPIC_AUTHORIZATION_FAILED", permission)
    assert "cluster B" in reason
    wait_for_topic(node, topic, "RUNNING")
    remove(target, hidden, also)
    wait_until(lambda: configs(target, f"A.{topic}")["retention.ms"] == ("654321", True), SEEN, "the config is synced")
