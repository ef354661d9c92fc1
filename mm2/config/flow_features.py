"""Features of the flows of a file on which the ACLs that they need depend."""

from __future__ import annotations

from collections.abc import Sequence

from mm2.config.plugins.filters import NameFilter, OwnFilter
from mm2.config.settings import FlowSettings
from mm2.core.access.acl_patterns import EVERYTHING, AclPattern, patterns_of
from mm2.core.access.required_acls import FlowFeatures
from mm2.core.naming import internal_topics
from mm2.core.naming.heartbeat_paths import HeartbeatFlow, expected_heartbeats
from mm2.core.naming.internal_topics import InternalTopic, Side


def features_of(flows: Sequence[FlowSettings]) -> tuple[FlowFeatures, ...]:
    """Return the features of each flow of a file. Raises PluginError if a custom replication policy fails."""
    expected = expected_heartbeats(
        [
            HeartbeatFlow(flow=one.flow, filter=one.replication_filter, emits=one.heartbeats, replicates=one.enabled)
            for one in flows
        ]
    )
    return tuple(
        _features(one, {place.topic for place in expected if place.cluster == one.flow.source}) for one in flows
    )


def _features(settings: FlowSettings, heartbeats: set[str]) -> FlowFeatures:
    flow, policy, source, storage = settings.flow, settings.policy, settings.source, settings.storage
    group_id, produce = settings.worker.group_id, settings.clients.produce
    replicated = {policy.heartbeats_topic(), *heartbeats} if source.heartbeats_replication_enabled else set()
    return FlowFeatures(
        flow=flow,
        source_alias=settings.aliases.source,
        policy=policy,
        replicates=settings.enabled,
        topics=_patterns(settings.topic_filter),
        groups=_patterns(settings.group_filter),
        upstream_heartbeats=tuple(sorted(filter(settings.replication_filter.replicates, replicated))),
        heartbeats=settings.heartbeats,
        sync_topic_configs=source.sync_topic_configs_enabled and source.sync_topic_configs_interval_seconds >= 0,
        sync_topic_acls=source.sync_topic_acls_enabled and source.sync_topic_acls_interval_seconds >= 0,
        sync_group_offsets=(
            settings.checkpoint.sync_group_offsets_enabled
            and settings.checkpoint.sync_group_offsets_interval_seconds > 0
        ),
        fences=settings.enabled and produce.idempotent and produce.acks == -1,
        exactly_once=settings.worker.exactly_once,
        group_id=group_id,
        transactional_leader_id=f"connect-cluster-{group_id}",
        transactional_task_prefix=f"{group_id}-MirrorSourceConnector-",
        worker_topics=(
            internal_topics.configs(flow, name=storage.configs.name),
            internal_topics.source_offsets(flow, name=storage.offsets.name),
            internal_topics.status(flow, name=storage.statuses.name),
        ),
        offset_syncs=_offset_syncs(settings),
        checkpoints=_checkpoints(settings),
        exact_offsets=internal_topics.exact_offsets(flow) if settings.own.offset_translation == "exact" else None,
        dead_letters=(
            internal_topics.dead_letters(flow, name=source.dead_letter_topic_name)
            if source.errors_tolerance == "all"
            else None
        ),
        audit=internal_topics.audit(flow) if settings.enabled and settings.takes_commands else None,
    )


def _patterns(names: NameFilter | OwnFilter) -> tuple[AclPattern, ...]:
    """Return the patterns of a filter; what a custom class selects is unknown."""
    return patterns_of(names.include.elements) if isinstance(names, NameFilter) else (EVERYTHING,)


def _offset_syncs(settings: FlowSettings) -> InternalTopic | None:
    source = settings.source
    if not source.emit_offset_syncs_enabled:
        return None
    return internal_topics.offset_syncs(settings.policy, settings.aliases, Side(source.offset_syncs_topic_location))


def _checkpoints(settings: FlowSettings) -> InternalTopic | None:
    """Return the checkpoints topic; None if the flow has no checkpoint tasks."""
    checkpoint = settings.checkpoint
    emitted = checkpoint.emit_checkpoints_enabled and checkpoint.emit_checkpoints_interval_seconds >= 0
    if not (settings.enabled and emitted and settings.source.emit_offset_syncs_enabled):
        return None
    return internal_topics.checkpoints(settings.policy, settings.aliases)
