"""Heartbeats as clusters show them: what arrived where and over which clusters, and what should have."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mm2.cli.direct import ANSWER_MS, impatient, reach, reason, rules_of
from mm2.client.upstream import sources
from mm2.config.flow_clients import ClientRole
from mm2.config.settings import FlowSettings, NodeSettings
from mm2.core.formats import FormatError, Heartbeat
from mm2.core.heartbeat_paths import HeartbeatFlow, HeartbeatPlace, expected_heartbeats
from mm2.core.names import Flow
from mm2.core.policies import ReplicationPolicy
from mm2.kafka.cluster import Cluster
from mm2.kafka.compacted_log import CompactedLog
from mm2.kafka.errors import ClusterError

LATE_AFTER_INTERVALS = 3
"""One may be under way and one lost to a change of leader; a third is missed."""

LOOKED_AT = (1_000, 100_000)
"""Offsets at the end of a topic to look at: minutes, and where a heartbeat is not among them a day. A topic that is
written once a second keeps 600,000 until it is compacted after a week, and nobody wants to wait for those."""


class Arrival(StrEnum):
    """How it is with the heartbeats of one flow at one place."""

    ON_TIME = "on time"
    LATE = "late"
    MISSING = "missing"
    NOT_KNOWN = "not known"
    NOT_IN_FILE = "not in the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHeartbeats:
    """The heartbeats at one place. ``passed``: the clusters they came through, nearest first. ``timestamp_ms`` of the
    last one, None for none."""

    place: HeartbeatPlace
    passed: tuple[str, ...]
    timestamp_ms: int | None
    age_seconds: float | None
    arrival: Arrival


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHeartbeats:
    """What one cluster says. ``trouble``: why it cannot be asked, or not about everything.

    ``topics``: its heartbeats topics with the clusters they came through, nearest first; ``expected_topics`` the same
    for those it should have. ``unread``: topics it has and does not let us read. ``last``: epoch ms.
    """

    cluster: str
    answered: bool
    trouble: str | None = None
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
    """What arrived at one cluster, and what should have. ``intervals``: seconds between two heartbeats of a flow."""
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
    """Each upstream cluster and the shortest way from it: the aliases passed, nearest first, itself last.

    ``ways`` are those of a cluster's heartbeats topics; the length of a way is MirrorClient's hops.
    """
    found: dict[str, tuple[str, ...]] = {}
    for way in sorted(ways):
        for hops, alias in enumerate(way, start=1):
            if alias not in found or hops < len(found[alias]):
                found[alias] = way[:hops]
    return dict(sorted(found.items()))


# -- asking


async def ask_clusters(
    settings: NodeSettings, aliases: Iterable[str], expected: Collection[HeartbeatPlace]
) -> list[ClusterHeartbeats]:
    """What the clusters say of heartbeats, each for itself."""
    return list(await asyncio.gather(*(_ask(settings, alias, expected) for alias in aliases)))


async def _ask(settings: NodeSettings, alias: str, expected: Collection[HeartbeatPlace]) -> ClusterHeartbeats:
    flow = _flow_at(settings, alias)
    role = (
        ClientRole.CHECKPOINTS_TARGET_CONSUMER if flow.flow.target == alias else ClientRole.OFFSET_SYNCS_SOURCE_CONSUMER
    )
    async with impatient(flow.clients.of(role)) as cluster:
        trouble = await reach(cluster)
        if trouble is None:
            try:
                return await _read(cluster, alias, _policies(settings, alias), expected)
            except ClusterError as error:
                trouble = error
    why = f"cluster {alias} cannot be asked: {reason(alias, trouble)}"
    return ClusterHeartbeats(cluster=alias, answered=False, trouble=why)


async def _read(
    cluster: Cluster, alias: str, policies: Sequence[ReplicationPolicy], expected: Collection[HeartbeatPlace]
) -> ClusterHeartbeats:
    """Raises ClusterError when the cluster does not tell its topics."""
    topics = _ways([name for name, info in (await cluster.metadata(None)).topics.items() if info.partitions], policies)
    last: dict[HeartbeatPlace, int] = {}
    unread: dict[str, ClusterError] = {}
    for name in topics:
        try:
            last |= await _last_heartbeats(cluster, alias, name, expected)
        except ClusterError as error:
            unread[name] = error
    trouble = "; ".join(f"topic {name} of {alias} cannot be read: {error}" for name, error in unread.items())
    return ClusterHeartbeats(
        cluster=alias,
        answered=True,
        trouble=trouble or None,
        topics=topics,
        expected_topics=_ways([one.topic for one in expected if one.cluster == alias], policies),
        unread=frozenset(unread),
        last=last,
    )


async def _last_heartbeats(
    cluster: Cluster, alias: str, topic: str, expected: Collection[HeartbeatPlace]
) -> dict[HeartbeatPlace, int]:
    """The newest heartbeat of each flow, as far back as `LOOKED_AT` while one that should be there is not found."""
    wanted = {place for place in expected if (place.cluster, place.topic) == (alias, topic)}
    last: dict[HeartbeatPlace, int] = {}
    for offsets in LOOKED_AT:
        async for record in CompactedLog(cluster, topic, last=offsets).read_to_end(timeout_ms=ANSWER_MS):
            try:
                beat = Heartbeat.decode(record.key, record.value)
            except FormatError:
                continue  # no heartbeat says nothing about flows; the node counts and tells what it skips
            place = HeartbeatPlace(cluster=alias, topic=topic, flow=Flow(beat.source, beat.target))
            last[place] = max(beat.timestamp_ms, last.get(place, beat.timestamp_ms))
        if wanted <= last.keys():
            break
    return last


def _ways(names: Iterable[str], policies: Sequence[ReplicationPolicy]) -> dict[str, tuple[str, ...]]:
    """The heartbeats topics among ``names`` with the clusters they came through, by the first policy that knows one."""
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(names):
        policy = next((one for one in policies if one.is_heartbeats_topic(name)), None)
        if policy is not None:
            found[name] = tuple(sources(policy, name))
    return found


# -- the file


def heartbeats_of_file(settings: NodeSettings) -> frozenset[HeartbeatPlace]:
    """Where heartbeats arrive when all flows of the file work."""
    return expected_heartbeats(
        [
            HeartbeatFlow(filter=rules_of(flow), emits=flow.heartbeats, replicates=flow.enabled)
            for flow in settings.flows
        ]
    )


def clusters_in_flows(settings: NodeSettings) -> list[str]:
    """The clusters that a flow begins or ends in; only those are described."""
    used = {alias for flow in settings.flows for alias in (flow.flow.source, flow.flow.target)}
    return [alias for alias in settings.clusters if alias in used]


def _flow_at(settings: NodeSettings, alias: str) -> FlowSettings:
    """A flow whose clients know the cluster; one that ends there if there is one."""
    touching = [flow for flow in settings.flows if alias in (flow.flow.source, flow.flow.target)]
    return min(touching, key=lambda flow: flow.flow.target != alias)


def _policies(settings: NodeSettings, alias: str) -> list[ReplicationPolicy]:
    """Those that named the cluster's topics: of the flows that end there, else of all."""
    into = [flow.policy for flow in settings.flows if flow.flow.target == alias]
    return into or [flow.policy for flow in settings.flows]


def intervals(settings: NodeSettings) -> dict[Flow, int]:
    """Seconds between two heartbeats of each flow."""
    return {flow.flow: flow.heartbeat.emit_heartbeats_interval_seconds for flow in settings.flows}
