"""Metadata of a cluster: brokers, topics and leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from mm2.core.naming.names import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker, with the address that it advertises on our listener."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """One partition. ``leader`` -1: none. ``leader_epoch`` -1: not reported (brokers older than 2.1).

    ``error`` is Kafka's code for this partition; 0: none.
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    error: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """One topic. ``error`` is Kafka's code: 0 none, 3 unknown topic, 17 invalid name, 29 not authorized.

    ``topic_id`` None: the broker has no topic ids (older than 2.8), or the topic does not exist.
    """

    name: str
    error: int
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """One response. ``controller`` None: unknown. (A KRaft cluster names any broker, which forwards requests.)"""

    cluster_id: str | None
    controller: int | None
    brokers: Mapping[int, Broker]
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLeader:
    """A partition's leader; ``epoch`` -1: not reported."""

    node_id: int
    epoch: int


def leaders(topics: Iterable[TopicInfo]) -> dict[TopicPartition, PartitionLeader]:
    """Return the leaders of the partitions of ``topics``; partitions without a leader are left out."""
    return {
        TopicPartition(topic.name, partition.partition): PartitionLeader(
            node_id=partition.leader, epoch=partition.leader_epoch
        )
        for topic in topics
        for partition in topic.partitions
        if partition.leader >= 0
    }
