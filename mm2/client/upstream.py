"""The clusters that a topic came through, by its name (mm2-compat §5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mm2.core.policies import ReplicationPolicy


def sources(policy: ReplicationPolicy, topic: str) -> Iterator[str]:
    """The aliases ``topic`` came through, nearest first; ends where one comes back, as it can under policies that do
    not show cycles."""
    seen: set[str] = set()
    upstream: str | None = topic
    while upstream is not None and (source := policy.topic_source(upstream)) is not None and source not in seen:
        yield source
        seen.add(source)
        upstream = policy.upstream_topic(upstream)


def hops(policy: ReplicationPolicy, topics: Iterable[str], alias: str) -> int | None:
    """The shortest way from ``alias`` to here: 1 for a neighbour, None where ``topics`` show no way."""
    ways = (list(sources(policy, topic)) for topic in topics)
    return min((way.index(alias) + 1 for way in ways if alias in way), default=None)
