"""The keys of the Connect worker of a flow (Kafka: DistributedConfig).

The value of a key of flow A->B is taken from ``B.key``. Keys that start with ``offset.storage``, ``config.storage``,
``status.storage`` or ``task`` can also be set without a prefix, which takes precedence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from mm2.config.grammar.java_types import (
    Boolean,
    Int,
    ListOf,
    Long,
    OptionalInt,
    PartitionCount,
    ReplicationFactorShort,
    String,
    at_least,
    one_of,
    one_of_words,
    require,
)
from mm2.config.keys.declaration import KeyModel, flow_key, live_key
from mm2.core.coordination.request_signing import MAC_ALGORITHMS, is_mac
from mm2.core.coordination.session_keys import KEY_ALGORITHMS, SMALLEST_BITS, KeyRules, makes_keys

Milliseconds = Annotated[Int, at_least(1)]


_KEY_ALGORITHM = require(makes_keys, f"must be {one_of_words(KEY_ALGORITHMS)}")
_MAC = require(is_mac, f"must be {one_of_words(MAC_ALGORITHMS)}")
_MACS = require(
    lambda macs: macs and all(map(is_mac, macs)), f"must be a comma-separated list of {', '.join(MAC_ALGORITHMS)}"
)


class WorkerSettings(KeyModel):
    """The flow's group and storage topics. Durations are milliseconds."""

    group_id: String = flow_key("group.id", "", "Group of the nodes that run the flow. If not set: `A-mm2` for A->B.")
    client_id: String = flow_key("client.id", "", "Client ID of the group's clients. If not set: `A->B`.", local=True)
    offset_storage_topic: String = flow_key(
        "offset.storage.topic", "", "Topic of source offsets. If not set: `mm2-offsets.A.internal`."
    )
    offset_storage_partitions: PartitionCount = live_key("offset.storage.partitions", 25, "Partitions of that topic.")
    offset_storage_replication_factor: ReplicationFactorShort = live_key(
        "offset.storage.replication.factor", 3, "Replication factor of that topic."
    )
    status_storage_topic: String = flow_key(
        "status.storage.topic", "", "Topic of task states. If not set: `mm2-status.A.internal`."
    )
    status_storage_partitions: PartitionCount = live_key("status.storage.partitions", 5, "Partitions of that topic.")
    status_storage_replication_factor: ReplicationFactorShort = live_key(
        "status.storage.replication.factor", 3, "Replication factor of that topic."
    )
    config_storage_topic: String = flow_key(
        "config.storage.topic", "", "Topic of assignments. If not set: `mm2-configs.A.internal`."
    )
    config_storage_replication_factor: ReplicationFactorShort = live_key(
        "config.storage.replication.factor", 3, "Replication factor of that topic, which has one partition."
    )
    offset_flush_interval_ms: Annotated[Long, at_least(1)] = flow_key(
        "offset.flush.interval.ms", 5_000, "Interval at which source offsets are stored. Java: 60000."
    )
    task_shutdown_graceful_timeout_ms: Annotated[Long, at_least(0)] = live_key(
        "task.shutdown.graceful.timeout.ms", 10_000, "Maximum time that a stopping node drains. Java: 5000.", local=True
    )
    session_timeout_ms: Milliseconds = flow_key(
        "session.timeout.ms",
        10_000,
        "Session timeout: a node without a heartbeat for this long loses its source tasks.",
    )
    heartbeat_interval_ms: Milliseconds = flow_key(
        "heartbeat.interval.ms", 3_000, "Interval of the node's heartbeats to the group."
    )
    rebalance_timeout_ms: Milliseconds = flow_key(
        "rebalance.timeout.ms", 60_000, "Maximum time that a rebalance waits for nodes to join."
    )
    scheduled_rebalance_max_delay_ms: Annotated[Int, at_least(0)] = live_key(
        "scheduled.rebalance.max.delay.ms",
        0,  # docs/adr/0006-tasks-have-homes.md
        "How long the source tasks of a failed node stay unassigned, waiting for its return. Java: 300000.",
    )
    exactly_once_source_support: Annotated[
        String,
        one_of(
            "disabled",
            "preparing",
            "enabled",
            ignore_case=True,
            fix="write enabled for exactly-once, or disabled for at-least-once",
        ),
    ] = flow_key(
        "exactly.once.source.support",
        "disabled",
        "`enabled`: write records and their source offsets in transactions (KIP-618). On running nodes, "
        "first set `preparing` on every node, then `enabled` ([how](../how-to/operations.md#enable-exactly-once)).",
    )
    inter_worker_key_ttl_ms: Annotated[Int, at_least(0)] = flow_key(
        "inter.worker.key.ttl.ms", 3_600_000, "Lifetime of the key that nodes sign internal requests with."
    )
    inter_worker_key_generation_algorithm: Annotated[String, _KEY_ALGORITHM] = flow_key(
        "inter.worker.key.generation.algorithm", "HmacSHA256", "Algorithm that generates that key."
    )
    inter_worker_key_size: Annotated[OptionalInt, at_least(SMALLEST_BITS, "shorter keys can be guessed")] = flow_key(
        "inter.worker.key.size", None, "Size of that key in bits. If not set: the default of the algorithm."
    )
    inter_worker_signature_algorithm: Annotated[String, _MAC] = flow_key(
        "inter.worker.signature.algorithm", "HmacSHA256", "Algorithm that signs internal requests."
    )
    inter_worker_verification_algorithms: Annotated[ListOf, _MACS] = flow_key(
        "inter.worker.verification.algorithms", ("HmacSHA256",), "Accepted signature algorithms."
    )
    topic_tracking_enable: Boolean = live_key(
        "topic.tracking.enable", True, "Record the topics that a flow has used in the status topic."
    )

    @property
    def exactly_once(self) -> bool:
        """Whether source tasks write in transactions (DistributedConfig.exactlyOnceSourceEnabled)."""
        return self.exactly_once_source_support == "enabled"

    @property
    def transactional_leader(self) -> bool:
        """Whether the leader must write in transactions (DistributedConfig.transactionalLeaderEnabled)."""
        return self.exactly_once_source_support != "disabled"

    @property
    def session_keys(self) -> KeyRules:
        """Rules for the key that the leader generates."""
        return KeyRules(
            algorithm=self.inter_worker_key_generation_algorithm,
            bits=self.inter_worker_key_size,
            ttl_ms=self.inter_worker_key_ttl_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageTopic:
    """One of the flow's storage topics. -1 for ``partitions`` and ``replication_factor``: the broker's default.
    ``configs``: further topic settings, such as those of ``offset.storage.…``; the cleanup policy is always compact."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageTopics:
    """The storage topics of one flow."""

    offsets: StorageTopic
    statuses: StorageTopic
    configs: StorageTopic
