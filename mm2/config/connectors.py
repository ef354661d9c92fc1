"""The keys of a flow's three connectors, with Java's types and defaults (mm2-compat §1.3).

Defaults are those of Kafka 4.3.1. A key takes its value from ``A->B.key``, else from ``key``.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from mm2.config.class_names import ADMIN, GROUP_FILTER, POLICY, PROPERTY_FILTER, TOPIC_FILTER
from mm2.config.java_types import (
    Boolean,
    ClassName,
    Int,
    IntervalSeconds,
    ListOf,
    Long,
    PartOfTopicName,
    ReplicationFactorInt,
    ReplicationFactorShort,
    String,
    at_least,
    one_of,
    refuse,
)
from mm2.config.keys import KeyModel, key
from mm2.config.reach import Reach

_OR_OWN = "or a class of yours, `module:Class` ([extending.md](extending.md))"


_NO_TRANSFORMS = (
    "Must be empty: transformations are Java classes, which cannot be loaded here, and batches are passed on without "
    "being taken apart."
)


def _empty(names: tuple[str, ...]) -> tuple[str, ...]:
    if names:
        raise refuse(
            "must be empty: transformations are Java classes, which cannot be loaded here, and records would arrive "
            "without them"
        )
    return names


def _metric_formats(formats: tuple[str, ...]) -> tuple[str, ...]:
    if not formats or not {"legacy", "new"}.issuperset(formats):
        raise refuse("must be legacy, new, or both parted by a comma")
    return formats


def _stops_on_errors(tolerance: str) -> str:
    if tolerance != "none":
        raise refuse("must be none: a record that the target refuses stops its partition and is never dropped")
    return tolerance


Location = Annotated[String, one_of("source", "target")]


class ConnectorSettings(KeyModel):
    """Keys that all three connectors of a flow have."""

    enabled: Boolean = key(
        "enabled",
        False,
        "Replicate this flow. Written `A->B.enabled`; alone it would switch on every flow there is.",
        reach=Reach.FLOW,
    )
    admin_timeout_ms: Annotated[Long, at_least(1, "every request would be over before it is sent")] = key(
        "admin.timeout.ms",
        60_000,
        "How long one administrative step, such as creating topics, may take.",
        reach=Reach.RUNNING,
    )
    replication_policy_class: ClassName = key(
        POLICY.name,
        POLICY.default,
        "How remote topics are named: `DefaultReplicationPolicy` puts the source's alias in front, "
        f"`IdentityReplicationPolicy` keeps names, {_OR_OWN}.",
        reach=Reach.FLOW,
    )
    replication_policy_separator: PartOfTopicName = key(
        "replication.policy.separator",
        ".",
        "What stands between alias and topic in the name of a remote topic.",
        reach=Reach.FLOW,
    )
    internal_topic_separator_enabled: Boolean = key(
        "replication.policy.internal.topic.separator.enabled",
        True,
        "Use a separator of your own in the names of offset-sync and checkpoint topics too (KIP-949).",
        reach=Reach.FLOW,
    )
    forwarding_admin_class: ClassName = key(
        ADMIN.name,
        ADMIN.default,
        f"What creates topics and changes settings (KIP-787): Java's, {_OR_OWN}.",
        reach=Reach.FLOW,
    )
    transforms: Annotated[ListOf, AfterValidator(_empty)] = key(
        "transforms", (), f"Single message transformations. {_NO_TRANSFORMS}", reach=Reach.NOTHING
    )
    predicates: Annotated[ListOf, AfterValidator(_empty)] = key(
        "predicates", (), f"Conditions of transformations. {_NO_TRANSFORMS}", reach=Reach.NOTHING
    )
    metric_names_formats: Annotated[ListOf, AfterValidator(_metric_formats)] = key(
        "metric.names.formats",
        ("legacy",),
        "Names of Java's metrics, `legacy` or `new` (KIP-1280). Metrics are Prometheus's here, under the names in "
        "[metrics.md](metrics.md), whatever this says.",
        reach=Reach.NOTHING,
    )
    errors_tolerance: Annotated[String, one_of("none", "all"), AfterValidator(_stops_on_errors)] = key(
        "errors.tolerance",
        "none",
        "Whether records that the target refuses are dropped (`all`) or stop (`none`).",
        reach=Reach.NOTHING,
    )


class SourceSettings(ConnectorSettings):
    """What MirrorSourceConnector is told: which topics, how many tasks, how remote topics are made."""

    tasks_max: Annotated[Int, at_least(1, "with 0 tasks nothing is replicated")] = key(
        "tasks.max",
        1,
        "Slots the partitions of a flow are spread over: the most that copy at the same time.",
        reach=Reach.RUNNING,
    )
    topics: ListOf = key(
        "topics", (".*",), "Topics to replicate: names or Java regular expressions.", reach=Reach.RUNNING
    )
    topics_exclude: ListOf = key(
        "topics.exclude",
        (r"mm2.*\.internal", r".*\.replica", "__.*"),
        "Topics not to replicate; stronger than `topics`.",
        reach=Reach.RUNNING,
    )
    config_properties_exclude: ListOf = key(
        "config.properties.exclude",
        (
            "follower.replication.throttled.replicas",
            "leader.replication.throttled.replicas",
            "message.timestamp.difference.max.ms",
            "log.message.timestamp.before.max.ms",
            "log.message.timestamp.after.max.ms",
            "message.timestamp.type",
            "unclean.leader.election.enable",
            "min.insync.replicas",
        ),
        "Topic settings that are not copied to remote topics: names or Java regular expressions.",
        reach=Reach.RUNNING,
    )
    use_defaults_from: Annotated[String, one_of("source", "target")] = key(
        "use.defaults.from",
        "target",
        "Whose defaults a remote topic gets for settings its source topic leaves at the default. "
        "Only `A->B.use.defaults.from` counts.",
        reach=Reach.RUNNING,
    )
    topic_filter_class: ClassName = key(
        TOPIC_FILTER.name,
        TOPIC_FILTER.default,
        f"What chooses topics: Java's, which reads `topics`, {_OR_OWN}.",
        reach=Reach.RUNNING,
    )
    config_property_filter_class: ClassName = key(
        PROPERTY_FILTER.name,
        PROPERTY_FILTER.default,
        f"What chooses topic settings: Java's, which reads `config.properties.exclude`, {_OR_OWN}.",
        reach=Reach.RUNNING,
    )
    refresh_topics_enabled: Boolean = key(
        "refresh.topics.enabled",
        True,
        "Look for new topics and partitions on the source again and again.",
        reach=Reach.RUNNING,
    )
    refresh_topics_interval_seconds: IntervalSeconds = key(
        "refresh.topics.interval.seconds",
        600,
        "Seconds between two looks for new topics and partitions.",
        reach=Reach.RUNNING,
    )
    sync_topic_configs_enabled: Boolean = key(
        "sync.topic.configs.enabled",
        True,
        "Keep bringing changed topic settings to the remote topics (KIP-894).",
        reach=Reach.RUNNING,
    )
    sync_topic_configs_interval_seconds: IntervalSeconds = key(
        "sync.topic.configs.interval.seconds",
        600,
        "Seconds between two such rounds; negative: never.",
        reach=Reach.RUNNING,
    )
    sync_topic_acls_enabled: Boolean = key(
        "sync.topic.acls.enabled", True, "Copy read permissions of topics to the remote topics.", reach=Reach.RUNNING
    )
    sync_topic_acls_interval_seconds: IntervalSeconds = key(
        "sync.topic.acls.interval.seconds",
        600,
        "Seconds between two such rounds; negative: never.",
        reach=Reach.RUNNING,
    )
    replication_factor: ReplicationFactorInt = key(
        "replication.factor",
        2,
        "Replicas of a new remote topic; -1 takes the target broker's default.",
        reach=Reach.RUNNING,
    )
    offset_syncs_topic_replication_factor: ReplicationFactorShort = key(
        "offset-syncs.topic.replication.factor",
        3,
        "Replicas of the topic that offset syncs are written to.",
        reach=Reach.RUNNING,
    )
    offset_syncs_topic_location: Location = key(
        "offset-syncs.topic.location",
        "source",
        "The cluster that holds the offset syncs: `source` or `target`.",
        reach=Reach.FLOW,
    )
    offset_lag_max: Annotated[Long, at_least(0)] = key(
        "offset.lag.max",
        100,
        "Records of a partition after which an offset sync is due; 0 writes one for each record.",
        reach=Reach.FLOW,
    )
    emit_offset_syncs_enabled: Boolean = key(
        "emit.offset-syncs.enabled",
        True,
        "Write offset syncs, which translated consumer offsets are made from (KIP-1031).",
        reach=Reach.FLOW,
    )
    heartbeats_replication_enabled: Boolean = key(
        "heartbeats.replication.enabled",
        True,
        "Replicate heartbeat topics even if `topics` leaves them out (KIP-1089).",
        reach=Reach.RUNNING,
    )


class CheckpointSettings(ConnectorSettings):
    """What MirrorCheckpointConnector is told: which groups, and what is done with their offsets."""

    groups: ListOf = key(
        "groups", (".*",), "Consumer groups to follow: names or Java regular expressions.", reach=Reach.RUNNING
    )
    groups_exclude: ListOf = key(
        "groups.exclude",
        ("console-consumer-.*", "connect-.*", "__.*"),
        "Consumer groups not to follow; stronger than `groups`.",
        reach=Reach.RUNNING,
    )
    group_filter_class: ClassName = key(
        GROUP_FILTER.name,
        GROUP_FILTER.default,
        f"What chooses groups: Java's, which reads `groups`, {_OR_OWN}.",
        reach=Reach.RUNNING,
    )
    refresh_groups_enabled: Boolean = key(
        "refresh.groups.enabled", True, "Look for new consumer groups again and again.", reach=Reach.RUNNING
    )
    refresh_groups_interval_seconds: IntervalSeconds = key(
        "refresh.groups.interval.seconds", 600, "Seconds between two looks for new groups.", reach=Reach.RUNNING
    )
    emit_checkpoints_enabled: Boolean = key(
        "emit.checkpoints.enabled",
        True,
        "Write translated group offsets to `A.checkpoints.internal`.",
        reach=Reach.RUNNING,
    )
    emit_checkpoints_interval_seconds: IntervalSeconds = key(
        "emit.checkpoints.interval.seconds", 60, "Seconds between two checkpoints of a group.", reach=Reach.RUNNING
    )
    sync_group_offsets_enabled: Boolean = key(
        "sync.group.offsets.enabled",
        False,
        "Also commit translated offsets for groups that are idle on the target.",
        reach=Reach.RUNNING,
    )
    sync_group_offsets_interval_seconds: IntervalSeconds = key(
        "sync.group.offsets.interval.seconds", 60, "Seconds between two such rounds.", reach=Reach.RUNNING
    )
    checkpoints_topic_replication_factor: ReplicationFactorShort = key(
        "checkpoints.topic.replication.factor", 3, "Replicas of the checkpoint topic.", reach=Reach.RUNNING
    )


class HeartbeatSettings(ConnectorSettings):
    """What MirrorHeartbeatConnector is told."""

    emit_heartbeats_enabled: Boolean = key(
        "emit.heartbeats.enabled",
        True,
        "Write a heartbeat into the flow's target, also while the flow is not enabled.",
        reach=Reach.RUNNING,
    )
    emit_heartbeats_interval_seconds: Annotated[Long, at_least(1)] = key(
        "emit.heartbeats.interval.seconds", 1, "Seconds between two heartbeats.", reach=Reach.RUNNING
    )
    heartbeats_topic_replication_factor: ReplicationFactorShort = key(
        "heartbeats.topic.replication.factor", 3, "Replicas of the topic `heartbeats`.", reach=Reach.RUNNING
    )


CONNECTORS: tuple[type[ConnectorSettings], ...] = (SourceSettings, CheckpointSettings, HeartbeatSettings)
