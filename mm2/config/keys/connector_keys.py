"""The keys of a flow's three connectors, with Java's types and defaults (Kafka: MirrorConnectorConfig).

Defaults are those of Kafka 4.3.1. The value of a key is taken from ``A->B.key``, then from ``key``.
"""

from __future__ import annotations

import re
from typing import Annotated

from mm2.config.grammar.java_types import (
    Boolean,
    ClassName,
    Int,
    IntervalSeconds,
    ListOf,
    Long,
    OptionalLong,
    OptionalString,
    PartOfTopicName,
    ReplicationFactorInt,
    ReplicationFactorShort,
    String,
    at_least,
    one_of,
    require,
)
from mm2.config.keys.class_keys import ADMIN, GROUP_FILTER, POLICY, PROPERTY_FILTER, TOPIC_FILTER
from mm2.config.keys.declaration import KeyModel, flow_key, idle_key, live_key
from mm2.core.lanes.lease import TransactionsLease
from mm2.core.naming.names import Flow

POLL_MS = TransactionsLease().interval_ms
"""Interval between commits if transaction.boundary is poll."""

POLL_MIB = TransactionsLease().max_bytes // 1024**2

SOURCE_ALIAS, TARGET_ALIAS = "source.cluster.alias", "target.cluster.alias"

_OTHER_ALIAS = (
    "Without a prefix it applies to all flows, even to heartbeats of flows that are not enabled. The flow's group, "
    "other internal topics, metrics and commands keep the flow's aliases."
)
_OR_OWN = "or a custom class, `module:Class` ([how to write one](../how-to/extending.md))"


_NO_TRANSFORMS = (
    "Must be empty: transformations are Java classes, which cannot be loaded, and batches are replicated without being "
    "decompressed."
)


_EMPTY = require(
    lambda names: not names,
    "not supported: transformations are Java classes, and records would be replicated without them",
    "keep running Java MirrorMaker 2 for this flow, or write a query that does the same (docs/how-to/queries.md) and "
    "remove the line",
)
_METRIC_FORMATS = require(
    lambda formats: formats and {"legacy", "new"}.issuperset(formats),
    "must be legacy, new, or both separated by a comma",
)
_TOPIC_NAME = require(
    re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}").fullmatch,
    "must be a topic name: 1 to 249 letters, digits, dots, underscores and hyphens",
)

_HEARTBEAT_INTERVAL = require(
    lambda seconds: seconds >= 1,
    "must be at least 1",
    "remove the line to use the default (1), or write emit.heartbeats.enabled = false to disable heartbeats",
)

_NOT_BY_CONNECTOR = require(
    lambda boundary: boundary != "connector",
    "MirrorSourceConnector cannot define the boundaries of its transactions, as in Java",
    "write poll or interval",
)

Location = Annotated[String, one_of("source", "target")]


class ConnectorSettings(KeyModel):
    """Keys of all three connectors of a flow."""

    def aliases(self, flow: Flow) -> Flow:
        """Return the aliases that topic names, offsets, offset syncs, checkpoints and heartbeats of ``flow`` contain.

        Java uses the flow's own for the worker only: its group and storage topics (MirrorMaker.addHerder).
        """
        source, target = self.source_cluster_alias, self.target_cluster_alias
        return Flow(flow.source if source is None else source, flow.target if target is None else target)

    enabled: Boolean = flow_key(
        "enabled", False, "Replicate this flow. Write `A->B.enabled`; without a prefix it enables every flow."
    )
    admin_timeout_ms: Annotated[Long, at_least(1, "every request would time out before it is sent")] = live_key(
        "admin.timeout.ms", 60_000, "Timeout of an administrative operation, such as creating topics."
    )
    replication_policy_class: ClassName = flow_key(
        POLICY.name,
        POLICY.default,
        "Names remote topics: `DefaultReplicationPolicy` adds the source alias as a prefix, "
        f"`IdentityReplicationPolicy` keeps the names, {_OR_OWN}.",
    )
    replication_policy_separator: PartOfTopicName = flow_key(
        "replication.policy.separator", ".", "Separator between alias and topic in the name of a remote topic."
    )
    internal_topic_separator_enabled: Boolean = flow_key(
        "replication.policy.internal.topic.separator.enabled",
        True,
        "Also use `replication.policy.separator` in the names of offset-sync and checkpoint topics (KIP-949).",
    )
    source_cluster_alias: OptionalString = flow_key(
        SOURCE_ALIAS,
        None,
        "Alias of the source in the names of remote topics and checkpoint topics, in source offsets and heartbeats; by "
        f"default that of the flow. {_OTHER_ALIAS}",
    )
    target_cluster_alias: OptionalString = flow_key(
        TARGET_ALIAS,
        None,
        "Alias of the target by which topics that come from it are recognised, also in the name of the offset-sync "
        f"topic and in heartbeats; by default that of the flow. {_OTHER_ALIAS}",
    )
    forwarding_admin_class: ClassName = flow_key(
        ADMIN.name, ADMIN.default, f"Creates topics and changes their settings (KIP-787): Java's class, {_OR_OWN}."
    )
    transforms: Annotated[ListOf, _EMPTY] = idle_key(
        "transforms", (), f"Single message transformations. {_NO_TRANSFORMS}"
    )
    predicates: Annotated[ListOf, _EMPTY] = idle_key(
        "predicates", (), f"Conditions of transformations. {_NO_TRANSFORMS}"
    )
    metric_names_formats: Annotated[ListOf, _METRIC_FORMATS] = idle_key(
        "metric.names.formats",
        ("legacy",),
        "Names of Java's metrics, `legacy` or `new` (KIP-1280). No effect: metrics are in Prometheus format, with the "
        "names in [Metrics](metrics.md).",
    )
    errors_tolerance: Annotated[String, one_of("none", "all")] = flow_key(
        "errors.tolerance",
        "none",
        "Whether records that cannot be copied stop their partition (`none`), or are written to the dead-letter topic "
        "instead (`all`; Java drops them).",
    )


