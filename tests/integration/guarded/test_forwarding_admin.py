"""A custom admin class creates and changes all topics, configs and ACLs (KIP-787).

The cases are those of Java's MirrorConnectorsWithCustomForwardingAdminIntegrationTest.
"""

from __future__ import annotations

from confluent_kafka.admin import AclOperation, NewPartitions

from tests.integration.guarded.permissions import MAY_ALTER_CLUSTER, add, allowed, binding, copy
from tests.integration.guarded.recording_admin import Recorded
from tests.integration.shared_node import SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.node import Node
from tests.lab.topic_configs import alter
from tests.lab.waiting import wait_until


def test_replication_is_creating_topics_using_provided_forwarding_admin(
    node: Node, source: KafkaCluster, target: KafkaCluster, recorded: Recorded
) -> None:
    """Includes all internal topics on the target, more than in Java, and the offset syncs topic on the source."""
    topic = copy(source, target, "orders-by-admin")
    present = {name for name in target.admin.list_topics(timeout=10).topics if not name.startswith("__")}
    made = set(recorded.calls("B", "create_topics"))  # read afterwards: calls are recorded before they are executed
    assert {f"A.{topic}", "heartbeats", "mm2-offsets.A.internal", "mm2-configs.A.internal"} <= made
    assert present <= made, "no topic was created without it"
    assert recorded.calls("A", "create_topics")[0] == "mm2-offset-syncs.B.internal"


def test_create_partitions_use_provided_forwarding_admin(
    node: Node, source: KafkaCluster, target: KafkaCluster, recorded: Recorded
) -> None:
    topic = copy(source, target, "orders-growing-by-admin")
    add(target, allowed(AclOperation.ALTER, f"A.{topic}"))
    for future in source.admin.create_partitions([NewPartitions(topic, 3)]).values():
        future.result(30)

    def partitions() -> int:
        return len(target.admin.list_topics(timeout=10).topics[f"A.{topic}"].partitions)

    wait_until(lambda: partitions() == 3, SEEN, f"A.{topic} has 3 partitions")
    assert f"A.{topic} 3" in recorded.calls("B", "create_partitions")


def test_sync_topic_config_use_provided_forwarding_admin(
    node: Node, source: KafkaCluster, target: KafkaCluster, recorded: Recorded
) -> None:
    topic = copy(source, target, "orders-configured-by-admin")
    alter(source, topic, "retention.ms", "123456")
    wait_until(
        lambda: f"A.{topic} retention.ms = 123456, was 604800000" in recorded.calls("B", "alter_topic_configs"),
        SEEN,
        "the admin is called to change the configuration",
    )


def test_sync_topic_acls_use_provided_forwarding_admin(
    node: Node, source: KafkaCluster, target: KafkaCluster, recorded: Recorded
) -> None:
    add(target, MAY_ALTER_CLUSTER)
    topic = copy(source, target, "orders-shared-by-admin")
    add(source, binding(AclOperation.READ, topic, principal="dummy"))
    wait_until(
        lambda: f"ALLOW User:dummy READ TOPIC A.{topic}" in recorded.calls("B", "create_acls"),
        SEEN,
        "the admin is called to create the ACL",
    )
