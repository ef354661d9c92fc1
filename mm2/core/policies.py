"""Replication policies: the names of remote topics, and the origin of a topic derived from its name.

The rules are those of Java 4.0 and later, quirks included: remote topics created by a Java MirrorMaker must be
recognised under the same names, and its internal topics must not be replicated.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from mm2.core.plugins import Configurable

MOST_HOPS = 250
"""Limit of `ReplicationPolicy.upstream_topics`. A name has at most 249 characters, so a policy that removes an alias
in each step ends earlier; one that adds to the name would never end."""


class ReplicationPolicy(Configurable, Protocol):
    """Names of remote and internal topics; Java's interface of the same name with its defaults.

    A user-defined policy inherits from this class and implements the first three methods (docs/how-to/extending.md).
    ``alias`` is a cluster alias of mm2.properties, ``topic`` a name on the cluster being examined.
    """

    @abstractmethod
    def format_remote_topic(self, alias: str, topic: str) -> str:
        """Return the name on the target of ``topic`` replicated from cluster ``alias``."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """Return the alias ``topic`` was replicated from, or None if it is not a remote topic."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of ``topic`` on the cluster it was replicated from, or None if it is not a remote topic."""

    def upstream_topics(self, topic: str) -> Iterator[str]:
        """Yield the names of ``topic`` on the clusters it was replicated through, nearest first.

        Ends at the first repeated name, and after `MOST_HOPS`.
        """
        seen = {topic}
        upstream = self.upstream_topic(topic)
        while upstream is not None and upstream not in seen and len(seen) <= MOST_HOPS:
            yield upstream
            seen.add(upstream)
            upstream = self.upstream_topic(upstream)

    def original_topic(self, topic: str) -> str:
        """Return the name where the records were first written; ``topic`` itself if it is not a remote topic."""
        for upstream in self.upstream_topics(topic):
            topic = upstream
        return topic

    def heartbeats_topic(self) -> str:
        return "heartbeats"

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the name of the offset-syncs topic; ``alias`` is the cluster that does not contain it."""
        return f"mm2-offset-syncs.{alias}.internal"

    def checkpoints_topic(self, alias: str) -> str:
        """Return the name of the topic on the target with checkpoints of groups of cluster ``alias``."""
        return f"{alias}.checkpoints.internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(".checkpoints.internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Return whether ``topic`` is internal to MirrorMaker (KIP-1074: not every name that ends in internal)."""
        return is_reserved_topic(topic) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Return whether ``topic`` is never replicated, whatever the filters select.

        Differs from Java: `is_reserved_topic` applies under every separator. Java with separator ``_`` would replicate
        mm2-offsets.A.internal, because the names of the worker's topics always contain dots.
        """
        return self.is_mm2_internal_topic(topic) or is_reserved_topic(topic) or topic.startswith(("__", "."))

    def alias_breaks_names(self, alias: str) -> bool:
        """Return whether remote topics of cluster ``alias`` cannot be recognised by name, so cycles go undetected.

        For example us.west under the separator ``.``: us.west.orders reads as west.orders from us.
        """
        return self.upstream_topic(self.format_remote_topic(alias, "topic")) != "topic"

    def alias_breaks_heartbeats(self, alias: str) -> bool:
        """Return the same for heartbeats topics, which are renamed even by policies that keep names."""
        heartbeats = self.heartbeats_topic()
        return self.upstream_topic(self.format_remote_topic(alias, heartbeats)) != heartbeats


def is_reserved_topic(topic: str) -> bool:
    """Return whether ``topic`` is reserved for MirrorMaker under any policy and separator: mm2….internal."""
    return topic.startswith("mm2") and topic.endswith(".internal")


@dataclass(frozen=True, kw_only=True)
class DefaultReplicationPolicy(ReplicationPolicy):
    """Remote topics are named ``<alias><separator><topic>``, as in A.orders.

    ``separator`` is replication.policy.separator. ``internal_separator_enabled`` is
    replication.policy.internal.topic.separator.enabled (KIP-949): false keeps dots in the names of internal topics.
    """

    separator: str = "."
    internal_separator_enabled: bool = True

    def format_remote_topic(self, alias: str, topic: str) -> str:
        return f"{alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the alias in ``topic``, split as in Java: at every separator, without empty parts at the end.

        ``.x`` has the empty alias, ``a..b`` has a, ``heartbeats.`` has none. An empty separator splits between all
        characters.
        """
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
    """Remote topics keep their names; for one-way replication and migrations, because names do not reveal cycles.

    ``source_alias`` is source.cluster.alias, or None outside of a flow. Heartbeats topics are renamed as by the default
    policy; as in Java, so is every topic whose name ends in heartbeats.
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
