"""The keys of Java's Connect worker of a flow, which lives on the flow's target (mm2-compat §1.5).

A key of flow A->B takes its value from ``B.key``. Those that begin with ``offset.storage``, ``config.storage``,
``status.storage`` or ``task`` may also stand alone, and then win.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from mm2.config.java_types import (
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
    refuse,
)
from mm2.config.keys import KeyModel, key
from mm2.config.reach import Reach
from mm2.core.request_signing import MAC_ALGORITHMS, is_mac
from mm2.core.session_keys import KEY_ALGORITHMS, SMALLEST_BITS, KeyRules, makes_keys

EXACTLY_ONCE = "exactly-once flows"

Milliseconds = Annotated[Int, at_least(1)]


def _key_algorithm(text: str) -> str:
    if not makes_keys(text):
        raise refuse(f"must be {one_of_words(KEY_ALGORITHMS)}")
    return text


def _mac(text: str) -> str:
    if not is_mac(text):
        raise refuse(f"must be {one_of_words(MAC_ALGORITHMS)}")
    return text


def _macs(elements: tuple[str, ...]) -> tuple[str, ...]:
    if not elements or not all(map(is_mac, elements)):
        raise refuse(f"must be some of {', '.join(MAC_ALGORITHMS)}, parted by commas")
    return elements


class WorkerSettings(KeyModel):
    """What a node needs to know of the flow's group and storage topics. Durations are milliseconds."""

    group_id: String = key(
        "group.id", "", "The group of the nodes that run the flow: `A-mm2` for A->B.", reach=Reach.FLOW
    )
    client_id: String = key(
        "client.id", "", "How the group's clients call themselves: `A->B`.", reach=Reach.FLOW, local=True
    )
    offset_storage_topic: String = key(
        "offset.storage.topic", "", "Source offsets: `mm2-offsets.A.internal`.", reach=Reach.FLOW
    )
    offset_storage_partitions: PartitionCount = key(
        "offset.storage.partitions", 25, "Partitions of that topic.", reach=Reach.RUNNING
    )
    offset_storage_replication_factor: ReplicationFactorShort = key(
        "offset.storage.replication.factor", 3, "Replicas of that topic.", reach=Reach.RUNNING
    )
    status_storage_topic: String = key(
        "status.storage.topic", "", "Task states: `mm2-status.A.internal`.", reach=Reach.FLOW
    )
    status_storage_partitions: PartitionCount = key(
        "status.storage.partitions", 5, "Partitions of that topic.", reach=Reach.RUNNING
    )
    status_storage_replication_factor: ReplicationFactorShort = key(
        "status.storage.replication.factor", 3, "Replicas of that topic.", reach=Reach.RUNNING
    )
    config_storage_topic: String = key(
        "config.storage.topic", "", "Assignments: `mm2-configs.A.internal`.", reach=Reach.FLOW
    )
    config_storage_replication_factor: ReplicationFactorShort = key(
        "config.storage.replication.factor", 3, "Replicas of that topic, which has one partition.", reach=Reach.RUNNING
    )
    offset_flush_interval_ms: Annotated[Long, at_least(1)] = key(
        "offset.flush.interval.ms", 5_000, "How often source offsets are stored. Java: 60000.", reach=Reach.FLOW
    )
    task_shutdown_graceful_timeout_ms: Annotated[Long, at_least(0)] = key(
        "task.shutdown.graceful.timeout.ms",
        10_000,
        "How long a node that stops may drain. Java: 5000.",
        reach=Reach.RUNNING,
        local=True,
    )
    session_timeout_ms: Milliseconds = key(
        "session.timeout.ms",
        10_000,
        "A node the group has not heard of for so long has lost its slots.",
        reach=Reach.FLOW,
    )
    heartbeat_interval_ms: Milliseconds = key(
        "heartbeat.interval.ms", 3_000, "How often a node tells the group that it lives.", reach=Reach.FLOW
    )
    rebalance_timeout_ms: Milliseconds = key(
        "rebalance.timeout.ms",
        60_000,
        "How long the group waits for its nodes when it shares out slots.",
        reach=Reach.FLOW,
    )
    scheduled_rebalance_max_delay_ms: Annotated[Int, at_least(0)] = key(
        "scheduled.rebalance.max.delay.ms",
        0,  # docs/adr/0006-tasks-have-homes.md
        "How long the tasks of a node that vanished wait for its return. Java: 300000.",
        reach=Reach.RUNNING,
    )
    exactly_once_source_support: Annotated[String, one_of("disabled", "preparing", "enabled", ignore_case=True)] = key(
        "exactly.once.source.support",
        "disabled",
        "Write records and source offsets in one transaction (KIP-618).",
        reach=Reach.FLOW,
        later=EXACTLY_ONCE,
        idle="disabled",
    )
    inter_worker_key_ttl_ms: Annotated[Int, at_least(0)] = key(
        "inter.worker.key.ttl.ms",
        3_600_000,
        "Life of the key that nodes sign requests with.",
        reach=Reach.FLOW,
    )
    inter_worker_key_generation_algorithm: Annotated[String, AfterValidator(_key_algorithm)] = key(
        "inter.worker.key.generation.algorithm",
        "HmacSHA256",
        "How that key is made.",
        reach=Reach.FLOW,
    )
    inter_worker_key_size: Annotated[OptionalInt, at_least(SMALLEST_BITS, "shorter keys can be guessed")] = key(
        "inter.worker.key.size",
        None,
        "Bits of that key; nothing: the algorithm's own.",
        reach=Reach.FLOW,
    )
    inter_worker_signature_algorithm: Annotated[String, AfterValidator(_mac)] = key(
        "inter.worker.signature.algorithm",
        "HmacSHA256",
        "How requests are signed.",
        reach=Reach.FLOW,
    )
    inter_worker_verification_algorithms: Annotated[ListOf, AfterValidator(_macs)] = key(
        "inter.worker.verification.algorithms",
        ("HmacSHA256",),
        "Signatures that are accepted.",
        reach=Reach.FLOW,
    )
    topic_tracking_enable: Boolean = key(
        "topic.tracking.enable",
        True,
        "Write which topics a flow has touched to the status topic.",
        reach=Reach.RUNNING,
    )

    @property
    def session_keys(self) -> KeyRules:
        """How the leader makes the key that nodes sign with."""
        return KeyRules(
            algorithm=self.inter_worker_key_generation_algorithm,
            bits=self.inter_worker_key_size,
            ttl_ms=self.inter_worker_key_ttl_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageTopic:
    """One of the flow's topics on its target that a node keeps its memory in. ``partitions`` and
    ``replication_factor`` -1: the broker's default. ``configs``: more topic settings, from ``offset.storage.…`` and so
    on; the cleanup policy is always compact."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageTopics:
    """The three of them."""

    offsets: StorageTopic
    statuses: StorageTopic
    configs: StorageTopic
