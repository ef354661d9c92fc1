"""The three topics in which Java's worker keeps what must survive, made and checked before a flow begins."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.config.settings import FlowSettings
from mm2.config.worker import StorageTopic
from mm2.core import internal_topics
from mm2.core.internal_topics import InternalTopic
from mm2.kafka.cluster import Cluster
from mm2.kafka.internal_topics import ensure_internal_topic
from mm2.node.source_offsets import SourceOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTopics:
    """What there is in the target. ``status_partitions``: how many the status topic has."""

    source_offsets: SourceOffsets
    status_partitions: int

    @classmethod
    async def ensure(cls, settings: FlowSettings, target: Cluster) -> WorkerTopics:
        """Create what is missing (mm2-compat §2.1). Raises ClusterError; WrongInternalTopic where Java would refuse a
        topic too."""
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

        offsets_partitions = await ensured(offsets, storage.offsets)
        status_partitions = await ensured(statuses, storage.statuses)
        await ensured(configs, storage.configs)
        return cls(
            source_offsets=SourceOffsets(target, storage.offsets.name, flow, partitions=offsets_partitions),
            status_partitions=status_partitions,
        )
