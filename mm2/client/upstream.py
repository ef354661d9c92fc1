"""The clusters that a topic was replicated through, from its name (Kafka's MirrorClient and ReplicationPolicy)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mm2.core.policies import ReplicationPolicy


def sources(policy: ReplicationPolicy, topic: str) -> Iterator[str]:
    """Yield the aliases that ``topic`` was replicated through, nearest first.

    Ends at the first repeated alias, which occurs under policies that do not reveal cycles.
    """
    seen: set[str] = set()
    upstream: str | None = topic
    while upstream is not None and (source := policy.topic_source(upstream)) is not None and source not in seen:
        yield source
        seen.add(source)
        upstream = policy.upstream_topic(upstream)


def hops(policy: ReplicationPolicy, topics: Iterable[str], alias: str) -> int | None:
    """Return the shortest path from ``alias``: 1 for a direct source, None if ``topics`` show no path."""
    ways = (list(sources(policy, topic)) for topic in topics)
    return min((way.index(alias) + 1 for way in ways if alias in way), default=None)
