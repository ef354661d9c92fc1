"""Heartbeats read from the clusters: where they arrived and over which clusters, and where they are expected."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mm2.cli.clusters.cluster_access import ANSWER_MS, connection_error, reason, short_timeout_cluster
from mm2.client.mirror_client import sources
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings, NodeSettings
from mm2.core.naming.heartbeat_paths import HeartbeatFlow, HeartbeatPlace, expected_heartbeats
from mm2.core.naming.names import Flow
from mm2.core.policies import ReplicationPolicy
from mm2.core.wire.formats import FormatError, Heartbeat
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.compacted_log import CompactedLog

LATE_AFTER_INTERVALS = 3
"""One can be in flight and one delayed by a change of leader; a third one is late."""

LOOKED_AT = (1_000, 100_000)
"""Offsets to read from the end of a topic: minutes, and if a heartbeat is not among them, a day. A topic with a record
per second keeps 600,000 until it is compacted after a week, and reading all of them would take too long."""


class Arrival(StrEnum):
    """State of the heartbeats of one flow at one place."""

    ON_TIME = "on time"
    LATE = "late"
    MISSING = "missing"
    NOT_KNOWN = "unknown"
    NOT_IN_FILE = "not in the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHeartbeats:
    """The heartbeats at one place. ``passed``: the clusters they came through, nearest first. ``timestamp_ms``: of the
    last heartbeat, None without any."""

    place: HeartbeatPlace
    passed: tuple[str, ...]
    timestamp_ms: int | None
    age_seconds: float | None
    arrival: Arrival


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHeartbeats:
    """The heartbeats of one cluster. ``failure``: why it is unreachable, or why some topics could not be read.

    ``topics``: its heartbeats topics with the clusters they came through, nearest first; ``expected_topics`` the same
    for those it should have. ``unread``: topics that could not be read. ``last``: epoch ms.
    """

    cluster: str
    answered: bool
    failure: str | None = None
    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    expected_topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    last: Mapping[HeartbeatPlace, int] = field(default_factory=dict)


def judge(
    found: ClusterHeartbeats,
    expected: Iterable[HeartbeatPlace],
    *,
    intervals: Mapping[Flow, int],
    now_ms: float,
) -> list[SeenHeartbeats]:
    """Return the heartbeats that arrived at one cluster, or should have. ``intervals``: seconds between heartbeats."""
    wanted = {place for place in expected if place.cluster == found.cluster}
    ways = {**found.expected_topics, **found.topics}
    seen = []
    for place in sorted(wanted | found.last.keys(), key=lambda one: (ways.get(one.topic, ()), one)):
        timestamp = found.last.get(place)
        age = None if timestamp is None else max(0.0, (now_ms - timestamp) / 1000)  # clocks differ
        if age is None:
            arrival = Arrival.NOT_KNOWN if place.topic in found.unread else Arrival.MISSING
        elif place not in wanted:
            arrival = Arrival.NOT_IN_FILE
        else:
            arrival = Arrival.LATE if age > LATE_AFTER_INTERVALS * intervals[place.flow] else Arrival.ON_TIME
        seen.append(
            SeenHeartbeats(
                place=place, passed=ways.get(place.topic, ()), timestamp_ms=timestamp, age_seconds=age, arrival=arrival
            )
        )
    return seen


def upstream_clusters(ways: Collection[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return each upstream cluster with the shortest path from it: the aliases passed, nearest first, itself last.

    ``ways`` are the paths of a cluster's heartbeats topics; the length of a path is the number of hops in MirrorClient.
    """
    found: dict[str, tuple[str, ...]] = {}
    for way in sorted(ways):
        for hops, alias in enumerate(way, start=1):
            if alias not in found or hops < len(found[alias]):
                found[alias] = way[:hops]
    return dict(sorted(found.items()))


# -- reading


async def ask_clusters(
    settings: NodeSettings, aliases: Iterable[str], expected: Collection[HeartbeatPlace]
) -> list[ClusterHeartbeats]:
    """Read the heartbeats of each cluster."""
    return list(await asyncio.gather(*(_ask(settings, alias, expected) for alias in aliases)))


