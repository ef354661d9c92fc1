"""Offsets, end offsets and owners of one consumer group, read from a Kafka cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.metadata import PartitionLeader
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterError, NoLeader
from mm2.kafka.groups.group_members import assigned_partitions, describe_group
from mm2.kafka.groups.groups import committed_offsets
from mm2.kafka.protocol.group_offset_requests import CommittedOffsets
from mm2.kafka.protocol.group_requests import DescribedGroup, GroupMember

_DEAD = "dead"  # the state of a group that does not exist


class NoSuchGroup(Exception):
    """The group does not exist: it has neither members nor offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldGroup:
    """What ZooKeeper has about a group of the old consumer. ``topics``: those that its members own, or if there are no
    members, those with offsets. ``offsets`` and ``owners`` are by partition."""

    exists: bool = False
    topics: tuple[str, ...] = ()
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    owners: Mapping[TopicPartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffset:
    """One partition. ``offset``: the committed one; ``log_size``: the end offset; None: unknown. ``owner`` None: no
    member has the partition. ``leader``: the broker's ID; None: there is none."""

    partition: TopicPartition
    offset: int | None
    log_size: int | None
    owner: str | None
    leader: int | None

    @property
    def lag(self) -> int | None:
        """Log size minus offset; None if one of them is unknown."""
        return None if self.offset is None or self.log_size is None else self.log_size - self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """The partitions of a group, sorted by topic and number. ``brokers``: ``host:port`` of their leaders by ID.
    ``notes``: topics that do not exist, and what could not be read."""

    partitions: tuple[PartitionOffset, ...]
    brokers: Mapping[int, str]
    notes: tuple[str, ...]


async def read_group_offsets(
    cluster: Cluster, group: str, topics: Collection[str], *, old: OldGroup | None = None, timeout_ms: int
) -> GroupOffsets:
    """Return all partitions of ``topics``, or without any of those that the group owns or has offsets for.

    Offsets in Kafka have priority over those of ``old``, as in Java: a group of the old consumer has some there if it
    uses offsets.storage=kafka. Raises NoSuchGroup, and ClusterError if the offsets cannot be read.
    """
    old = old or OldGroup()
    notes: list[str] = []
    committed, described = await asyncio.gather(
        committed_offsets(cluster, [group], timeout_ms=timeout_ms),
        describe_group(cluster, group, timeout_ms=timeout_ms),
    )
    offsets = committed[group]
    if isinstance(offsets, ClusterError):
        raise offsets
    owners = dict(_owners(described, notes)) | dict(old.owners)
    if not offsets and not old.exists and isinstance(described, DescribedGroup) and described.state.lower() == _DEAD:
        raise NoSuchGroup(group)
    chosen = topics or old.topics or {one.topic for one in (*offsets, *owners)}
    partitions = await _partitions(cluster, sorted(chosen), notes)
    ends = await list_offsets(cluster, partitions, OffsetSpec.LATEST, timeout_ms=timeout_ms)
    leaders = await cluster.leaders(partitions)
    rows = [
        PartitionOffset(
            partition=one,
            offset=_offset(one, offsets, old),
            log_size=None if isinstance(end := ends[one], ClusterError) else end,
            owner=owners.get(one),
            leader=leader.node_id if isinstance(leader := leaders[one], PartitionLeader) else None,
        )
        for one in partitions
    ]
    notes += [
        f"no end offset of {one}: {end}"
        for one, end in ends.items()
        if isinstance(end, ClusterError) and not isinstance(end, NoLeader)
    ]
    brokers = (await cluster.metadata(())).brokers
    used = sorted({row.leader for row in rows if row.leader is not None} & brokers.keys())
    return GroupOffsets(
        partitions=tuple(rows),
        brokers={node_id: f"{brokers[node_id].host}:{brokers[node_id].port}" for node_id in used},
        notes=tuple(notes),
    )


async def _partitions(cluster: Cluster, topics: Sequence[str], notes: list[str]) -> list[TopicPartition]:
    found = (await cluster.metadata(topics)).topics if topics else {}
    partitions = []
    for topic in topics:
        numbers = sorted(one.partition for one in found[topic].partitions) if topic in found else []
        partitions += [TopicPartition(topic, number) for number in numbers]
        if not numbers:
            notes.append(f"topic {topic} does not exist, or may not be described")
    return partitions


def _offset(partition: TopicPartition, offsets: CommittedOffsets, old: OldGroup) -> int | None:
    committed = offsets.get(partition)
    if committed is not None:
        return committed.offset
    stored = old.offsets.get(partition, -1)
    return stored if stored >= 0 else None


def _owners(described: DescribedGroup | ClusterError, notes: list[str]) -> Mapping[TopicPartition, str]:
    if isinstance(described, ClusterError):
        notes.append(f"owners are unknown: {described}")
        return {}
    return {partition: _owner(member) for member in described.members for partition in assigned_partitions(member)}


def _owner(member: GroupMember) -> str:
    """Return the member ID, which usually starts with the client ID, and the host: ``consumer-1-5f…_/10.0.0.7``."""
    name = member.member if member.member.startswith(member.client) else f"{member.client}-{member.member}"
    return f"{name}_{member.host}"
