"""Configurations of topics, read and changed with the independent client."""

from __future__ import annotations

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, ResourceType

from tests.lab.cluster import KafkaCluster

SET, DELETE = AlterConfigOpType.SET, AlterConfigOpType.DELETE


def configs(cluster: KafkaCluster, topic: str) -> dict[str, tuple[str, bool]]:
    """Return every config of a topic: its value, and whether it is set on the topic itself."""
    (future,) = cluster.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: (str(entry.value), entry.source == own) for name, entry in future.result(30).items()}


def alter(cluster: KafkaCluster, topic: str, name: str, value: str | None) -> None:
    """Set one config of a topic, or delete it."""
    entry = ConfigEntry(name, value, incremental_operation=DELETE if value is None else SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in cluster.admin.incremental_alter_configs([resource]).values():
        future.result(30)