async def _ask(settings: NodeSettings, alias: str, expected: Collection[HeartbeatPlace]) -> ClusterHeartbeats:
    flow = _flow_at(settings, alias)
    role = (
        ClientRole.CHECKPOINTS_TARGET_CONSUMER if flow.flow.target == alias else ClientRole.OFFSET_SYNCS_SOURCE_CONSUMER
    )
    async with short_timeout_cluster(flow.clients.of(role)) as cluster:
        failure = await connection_error(cluster)
        if failure is None:
            try:
                return await _read(cluster, alias, _policies(settings, alias), expected)
            except ClusterError as error:
                failure = error
    why = f"cluster {alias} is unreachable: {reason(alias, failure)}"
    return ClusterHeartbeats(cluster=alias, answered=False, failure=why)


async def _read(
    cluster: Cluster, alias: str, policies: Sequence[ReplicationPolicy], expected: Collection[HeartbeatPlace]
) -> ClusterHeartbeats:
    """Read the heartbeats of a cluster. Raises ClusterError if its topics cannot be listed."""
    topics = _ways([name for name, info in (await cluster.metadata(None)).topics.items() if info.partitions], policies)
    last: dict[HeartbeatPlace, int] = {}
    unread: dict[str, ClusterError] = {}
    for name in topics:
        try:
            last |= await _last_heartbeats(cluster, alias, name, expected)
        except ClusterError as error:
            unread[name] = error
    failure = "; ".join(f"failed to read topic {name} of {alias}: {error}" for name, error in unread.items())
    return ClusterHeartbeats(
        cluster=alias,
        answered=True,
        failure=failure or None,
        topics=topics,
        expected_topics=_ways([one.topic for one in expected if one.cluster == alias], policies),
        unread=frozenset(unread),
        last=last,
    )


async def _last_heartbeats(
    cluster: Cluster, alias: str, topic: str, expected: Collection[HeartbeatPlace]
) -> dict[HeartbeatPlace, int]:
    """Return the newest heartbeat of each flow; read further back (`LOOKED_AT`) while an expected one is missing."""
    wanted = {place for place in expected if (place.cluster, place.topic) == (alias, topic)}
    last: dict[HeartbeatPlace, int] = {}
    for offsets in LOOKED_AT:
        async for record in CompactedLog(cluster, topic, last=offsets).read_to_end(timeout_ms=ANSWER_MS):
            try:
                beat = Heartbeat.decode(record.key, record.value)
            except FormatError:
                continue  # not a heartbeat; the node counts and logs what it skips
            place = HeartbeatPlace(cluster=alias, topic=topic, flow=Flow(beat.source, beat.target))
            last[place] = max(beat.timestamp_ms, last.get(place, beat.timestamp_ms))
        if wanted <= last.keys():
            break
    return last


def _ways(names: Iterable[str], policies: Sequence[ReplicationPolicy]) -> dict[str, tuple[str, ...]]:
    """Return the heartbeats topics in ``names`` with the clusters they came through, by the first matching policy."""
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(names):
        policy = next((one for one in policies if one.is_heartbeats_topic(name)), None)
        if policy is not None:
            found[name] = tuple(sources(policy, name))
    return found


# -- the file


def heartbeats_of_file(settings: NodeSettings) -> frozenset[HeartbeatPlace]:
    """Return where heartbeats arrive if all flows of the file work."""
    return expected_heartbeats(
        [
            HeartbeatFlow(
                flow=flow.flow, filter=flow.replication_filter, emits=flow.heartbeats, replicates=flow.enabled
            )
            for flow in settings.flows
        ]
    )


def clusters_in_flows(settings: NodeSettings) -> list[str]:
    """Return the clusters that are the source or target of a flow; others have no client settings."""
    used = {alias for flow in settings.flows for alias in (flow.flow.source, flow.flow.target)}
    return [alias for alias in settings.clusters if alias in used]


def _flow_at(settings: NodeSettings, alias: str) -> FlowSettings:
    """Return a flow with client settings for the cluster, preferably one whose target it is."""
    touching = [flow for flow in settings.flows if alias in (flow.flow.source, flow.flow.target)]
    return min(touching, key=lambda flow: flow.flow.target != alias)


def _policies(settings: NodeSettings, alias: str) -> list[ReplicationPolicy]:
    """Return the policies that named the cluster's topics: of the flows into it, or without any, of all flows."""
    into = [flow.policy for flow in settings.flows if flow.flow.target == alias]
    return into or [flow.policy for flow in settings.flows]


def intervals(settings: NodeSettings) -> dict[Flow, int]:
    """Return the seconds between two heartbeats of each flow, by the aliases in its heartbeats."""
    return {flow.aliases: flow.heartbeat.emit_heartbeats_interval_seconds for flow in settings.flows}
