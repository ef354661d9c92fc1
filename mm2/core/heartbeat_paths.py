"""Which heartbeats the flows of a file write and carry along (mm2-compat §5.1).

A flow A->B writes heartbeats A->B into ``heartbeats`` of B. A flow B->C takes that topic along as ``B.heartbeats``, and
so on: where a heartbeat arrives, every flow on its way works.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from mm2.core.names import Flow
from mm2.core.replication_filter import ReplicationFilter


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class HeartbeatPlace:
    """Heartbeats of ``flow`` in ``topic`` of ``cluster``."""

    cluster: str
    topic: str
    flow: Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatFlow:
    """What a flow does about heartbeats: ``emits`` its own into the target, ``replicates`` those of the source."""

    filter: ReplicationFilter
    emits: bool
    replicates: bool


def expected_heartbeats(flows: Collection[HeartbeatFlow]) -> frozenset[HeartbeatPlace]:
    """Where heartbeats have to arrive when all flows work."""
    fresh = {
        HeartbeatPlace(cluster=one.filter.flow.target, topic=one.filter.policy.heartbeats_topic(), flow=one.filter.flow)
        for one in flows
        if one.emits
    }
    found = set(fresh)
    for _ in flows:  # no way that passes no flow twice is longer; names of other policies may not show a cycle
        fresh = {carried for place in fresh for one in flows if (carried := _carried(place, one)) is not None} - found
        found |= fresh
    return frozenset(found)


def _carried(place: HeartbeatPlace, by: HeartbeatFlow) -> HeartbeatPlace | None:
    flow, policy = by.filter.flow, by.filter.policy
    if not by.replicates or place.cluster != flow.source or not policy.is_heartbeats_topic(place.topic):
        return None
    if not by.filter.replicates(place.topic):
        return None
    return replace(place, cluster=flow.target, topic=policy.format_remote_topic(flow.source, place.topic))
