"""Replication to a cluster, derived from its topic names (Kafka's MirrorClient)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from mm2.client.upstream import hops, sources
from mm2.core.policies import ReplicationPolicy


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The names of all topics of a cluster, interpreted by a replication policy."""

    topics: AbstractSet[str]
    policy: ReplicationPolicy

    def heartbeat_topics(self) -> set[str]:
        return {topic for topic in self.topics if self.policy.is_heartbeats_topic(topic)}

    def checkpoint_topics(self) -> set[str]:
        return {topic for topic in self.topics if self.policy.is_checkpoints_topic(topic)}

    def upstream_clusters(self) -> set[str]:
        return {alias for topic in self.heartbeat_topics() for alias in sources(self.policy, topic)}

    def replication_hops(self, alias: str) -> int | None:
        """Return 1 for a cluster that is replicated directly; None if no heartbeats of ``alias`` arrive."""
        return hops(self.policy, self.heartbeat_topics(), alias)

    def remote_topics(self, source: str | None) -> set[str]:
        """Return the remote topics of all sources, or only those directly from ``source``, without internal topics."""
        found = {topic: self.policy.topic_source(topic) for topic in self.topics}
        return {
            topic
            for topic, origin in found.items()
            if origin is not None and source in (None, origin) and not self.policy.is_internal_topic(topic)
        }
