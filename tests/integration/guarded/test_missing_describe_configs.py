"""Configurations that may not be looked at: testMissingDescribeConfigsAcl of Java's MirrorSourceConnectorTest."""

from __future__ import annotations

from confluent_kafka.admin import AclOperation

from tests.integration.guarded.permissions import add, copy, denied, take_back, wait_for_reason, wait_for_topic
from tests.integration.shared_node import SEEN
from tests.integration.test_flow_topic_configs import alter, configs
from tests.lab.cluster import KafkaCluster
from tests.lab.node import Node
from tests.lab.waiting import wait_until


def test_operation_and_cluster_are_named(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    topic = copy(source, target, "orders-opaque")
    hidden = denied(AclOperation.DESCRIBE_CONFIGS, f"A.{topic}")
    also = denied(AclOperation.ALTER_CONFIGS, f"A.{topic}")  # to alter is to be allowed to describe
    add(target, hidden, also)
    alter(source, topic, "retention.ms", "654321")
    reason = wait_for_reason(node, f"A.{topic}", "TOPIC_AUTHORIZATION_FAILED")
    assert "Grant our principal DescribeConfigs" in reason
    assert "cluster B" in reason
    wait_for_topic(node, topic, "RUNNING")
    take_back(target, hidden, also)
    wait_until(lambda: configs(target, f"A.{topic}")["retention.ms"] == ("654321", True), SEEN, "it is synced")
