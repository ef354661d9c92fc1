"""Internal topics: their names, their cluster, and the configs they are created with (docs/reference/topics.md).

They are compacted: only the last record of a key counts, and deletion by age would lose offsets of idle partitions. The
exceptions are the dead-letter topic and the audit topic, in which every record counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mm2.core.naming.names import Flow
from mm2.core.policies import ReplicationPolicy

SOURCE_OFFSETS_PARTITIONS = 25  # Connect's default of offset.storage.partitions
DEAD_LETTER_BYTES = 64 * 1024 * 1024
"""Largest dead letter. A broker closes a connection with a request above 100 MiB (socket.request.max.bytes)."""

DEAD_LETTER_CONFIGS: Mapping[str, str] = {
    "max.message.bytes": str(DEAD_LETTER_BYTES),
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
"""Configs of a new dead-letter topic: a record that could not be copied must not be lost there either."""

AUDIT_CONFIGS: Mapping[str, str] = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Configs of a new audit topic: how long records are kept is for the operator to decide, not for a broker's default."""

STATUS_PARTITIONS = 5  # Connect's default of status.storage.partitions


class Side(StrEnum):
    """One of the two clusters of a flow; the values of offset-syncs.topic.location."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """One internal topic of a flow.

    ``replication_factor_key`` is the property that sets its replication factor. ``checked``: an existing topic is
    validated before use and rejected if it is unsuitable, as in Java; the others are used as they are.
    ``partitions_fixed``: an existing topic with another number of partitions is also rejected. ``cleanup_policy`` is
    that of a new topic.
    """

    name: str
    side: Side
    partitions: int
    replication_factor_key: str
    checked: bool = False
    partitions_fixed: bool = False
    cleanup_policy: str = "compact"

    def creation_configs(self, settings: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the topic configs to create it with.

        These are the user's ``settings`` (``config.storage.<name>`` and so on without the prefix), always with our
        cleanup policy.
        """
        return {**(settings or {}), "cleanup.policy": self.cleanup_policy}

    def refusal(self, *, partitions: int, cleanup_policy: str | None) -> str | None:
        """Return why the existing topic must not be used, as a message; None if it can be used.

        ``cleanup_policy`` is its cleanup.policy, or None if it could not be read (as in Java, it is then accepted).
        """
        if self.partitions_fixed and partitions != self.partitions:
            return (
                f"topic {self.name} has {partitions} partitions, but must have exactly {self.partitions} to keep its"
                f" records in order. Delete the topic or configure another name."
            )
        policies = {policy.strip().lower() for policy in (cleanup_policy or "").split(",")} - {""}
        if self.checked and policies and policies != {"compact"}:
            return (
                f"topic {self.name} has cleanup.policy={cleanup_policy}, but must have compact: otherwise its records"
                f" expire and replication progress is lost."
                f" Run kafka-configs.sh --alter --topic {self.name} --add-config cleanup.policy=compact"
            )
        return None


def heartbeats(policy: ReplicationPolicy) -> InternalTopic:
    """Heartbeats emitted to the target by all flows into it."""
    return InternalTopic(
        name=policy.heartbeats_topic(),
        side=Side.TARGET,
        partitions=1,
        replication_factor_key="heartbeats.topic.replication.factor",
    )


def offset_syncs(policy: ReplicationPolicy, aliases: Flow, location: Side) -> InternalTopic:
    """Pairs of upstream and downstream offsets. ``location`` is offset-syncs.topic.location; the name contains the
    one of ``aliases`` (those in topic names) that belongs to the other cluster."""
    other = aliases.target if location is Side.SOURCE else aliases.source
    return InternalTopic(
        name=policy.offset_syncs_topic(other),
        side=location,
        partitions=1,
        replication_factor_key="offset-syncs.topic.replication.factor",
    )


def checkpoints(policy: ReplicationPolicy, aliases: Flow) -> InternalTopic:
    """Committed offsets of the source's groups, translated to the target; ``aliases`` as for `offset_syncs`."""
    return InternalTopic(
        name=policy.checkpoints_topic(aliases.source),
        side=Side.TARGET,
        partitions=1,
        replication_factor_key="checkpoints.topic.replication.factor",
    )


def exact_offsets(flow: Flow) -> InternalTopic:
    """The exact offset map (`exact_offset_records`), which Java does not have.

    Groups depend on it as on the checkpoints, so it has their replication factor. One partition, because the order of
    its records matters.
    """
    return InternalTopic(
        name=f"mm2-exact-offsets.{flow.source}.internal",
        side=Side.TARGET,
        partitions=1,
        replication_factor_key="checkpoints.topic.replication.factor",
        checked=True,
        partitions_fixed=True,
    )


def losses(flow: Flow) -> InternalTopic:
    """The recorded losses (`mm2.core.lanes.losses`), which Java does not have.

    It has the replication factor of the exact offsets. One partition, because losses are few and the order of the
    records of a loss matters.
    """
    return InternalTopic(
        name=f"mm2-losses.{flow.source}.internal",
        side=Side.TARGET,
        partitions=1,
        replication_factor_key="checkpoints.topic.replication.factor",
        checked=True,
        partitions_fixed=True,
    )


def source_offsets(
    flow: Flow, *, name: str | None = None, partitions: int = SOURCE_OFFSETS_PARTITIONS
) -> InternalTopic:
    """The stored offset of each source partition. ``name`` is offset.storage.topic if the file sets it.

    This and the next two are the worker's topics in Java: their names contain dots under every separator.
    """
    return InternalTopic(
        name=name or f"mm2-offsets.{flow.source}.internal",
        side=Side.TARGET,
        partitions=partitions,
        replication_factor_key="offset.storage.replication.factor",
        checked=True,
    )


def configs(flow: Flow, *, name: str | None = None) -> InternalTopic:
    """Records published by the leader; ``name`` is config.storage.topic. One partition, because the order of its
    records is the order of events."""
    return InternalTopic(
        name=name or f"mm2-configs.{flow.source}.internal",
        side=Side.TARGET,
        partitions=1,
        replication_factor_key="config.storage.replication.factor",
        checked=True,
        partitions_fixed=True,
    )


def status(flow: Flow, *, name: str | None = None, partitions: int = STATUS_PARTITIONS) -> InternalTopic:
    """States of connectors and tasks; ``name`` is status.storage.topic."""
    return InternalTopic(
        name=name or f"mm2-status.{flow.source}.internal",
        side=Side.TARGET,
        partitions=partitions,
        replication_factor_key="status.storage.replication.factor",
        checked=True,
    )


def dead_letters(flow: Flow, *, name: str | None = None) -> InternalTopic:
    """Records that cannot be copied, which Java does not have; ``name`` is errors.deadletterqueue.topic.name."""
    return InternalTopic(
        name=name or f"mm2-dead-letters.{flow.source}.internal",
        side=Side.TARGET,
        partitions=1,
        replication_factor_key="errors.deadletterqueue.topic.replication.factor",
        cleanup_policy="delete",
    )


def audit(flow: Flow) -> InternalTopic:
    """What operators did with the flow (`mm2.core.access.audit`), which Java does not have.

    It has the replication factor of the losses. One partition, because the order of the records matters.
    """
    return InternalTopic(
        name=f"mm2-audit.{flow.source}.internal",
        side=Side.TARGET,
        partitions=1,
        replication_factor_key="checkpoints.topic.replication.factor",
        cleanup_policy="delete",
    )