class SourceSettings(ConnectorSettings):
    """Configuration of MirrorSourceConnector: topics, source tasks, remote topics."""

    tasks_max: Annotated[Int, at_least(1, "with 0 tasks nothing is replicated")] = live_key(
        "tasks.max",
        1,
        "Maximum number of source tasks, to which the partitions of the flow are assigned. Each query has as many of"
        " its own; a change then restarts the flow.",
    )
    topics: ListOf = live_key("topics", (".*",), "Topics to replicate: names or Java regular expressions.")
    topics_exclude: ListOf = live_key(
        "topics.exclude",
        (r"mm2.*\.internal", r".*\.replica", "__.*"),
        "Topics not to replicate; takes precedence over `topics`.",
    )
    config_properties_exclude: ListOf = live_key(
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
        "Topic settings not to copy to remote topics: names or Java regular expressions.",
    )
    use_defaults_from: Annotated[String, one_of("source", "target")] = live_key(
        "use.defaults.from",
        "target",
        "Cluster whose defaults a remote topic gets for settings that are at the default on the source topic. "
        "Only read with a flow prefix, `A->B.use.defaults.from`.",
    )
    topic_filter_class: ClassName = live_key(
        TOPIC_FILTER.name, TOPIC_FILTER.default, f"Selects topics: Java's class, which reads `topics`, {_OR_OWN}."
    )
    config_property_filter_class: ClassName = live_key(
        PROPERTY_FILTER.name,
        PROPERTY_FILTER.default,
        f"Selects topic settings: Java's class, which reads `config.properties.exclude`, {_OR_OWN}.",
    )
    refresh_topics_enabled: Boolean = live_key(
        "refresh.topics.enabled", True, "Periodically check the source for new topics and partitions."
    )
    refresh_topics_interval_seconds: IntervalSeconds = live_key(
        "refresh.topics.interval.seconds", 600, "Interval of that check; negative disables it."
    )
    sync_topic_configs_enabled: Boolean = live_key(
        "sync.topic.configs.enabled",
        True,
        "Periodically copy changed topic settings to remote topics (KIP-894). `message.timestamp.before.max.ms` and "
        "`message.timestamp.after.max.ms` are copied when a remote topic is created and not synced afterwards.",
    )
    sync_topic_configs_interval_seconds: IntervalSeconds = live_key(
        "sync.topic.configs.interval.seconds", 600, "Interval of that sync; negative disables it."
    )
    sync_topic_acls_enabled: Boolean = live_key(
        "sync.topic.acls.enabled", True, "Periodically copy the read ACLs of topics to remote topics."
    )
    sync_topic_acls_interval_seconds: IntervalSeconds = live_key(
        "sync.topic.acls.interval.seconds", 600, "Interval of that sync; negative disables it."
    )
    replication_factor: ReplicationFactorInt = live_key(
        "replication.factor", 2, "Replication factor of new remote topics; -1 uses the target broker's default."
    )
    offset_syncs_topic_replication_factor: ReplicationFactorShort = live_key(
        "offset-syncs.topic.replication.factor", 3, "Replication factor of the offset-sync topic."
    )
    offset_syncs_topic_location: Location = flow_key(
        "offset-syncs.topic.location", "source", "Cluster of the offset-sync topic: `source` or `target`."
    )
    offset_lag_max: Annotated[Long, at_least(0)] = flow_key(
        "offset.lag.max",
        100,
        "Maximum number of records of a partition between two offset syncs; 0 writes one for each record.",
    )
    emit_offset_syncs_enabled: Boolean = flow_key(
        "emit.offset-syncs.enabled",
        True,
        "Write offset syncs, which are needed to translate consumer offsets (KIP-1031).",
    )
    exactly_once_support: Annotated[
        String,
        one_of(
            "requested",
            "required",
            ignore_case=True,
            fix="write required to reject the file unless the flow is exactly-once, or requested to accept it",
        ),
    ] = idle_key(
        "exactly.once.support",
        "requested",
        "`required`: reject the file unless the flow can be exactly-once (KIP-618). Only read with a flow prefix.",
    )
    transaction_boundary: Annotated[
        String, one_of("poll", "interval", "connector", ignore_case=True), _NOT_BY_CONNECTOR
    ] = flow_key(
        "transaction.boundary",
        "poll",
        f"When a transaction is committed, if `B.exactly.once.source.support` is `enabled`: every {POLL_MS} ms or "
        f"{POLL_MIB} MiB (`poll`; Java: after every poll), or every `transaction.boundary.interval.ms` (`interval`). "
        "Only read with a flow prefix.",
    )
    transaction_boundary_interval_ms: Annotated[OptionalLong, at_least(0)] = flow_key(
        "transaction.boundary.interval.ms",
        None,
        "Interval of these commits. If not set: `offset.flush.interval.ms` of the target. Only read with a flow "
        "prefix.",
    )
    heartbeats_replication_enabled: Boolean = live_key(
        "heartbeats.replication.enabled",
        True,
        "Replicate heartbeat topics even if `topics` does not select them (KIP-1089).",
    )
    dead_letter_topic_name: Annotated[OptionalString, _TOPIC_NAME] = flow_key(
        "errors.deadletterqueue.topic.name",
        None,
        "Topic on the target for records that cannot be copied, if `errors.tolerance` is `all`. If not set: "
        "`mm2-dead-letters.A.internal`. In Java only sink connectors have such a topic (KIP-298).",
    )
    dead_letter_topic_replication_factor: ReplicationFactorShort = flow_key(
        "errors.deadletterqueue.topic.replication.factor", 3, "Replication factor of the dead-letter topic."
    )
    dead_letter_context_headers: Boolean = flow_key(
        "errors.deadletterqueue.context.headers.enable",
        True,
        "Add headers to dead letters that say where a record is from and why it cannot be copied. (Connect's default "
        "for sinks is `false`.)",
    )


