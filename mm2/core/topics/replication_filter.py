"""Decides which topics a flow replicates, and why not the others (Java: MirrorSourceConnector.shouldReplicateTopic)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from mm2.core.naming.names import Flow
from mm2.core.policies import ReplicationPolicy


class TopicVerdict(Enum):
    """Whether a source topic is replicated; the value is the message to show."""

    REPLICATED = "it is replicated"
    INTERNAL = "it is internal to Kafka or MirrorMaker"
    CYCLE = "it was replicated from the target of this flow, directly or through other clusters"
    NOT_SELECTED = "topics and topics.exclude do not select it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationFilter:
    """The topics that one flow replicates.

    ``aliases`` are those of its clusters in topic names. ``selects`` is the topic filter (topics, topics.exclude).
    ``replicate_heartbeats`` is heartbeats.replication.enabled: heartbeats topics are then replicated even if
    ``selects`` excludes them.
    """

    aliases: Flow
    policy: ReplicationPolicy
    selects: Callable[[str], bool]
    replicate_heartbeats: bool = True

    def verdict(self, topic: str) -> TopicVerdict:
        """Return the verdict on one source topic. Reasons that no setting can change take precedence."""
        if self.policy.is_internal_topic(topic):
            return TopicVerdict.INTERNAL
        if self._is_cycle(topic):
            return TopicVerdict.CYCLE
        if self.selects(topic) or (self.replicate_heartbeats and self.policy.is_heartbeats_topic(topic)):
            return TopicVerdict.REPLICATED
        return TopicVerdict.NOT_SELECTED

    def replicates(self, topic: str) -> bool:
        """Return whether the verdict on ``topic`` is REPLICATED."""
        return self.verdict(topic) is TopicVerdict.REPLICATED

    def _is_cycle(self, topic: str) -> bool:
        names = (topic, *self.policy.upstream_topics(topic))
        return any(self.policy.topic_source(name) == self.aliases.target for name in names)
