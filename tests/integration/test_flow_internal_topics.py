"""Internal topics of a flow: created as in Java. One that would lose records is rejected: test_reload.py."""

from __future__ import annotations

from confluent_kafka.admin import ConfigResource, ResourceType

from tests.integration.shared_node import SharedNode
from tests.lab.cluster import KafkaCluster


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


def cleanup_policy(cluster: KafkaCluster, topic: str) -> str:
    (future,) = cluster.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return str(future.result(30)["cleanup.policy"].value)
