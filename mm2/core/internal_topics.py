"""The topics MirrorMaker keeps its own state in: their names, where they live and how they are made (mm2-compat §2.1).

All are compacted: what counts is the last record of a key, and deletion by age would lose offsets of quiet partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mm2.core.names import Flow
from mm2.core.policies import ReplicationPolicy

SOURCE_OFFSETS_PARTITIONS = 25  # Connect's default of offset.storage.partitions
STATUS_PARTITIONS = 5  # Connect's default of status.storage.partitions


class Side(StrEnum):
    """One of the two clusters of a flow; the words of offset-syncs.topic.location."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """One internal topic of a flow.

    ``replication_factor_key`` is the key of mm2.properties that sets its replication factor. ``checked``: Java looks
    at an existing topic before it uses it, and refuses a wrong one; it takes the others as they are.
    ``partitions_fixed``: an existing topic with another number of partitions is refused as well.
    """

    name: str
    side: Side
    partitions: int
    replication_factor_key: str
    checked: bool = False
    partitions_fixed: bool = False

    def creation_configs(self, settings: Mapping[str, str] | None = None) -> dict[str, str]:
        """Topic configs to create it with: the user's ``settings`` (``config.storage.<name>`` and so on without the
        prefix), but always compacted."""
        return {**(settings or {}), "cleanup.policy": "compact"}

    def refusal(self, *, partitions: int, cleanup_policy: str | None) -> str | None:
        """Why the existing topic must not be used, as one sentence; None when it may be.

        ``cleanup_policy`` is its cleanup.policy, None where it could not be read (then, as in Java, it is trusted).
        """
        if self.partitions_fixed and partitions != self.partitions:
            return (
                f"topic {self.name} has {partitions} partitions where exactly {self.partitions} is needed to keep its"
                f" records in order. Delete it, or name another one."
            )
        policies = {policy.strip().lower() for policy in (cleanup_policy or "").split(",")} - {""}
        if self.checked and policies and policies != {"compact"}:
            return (
                f"topic {self.name} has cleanup.policy={cleanup_policy} where only compact keeps its records for good:"
                f" what replication has reached would be forgotten in time."
                f" Run kafka-configs.sh --alter --topic {self.name} --add-config cleanup.policy=compact"
            )
        return None


def heartbeats(policy: ReplicationPolicy) -> InternalTopic:
    """Heartbeats that start on the target, of all flows into it."""
    return InternalTopic(
        name=policy.heartbeats_topic(),
        side=Side.TARGET,
        partitions=1,
        replication_factor_key="heartbeats.topic.replication.factor",
    )


def offset_syncs(policy: ReplicationPolicy, flow: Flow, location: Side) -> InternalTopic:
    """Pairs of upstream and downstream offsets. ``location`` is offset-syncs.topic.location; the name carries the alias
    of the other cluster."""
    other = flow.target if location is Side.SOURCE else flow.source
    return InternalTopic(
        name=policy.offset_syncs_topic(other),
        side=location,
        partitions=1,
        replication_factor_key="offset-syncs.topic.replication.factor",
    )


def checkpoints(policy: ReplicationPolicy, flow: Flow) -> InternalTopic:
    """Committed offsets of the source's groups in terms of the target."""
    return InternalTopic(
        name=policy.checkpoints_topic(flow.source),
        side=Side.TARGET,
        partitions=1,
        replication_factor_key="checkpoints.topic.replication.factor",
    )


def exact_offsets(flow: Flow) -> InternalTopic:
    """Our own: which source offsets became which target offsets (`exact_offset_records`). Groups rely on it as on the
    checkpoints, so those set its replication factor. One partition, since the order of its records counts."""
    return InternalTopic(
        name=f"mm2-exact-offsets.{flow.source}.internal",
        side=Side.TARGET,
        partitions=1,
        replication_factor_key="checkpoints.topic.replication.factor",
        checked=True,
        partitions_fixed=True,
    )


def source_offsets(
    flow: Flow, *, name: str | None = None, partitions: int = SOURCE_OFFSETS_PARTITIONS
) -> InternalTopic:
    """How far each source partition is copied. ``name`` is offset.storage.topic where the file sets it.

    This and the next two are the worker's topics in Java: they keep their dots under every separator.
    """
    return InternalTopic(
        name=name or f"mm2-offsets.{flow.source}.internal",
        side=Side.TARGET,
        partitions=partitions,
        replication_factor_key="offset.storage.replication.factor",
        checked=True,
    )


def configs(flow: Flow, *, name: str | None = None) -> InternalTopic:
    """What the leader published; ``name`` is config.storage.topic. One partition, since the order of its records is the
    order of events."""
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
