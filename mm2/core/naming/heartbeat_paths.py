"""Finds the heartbeats that the flows of a file emit and replicate.

Flow A->B emits heartbeats A->B to ``heartbeats`` on B. Flow B->C replicates that topic as ``B.heartbeats``, and so on.
A heartbeat that arrives shows that every flow on its path works.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from mm2.core.naming.names import Flow
from mm2.core.topics.replication_filter import ReplicationFilter


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class HeartbeatPlace:
    """Heartbeats of ``flow`` in ``topic`` of ``cluster``. ``flow`` has the aliases that the heartbeats contain."""

    cluster: str
    topic: str
    flow: Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatFlow:
    """How ``flow`` handles heartbeats: ``emits`` its own to the target, ``replicates`` those of the source."""

    flow: Flow
    filter: ReplicationFilter
    emits: bool
    replicates: bool


def expected_heartbeats(flows: Collection[HeartbeatFlow]) -> frozenset[HeartbeatPlace]:
    """Return where heartbeats arrive if all flows work."""
    fresh = {
        HeartbeatPlace(cluster=one.flow.target, topic=one.filter.policy.heartbeats_topic(), flow=one.filter.aliases)
        for one in flows
        if one.emits
    }
    found = set(fresh)
    for _ in flows:  # a path without a repeated flow is not longer; other policies' names may not show a cycle
        fresh = {carried for place in fresh for one in flows if (carried := _carried(place, one)) is not None} - found
        found |= fresh
    return frozenset(found)


def _carried(place: HeartbeatPlace, by: HeartbeatFlow) -> HeartbeatPlace | None:
    flow, aliases, policy = by.flow, by.filter.aliases, by.filter.policy
    if not by.replicates or place.cluster != flow.source or not policy.is_heartbeats_topic(place.topic):
        return None
    if not by.filter.replicates(place.topic):
        return None
    return replace(place, cluster=flow.target, topic=policy.format_remote_topic(aliases.source, place.topic))
