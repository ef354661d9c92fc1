"""Settings of ``kafka-mirror-maker``, from its command line, its consumer files and its producer file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mm2.core.mirror1.assignors import RANGE
from mm2.core.mirror1.user_class import UserClass
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import ClientSettings, FetchSettings, ProduceSettings
from mm2.core.settings.zookeeper_connect import ZooKeeperConnect


class Partitioning(StrEnum):
    """--partitions: how the partition on the target is chosen."""

    SAME = "same"
    """That of the source, if the target's topic has exactly as many partitions as the source's; by key otherwise."""

    KEY = "key"
    """By key, as MirrorMaker 1 does it: murmur2 of the key, and any partition for records without a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMembership:
    """How a stream is a member of the consumer group. Durations are milliseconds, as in Java's consumer properties.

    ``max_poll_interval_ms`` is the rebalance timeout: how long the broker waits for a member that is completing what
    is in flight. ``instance_id`` is group.instance.id (KIP-345), to which each stream appends its number.
    ``assignors`` are keys of `mm2.core.mirror1.assignors.ASSIGNORS`, the preferred one first.
    """

    group_id: str
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    instance_id: str | None = None
    assignors: tuple[str, ...] = (RANGE,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """One --consumer.config: a source cluster, and the group whose offsets say what was copied.

    ``file`` is the path for messages. The client ID of ``client`` is that of the group; each stream appends its number.
    ``zookeeper`` is where the brokers are registered (zookeeper.connect), if ``client`` has no bootstrap servers: they
    are read before the process starts. ``has_old_offsets``: the group can have offsets in ZooKeeper, as groups of
    Kafka's old consumer (0.8 to 1.1) have by default. ``old_offsets`` are these, read before the process starts:
    partitions start there for which the group has no offset in Kafka. ``exclude_internal_topics`` leaves out Kafka's
    own topics.
    """

    file: str
    client: ClientSettings
    fetch: FetchSettings
    group: GroupMembership
    exclude_internal_topics: bool = True
    zookeeper: ZooKeeperConnect | None = None
    has_old_offsets: bool = False
    old_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """Everything that ``kafka-mirror-maker`` needs to run.

    ``include`` and ``exclude`` are Java regular expressions that match whole topic names; exactly one is set. Each
    consumer has ``streams`` members in its group, each in a lane of its own. Consumed offsets are committed every
    ``commit_interval_ms``. ``abort_on_send_failure``: a record that cannot be written ends the process; otherwise it is
    written to the dead-letter topic and counted. ``lane_buffer_bytes`` limits the bytes between fetch and
    acknowledgement in each lane. ``spark`` are properties spark.*, which can contain passwords; no other user of the
    machine may see those in ``hidden_spark``. ``inherited``: names of mm2.engine.environment. ``listeners``: http URLs
    at which /health and /metrics are served. ``target_zookeeper`` is where the target's brokers are registered, if
    ``target`` has no bootstrap servers.
    """

    consumers: tuple[ConsumerSettings, ...]
    target: ClientSettings
    target_zookeeper: ZooKeeperConnect | None = None
    produce: ProduceSettings
    include: str | None
    exclude: str | None
    streams: int = 1
    commit_interval_ms: int = 60_000
    abort_on_send_failure: bool = True
    partitions: Partitioning = Partitioning.SAME
    handler: UserClass | None = None
    listener: UserClass | None = None
    lane_buffer_bytes: int = 64 * 1024 * 1024
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    hidden_spark: frozenset[str] = frozenset()
    inherited: tuple[str, ...] = ()
    listeners: tuple[str, ...] = ()
