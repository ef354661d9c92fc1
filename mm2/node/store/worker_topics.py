"""The internal topics of a Connect worker (configs, offsets, status), created and checked before a flow starts."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.config.keys.worker_keys import StorageTopic
from mm2.config.settings import FlowSettings
from mm2.core.naming import internal_topics
from mm2.core.naming.internal_topics import InternalTopic
from mm2.kafka.admin.internal_topics import WrongInternalTopic, ensure_internal_topic
from mm2.kafka.client.cluster import Cluster
from mm2.node.source.source_offsets import StoredSourceOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTopics:
    """The worker topics on the target. ``status_partitions`` is the partition count of the status topic."""

    source_offsets: StoredSourceOffsets
    status_partitions: int

    @classmethod
    async def ensure(cls, settings: FlowSettings, target: Cluster) -> WorkerTopics:
        """Create missing topics, as Connect's TopicAdmin does.

        Raises ClusterError, and WrongInternalTopic about all topics that Java would reject, too, or that may not be
        created or described.
        """
        flow, storage = settings.flow, settings.storage
        admin = settings.admin_class(target)
        offsets = internal_topics.source_offsets(flow, name=storage.offsets.name, partitions=storage.offsets.partitions)
        statuses = internal_topics.status(flow, name=storage.statuses.name, partitions=storage.statuses.partitions)
        configs = internal_topics.configs(flow, name=storage.configs.name)

        async def ensured(topic: InternalTopic, how: StorageTopic) -> int:
            found = await ensure_internal_topic(
                admin,
                topic,
                replication_factor=how.replication_factor,
                settings=dict(how.configs),
                timeout_ms=settings.source.admin_timeout_ms,
            )
            return len(found.partitions)

        partitions: dict[str, int] = {}
        problems: list[str] = []
        for topic, how in ((offsets, storage.offsets), (statuses, storage.statuses), (configs, storage.configs)):
            try:
                partitions[topic.name] = await ensured(topic, how)
            except WrongInternalTopic as error:
                problems.append(str(error))
        if problems:
            raise WrongInternalTopic("; ".join(problems))
        return cls(
            source_offsets=StoredSourceOffsets(
                target,
                storage.offsets.name,
                flow,
                source_alias=settings.aliases.source,
                partitions=partitions[offsets.name],
            ),
            status_partitions=partitions[statuses.name],
        )