class CheckpointSettings(ConnectorSettings):
    """Configuration of MirrorCheckpointConnector: groups and their offsets."""

    groups: ListOf = live_key(
        "groups", (".*",), "Consumer groups to write checkpoints for: names or Java regular expressions."
    )
    groups_exclude: ListOf = live_key(
        "groups.exclude",
        ("console-consumer-.*", "connect-.*", "__.*"),
        "Consumer groups without checkpoints; takes precedence over `groups`.",
    )
    group_filter_class: ClassName = live_key(
        GROUP_FILTER.name, GROUP_FILTER.default, f"Selects groups: Java's class, which reads `groups`, {_OR_OWN}."
    )
    refresh_groups_enabled: Boolean = live_key(
        "refresh.groups.enabled", True, "Periodically check the source for new consumer groups."
    )
    refresh_groups_interval_seconds: IntervalSeconds = live_key(
        "refresh.groups.interval.seconds", 600, "Interval of that check; negative disables it."
    )
    emit_checkpoints_enabled: Boolean = live_key(
        "emit.checkpoints.enabled", True, "Write translated group offsets to `A.checkpoints.internal`."
    )
    emit_checkpoints_interval_seconds: IntervalSeconds = live_key(
        "emit.checkpoints.interval.seconds",
        60,
        "Interval between two checkpoints of a group; negative disables checkpoints.",
    )
    sync_group_offsets_enabled: Boolean = live_key(
        "sync.group.offsets.enabled",
        False,
        "Also commit translated offsets on the target, for groups without active members there.",
    )
    sync_group_offsets_interval_seconds: IntervalSeconds = live_key(
        "sync.group.offsets.interval.seconds", 60, "Interval of that sync; negative disables it."
    )
    checkpoints_topic_replication_factor: ReplicationFactorShort = live_key(
        "checkpoints.topic.replication.factor", 3, "Replication factor of the checkpoint topic."
    )


class HeartbeatSettings(ConnectorSettings):
    """Configuration of MirrorHeartbeatConnector."""

    emit_heartbeats_enabled: Boolean = live_key(
        "emit.heartbeats.enabled", True, "Write heartbeats to the flow's target, even if the flow is not enabled."
    )
    emit_heartbeats_interval_seconds: Annotated[Long, _HEARTBEAT_INTERVAL] = live_key(
        "emit.heartbeats.interval.seconds", 1, "Interval between two heartbeats."
    )
    heartbeats_topic_replication_factor: ReplicationFactorShort = live_key(
        "heartbeats.topic.replication.factor", 3, "Replication factor of the topic `heartbeats`."
    )


CONNECTORS: tuple[type[ConnectorSettings], ...] = (SourceSettings, CheckpointSettings, HeartbeatSettings)
