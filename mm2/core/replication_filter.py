"""Which topics of the source a flow replicates, and why the others are left (mm2-compat §3.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from mm2.core.names import Flow
from mm2.core.policies import ReplicationPolicy


class Verdict(Enum):
    """What becomes of a source topic; the value is the sentence to show."""

    REPLICATED = "it is replicated"
    INTERNAL = "it is internal to Kafka or MirrorMaker"
    CYCLE = "it was replicated from the target of this flow, directly or over other clusters"
    NOT_SELECTED = "topics and topics.exclude do not select it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationFilter:
    """The choice of topics of one flow.

    ``selects`` is the topic filter (topics, topics.exclude). ``replicate_heartbeats`` is
    heartbeats.replication.enabled: heartbeats topics then go along even where ``selects`` refuses them.
    """

    flow: Flow
    policy: ReplicationPolicy
    selects: Callable[[str], bool]
    replicate_heartbeats: bool = True

    def verdict(self, topic: str) -> Verdict:
        """Judge one source topic. Of several reasons against it the one that no setting can change comes first."""
        if self.policy.is_internal_topic(topic):
            return Verdict.INTERNAL
        if self._is_cycle(topic):
            return Verdict.CYCLE
        if self.selects(topic) or (self.replicate_heartbeats and self.policy.is_heartbeats_topic(topic)):
            return Verdict.REPLICATED
        return Verdict.NOT_SELECTED

    def replicates(self, topic: str) -> bool:
        """True when `verdict` says so."""
        return self.verdict(topic) is Verdict.REPLICATED

    def _is_cycle(self, topic: str) -> bool:
        names = (topic, *self.policy.upstream_topics(topic))
        return any(self.policy.topic_source(name) == self.flow.target for name in names)
