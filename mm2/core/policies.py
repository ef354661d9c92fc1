"""Replication policies: how a topic is called on the cluster it is replicated to, and what a name says of its origin.

The rules are Java's of 4.0 and later, quirks included (mm2-compat §7), because remote topics that a Java MirrorMaker
made must be found again under the same names, and its internal topics must be left alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from mm2.core.plugins import Configurable

MOST_HOPS = 250
"""A name has at most 249 characters, so a policy that takes an alias off it each time ends before; one that adds to it
would never end."""


class ReplicationPolicy(Configurable, Protocol):
    """Names of remote and internal topics; Java's interface of the same name with its defaults.

    A policy of a user's own inherits from this class and answers the first three methods (docs/extending.md).
    ``alias`` is a cluster alias of mm2.properties, ``topic`` a name on the cluster at hand.
    """

    @abstractmethod
    def format_remote_topic(self, alias: str, topic: str) -> str:
        """The name on the target of ``topic`` replicated from cluster ``alias``."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """The alias ``topic`` was replicated from, None when it is no remote topic."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """The name ``topic`` has on the cluster it was replicated from, None when it is no remote topic."""

    def upstream_topics(self, topic: str) -> Iterator[str]:
        """The names of ``topic`` on the clusters it came through, nearest first; ends where a name comes back, and
        after `MOST_HOPS`."""
        seen = {topic}
        upstream = self.upstream_topic(topic)
        while upstream is not None and upstream not in seen and len(seen) <= MOST_HOPS:
            yield upstream
            seen.add(upstream)
            upstream = self.upstream_topic(upstream)

    def original_topic(self, topic: str) -> str:
        """The name where the records were first written; ``topic`` itself when it is no remote topic."""
        for upstream in self.upstream_topics(topic):
            topic = upstream
        return topic

    def heartbeats_topic(self) -> str:
        return "heartbeats"

    def offset_syncs_topic(self, alias: str) -> str:
        """The offset-syncs topic; ``alias`` is the cluster it does not live on."""
        return f"mm2-offset-syncs.{alias}.internal"

    def checkpoints_topic(self, alias: str) -> str:
        """The topic on the target with checkpoints of groups of cluster ``alias``."""
        return f"{alias}.checkpoints.internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(".checkpoints.internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """True for topics MirrorMaker keeps for itself (KIP-1074: no longer for every name ending in internal)."""
        return is_reserved_topic(topic) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """True for topics that are never replicated, whatever the filters say.

        One step past Java: `is_reserved_topic` holds under every separator. Java with separator ``_`` would replicate
        mm2-offsets.A.internal, as the worker's topics always keep their dots.
        """
        return self.is_mm2_internal_topic(topic) or is_reserved_topic(topic) or topic.startswith(("__", "."))

    def alias_breaks_names(self, alias: str) -> bool:
        """True when remote topics of cluster ``alias`` cannot be recognised by their names: no cycle would be seen.

        So it is for us.west under the separator ``.``: us.west.orders reads as west.orders from us.
        """
        return self.upstream_topic(self.format_remote_topic(alias, "topic")) != "topic"

    def alias_breaks_heartbeats(self, alias: str) -> bool:
        """True when that is so for heartbeats at least, which also policies that keep names do rename."""
        heartbeats = self.heartbeats_topic()
        return self.upstream_topic(self.format_remote_topic(alias, heartbeats)) != heartbeats


def is_reserved_topic(topic: str) -> bool:
    """True for names that belong to MirrorMaker under any policy and separator: mm2….internal."""
    return topic.startswith("mm2") and topic.endswith(".internal")


@dataclass(frozen=True, kw_only=True)
class DefaultReplicationPolicy(ReplicationPolicy):
    """Remote topics are called ``<alias><separator><topic>``, as in A.orders.

    ``separator`` is replication.policy.separator. ``internal_separator_enabled`` is
    replication.policy.internal.topic.separator.enabled (KIP-949): false keeps dots in the names of internal topics.
    """

    separator: str = "."
    internal_separator_enabled: bool = True

    def format_remote_topic(self, alias: str, topic: str) -> str:
        return f"{alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Java splits at every separator and forgets empty parts at the end: ``.x`` came from the empty alias,
        ``a..b`` from a, ``heartbeats.`` from nowhere. An empty separator splits between all characters."""
        if not self.separator:
            return topic[0] if len(topic) > 1 else None
        source, _, rest = topic.partition(self.separator)
        return source if any(rest.split(self.separator)) else None

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    @property
    def _internal_separator(self) -> str:
        return self.separator if self.internal_separator_enabled else "."

    def offset_syncs_topic(self, alias: str) -> str:
        separator = self._internal_separator
        return f"mm2-offset-syncs{separator}{alias}{separator}internal"

    def checkpoints_topic(self, alias: str) -> str:
        separator = self._internal_separator
        return f"{alias}{separator}checkpoints{separator}internal"

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(self.checkpoints_topic(""))

    def is_mm2_internal_topic(self, topic: str) -> bool:
        ours = topic.startswith("mm2") and topic.endswith(f"{self._internal_separator}internal")
        return ours or self.is_checkpoints_topic(topic)


@dataclass(frozen=True, kw_only=True)
class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Remote topics keep their names; for one-way replication and migrations, as no cycle can be seen in a name.

    ``source_alias`` is source.cluster.alias, None where no flow is at hand. Heartbeats are renamed as by the default
    policy, and so is, as in Java, every topic whose name only ends in heartbeats.
    """

    source_alias: str | None = None

    def _looks_like_heartbeats(self, topic: str) -> bool:
        return topic.endswith(self.heartbeats_topic())

    def format_remote_topic(self, alias: str, topic: str) -> str:
        if self._looks_like_heartbeats(topic):
            return super().format_remote_topic(alias, topic)
        return topic

    def topic_source(self, topic: str) -> str | None:
        if self._looks_like_heartbeats(topic):
            return super().topic_source(topic)
        return self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        if self._looks_like_heartbeats(topic):
            return super().upstream_topic(topic)
        return topic
