"""Creation of a flow's internal topics, compacted, and checks of those that exist.

As in Java's TopicAdmin and MirrorUtils.createCompactedTopic, an existing topic is not an error, nor is a missing
permission to create topics, provided the topic exists. `mm2.core.naming.internal_topics` decides which topics are
unusable.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from mm2.core.access.rights import on_topic
from mm2.core.log_records import about
from mm2.core.naming.internal_topics import InternalTopic
from mm2.core.topics.acls import Operation
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.admin.topic_configs import describe_topic_configs
from mm2.kafka.admin.topics import NewTopic
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.metadata import TopicInfo
from mm2.kafka.errors import BrokerError, ClusterError, NotSupported
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.retrying import API_TIMEOUT_MS, retried

log = logging.getLogger(__name__)

_NOT_ALLOWED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


class WrongInternalTopic(ClusterError):
    """An internal topic is unusable, or missing and we may not create it. Needs operator action."""


async def ensure_internal_topic(
    admin: ClusterAdmin,
    topic: InternalTopic,
    *,
    replication_factor: int,
    settings: Mapping[str, str] | None = None,
    timeout_ms: int = API_TIMEOUT_MS,
) -> TopicInfo:
    """Create ``topic`` unless it exists, wait until each partition has a leader, and check the topic.

    ``replication_factor`` -1 is the cluster's default; ``settings`` are further topic configs. Raises
    WrongInternalTopic, or another ClusterError after ``timeout_ms``.
    """
    cluster = admin.cluster
    may_create = await _create(admin, topic, replication_factor, settings, timeout_ms)
    info = await _wait_led(cluster, topic, may_create=may_create, timeout_ms=timeout_ms)
    policy = await _cleanup_policy(cluster, topic, timeout_ms) if topic.checked else None
    refusal = topic.refusal(partitions=len(info.partitions), cleanup_policy=policy)
    if refusal:
        raise WrongInternalTopic(f"cluster {cluster.settings.alias}: {refusal}")
    return info


async def _create(
    admin: ClusterAdmin,
    topic: InternalTopic,
    replication_factor: int,
    settings: Mapping[str, str] | None,
    timeout_ms: int,
) -> bool:
    """Create the topic; return False if we may not create topics."""
    new = NewTopic(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=replication_factor,
        configs=topic.creation_configs(settings),
    )
    try:
        error = (await admin.create_topics([new], timeout_ms=timeout_ms))[topic.name]
    except NotSupported:
        return False
    if error is None:
        alias = admin.cluster.settings.alias
        log.info("created topic %s on cluster %s", topic.name, alias, extra=about(topic=topic.name))
    elif error.code in _NOT_ALLOWED:
        return False
    elif error.code == ErrorCode.INVALID_REPLICATION_FACTOR:
        words = f"{error.words or ''} Check {topic.replication_factor_key} ({replication_factor})".strip()
        raise BrokerError(error.code, error.what, words)
    elif error.code not in (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT):
        raise error  # REQUEST_TIMED_OUT: accepted, but not yet everywhere
    return True


async def _wait_led(cluster: Cluster, topic: InternalTopic, *, may_create: bool, timeout_ms: int) -> TopicInfo:
    create = on_topic(Operation.CREATE, topic.name, cluster.settings.alias)

    async def look() -> TopicInfo:
        info = (await cluster.metadata([topic.name])).topics[topic.name]
        if info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not may_create:
            raise WrongInternalTopic(
                f"cluster {cluster.settings.alias}: topic {topic.name} does not exist; requires {create}, or create it"
                f" with {topic.partitions} partitions and cleanup.policy={topic.cleanup_policy}"
            )
        what = f"use topic {topic.name} of cluster {cluster.settings.alias}"
        if info.error:
            right = on_topic(Operation.DESCRIBE, topic.name, cluster.settings.alias)
            error = BrokerError(info.error, what, right=right)
            if error.is_denied and not may_create:
                raise WrongInternalTopic(f"{error}; unless it exists, also requires {create}")
            raise error
        if any(partition.leader < 0 for partition in info.partitions):
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, what)
        return info

    return await retried(look, cluster.settings, timeout_ms=timeout_ms)


async def _cleanup_policy(cluster: Cluster, topic: InternalTopic, timeout_ms: int) -> str | None:
    """Return the topic's cleanup.policy; None if the broker is too old to report it, or does not permit it."""
    try:
        configs = (await describe_topic_configs(cluster, [topic.name], timeout_ms=timeout_ms))[topic.name]
    except NotSupported:
        return None
    if isinstance(configs, BrokerError):
        if configs.code in _NOT_ALLOWED:
            log.info("cluster %s: assuming that topic %s is compacted: %s", cluster.settings.alias, topic.name, configs)
            return None
        raise configs
    entry = configs.get("cleanup.policy")
    return entry.value if entry else None
