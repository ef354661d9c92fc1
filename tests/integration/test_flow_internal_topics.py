"""Internal topics of a flow: created as in Java, and rejected if their cleanup policy deletes records."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.integration.shared_node import SEEN, SharedNode
from tests.lab.cluster import KafkaCluster
from tests.lab.node import Node
from tests.lab.settings import one_flow
from tests.lab.waiting import wait_until


def test_names_partitions_and_policies_are_as_in_java(shared: SharedNode) -> None:
    flow = shared.plain
    source, target = flow.source_alias, flow.target_alias
    wanted = {
        (flow.target, f"mm2-offsets.{source}.internal"): 25,
        (flow.target, f"mm2-status.{source}.internal"): 5,
        (flow.target, f"mm2-configs.{source}.internal"): 1,
        (flow.target, "heartbeats"): 1,
        (flow.source, f"mm2-offset-syncs.{target}.internal"): 1,
    }
    for (cluster, name), partitions in wanted.items():
        found = cluster.admin.list_topics(timeout=10).topics[name].partitions
        assert len(found) == partitions, name
        assert {len(partition.replicas) for partition in found.values()} == {1}, name
        assert cleanup_policy(cluster, name) == "compact", name


def test_cleanup_policy_delete_is_rejected_until_corrected(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    a, b = unique("A"), unique("B")
    name = f"mm2-offsets.{a}.internal"
    cluster_b.create_topic(name, 25, config={"cleanup.policy": "delete"})
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*")
    properties["heartbeats.replication.enabled"] = "false"
    with Node(properties) as node:
        node.wait_answering()

        def rejection() -> str:
            flow = node.flow(f"{a}->{b}")  # it is WAITING for a moment whenever it tries again
            reasons = flow["reasons"] if flow.get("state") == "FAILED" else []
            return next((reason for reason in reasons if name in reason), "")

        reason = wait_until(rejection, SEEN, f"the flow is FAILED, and /flows reports why {name} is rejected")
        assert "cleanup.policy=delete" in reason
        assert "kafka-configs.sh --alter" in reason
        assert not node.healthy
        assert node.get("/health/live") is not None
        wait_until(lambda: node.flow(f"{b}->{a}").get("state") == "RUNNING", SEEN, "the other flow runs regardless")

        change = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[change])
        for future in cluster_b.admin.incremental_alter_configs([resource]).values():
            future.result(30)
        node.wait_running()


def cleanup_policy(cluster: KafkaCluster, topic: str) -> str:
    (future,) = cluster.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return str(future.result(30)["cleanup.policy"].value)
