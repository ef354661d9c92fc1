"""What a cluster says about itself: brokers, topics, leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from mm2.core.names import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker, by the address it advertises on the listener we used."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """``leader`` -1: none right now. ``leader_epoch`` -1: the broker does not tell (older than 2.1).
    ``error`` is Kafka's code for this partition, 0 when all is well."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    error: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """``error`` is Kafka's code for this topic: 3 unknown, 29 no permission, 17 not a name, 0 when all is well.
    ``topic_id`` None: the broker has no topic ids (older than 2.8), or the topic is not known."""

    name: str
    error: int
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """One answer. ``controller`` None: not known now. (A KRaft cluster names any broker: it passes requests on.)"""

    cluster_id: str | None
    controller: int | None
    brokers: Mapping[int, Broker]
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """Where a partition's leader is; ``epoch`` -1 where the broker does not tell."""

    node_id: int
    epoch: int


def leaders(topics: Iterable[TopicInfo]) -> dict[TopicPartition, Leader]:
    """The leaders among ``topics``; partitions without one are left out."""
    return {
        TopicPartition(topic.name, partition.partition): Leader(node_id=partition.leader, epoch=partition.leader_epoch)
        for topic in topics
        for partition in topic.partitions
        if partition.leader >= 0
    }
