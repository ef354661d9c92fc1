"""What the table shows, worked out from two looks at the nodes' /flows and /metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.lab.node import Node

FLOW = "A->B"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTotals:
    """One remote topic's counters at one moment. ``latency_seconds`` is the sum over ``latency_batches``."""

    state: str = "WAITING"
    records: float = 0
    bytes: float = 0
    lag: float = 0
    latency_seconds: float = 0
    latency_batches: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A node at one moment, ``at`` seconds of a monotonic clock; topics by their name on the source. ``tasks``: those
    it runs; ``leads``: whether it leads the flow."""

    at: float
    state: str
    reasons: tuple[str, ...]
    topics: Mapping[str, TopicTotals]
    heartbeats: float
    passed_through: float
    batches: float
    tasks: tuple[str, ...] = ()
    leads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One topic in the table; ``latency_ms`` is the mean since the look before, None when no batch arrived."""

    topic: str
    state: str
    written: int
    replicated: int
    lag: int
    megabytes_per_second: float
    latency_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The whole table. ``pass_through`` is a share of all batches, None before the first."""

    state: str
    reasons: tuple[str, ...]
    rows: tuple[Row, ...]
    total: Row
    heartbeats: int
    pass_through: float | None
    nodes: tuple[str, ...] = ()


def look(node: Node, at: float) -> Look | None:
    """What the node shows now; None when it does not answer."""
    metrics, flow = node.get("/metrics"), node.flow(FLOW)
    own = own_id(flow, node.url) if flow else ""
    if metrics is None or not flow:
        return None
    samples = [one for family in text_string_to_metric_families(metrics.text) for one in family.samples]
    batches = [one for one in samples if one.name == "mm2_source_batches_total"]
    return Look(
        at=at,
        state=flow["state"],
        reasons=tuple(flow["reasons"]),
        topics={one["topic"]: _totals(samples, one["remote_topic"], one["state"]) for one in flow["topics"]},
        heartbeats=_sum(one for one in samples if one.name == "mm2_heartbeats_total"),
        passed_through=_sum(one for one in batches if one.labels["path"] == "pass-through"),
        batches=_sum(batches),
        tasks=tuple(_short(task["id"]) for task in flow["tasks"] if task["node"] == own),
        leads=bool(own) and flow["leader"] == own,
    )


def together(looks: Iterable[Look], ended: Iterable[Look], at: float) -> Look | None:
    """What several nodes show, as one; None while none of them answers. ``ended``: the last looks at nodes that ended:
    what they counted was copied."""
    alive, past = list(looks), list(ended)
    if not alive:
        return None
    leading = next((one for one in alive if one.leads), alive[0])
    everyone = alive + [_only_counted(one) for one in past]
    names = {topic for one in everyone for topic in one.topics}
    return Look(
        at=at,
        state=leading.state,
        reasons=leading.reasons,
        topics={
            name: _together((one.topics[name] for one in everyone if name in one.topics), _state(leading, name))
            for name in names
        },
        heartbeats=sum(one.heartbeats for one in everyone),
        passed_through=sum(one.passed_through for one in everyone),
        batches=sum(one.batches for one in everyone),
    )


def _only_counted(one: Look) -> Look:
    """Without what was true only while the node lived."""
    return replace(one, topics={name: replace(totals, lag=0) for name, totals in one.topics.items()})


def _state(leading: Look, topic: str) -> str:
    return leading.topics[topic].state if topic in leading.topics else "WAITING"


def _short(task: str) -> str:
    """``slot 3`` for MirrorSourceConnector-3."""
    connector, _, number = task.rpartition("-")
    return {"MirrorSourceConnector": f"slot {number}", "MirrorCheckpointConnector": "checkpoints"}.get(
        connector, "heartbeats"
    )


def own_id(flow: Mapping[str, Any], url: str) -> str:
    """The node id of the member that is reached at ``url``."""
    return next((str(one["node"]) for one in flow.get("members", ()) if one["url"] == url), "")


def picture(before: Look, now: Look, written: Mapping[str, int], nodes: tuple[str, ...] = ()) -> Picture:
    """Totals as of ``now``, rates since ``before``. ``nodes``: a line about each, where there are several."""
    seconds = max(now.at - before.at, 1e-9)  # the first picture compares a look with itself
    old = {topic: before.topics.get(topic, TopicTotals()) for topic in written}
    new = {topic: now.topics.get(topic, TopicTotals()) for topic in written}
    whole = (_together(old.values(), before.state), _together(new.values(), now.state))
    return Picture(
        state=now.state,
        reasons=now.reasons,
        rows=tuple(_row(topic, count, old[topic], new[topic], seconds) for topic, count in written.items()),
        total=_row("all", sum(written.values()), *whole, seconds),
        heartbeats=int(now.heartbeats),
        pass_through=now.passed_through / now.batches if now.batches else None,
        nodes=nodes,
    )


def _totals(samples: Iterable[Sample], remote_topic: str, state: str) -> TopicTotals:
    own = [one for one in samples if one.labels.get("topic") == remote_topic]

    def total(name: str) -> float:
        return _sum(one for one in own if one.name == name)

    return TopicTotals(
        state=state,
        records=total("mm2_source_records_total"),
        bytes=total("mm2_source_bytes_total"),
        lag=total("mm2_source_lag_records"),
        latency_seconds=total("mm2_source_replication_latency_seconds_sum"),
        latency_batches=total("mm2_source_replication_latency_seconds_count"),
    )


def _row(topic: str, written: int, before: TopicTotals, now: TopicTotals, seconds: float) -> Row:
    batches = now.latency_batches - before.latency_batches
    return Row(
        topic=topic,
        state=now.state,
        written=written,
        replicated=int(now.records),
        lag=int(now.lag),
        megabytes_per_second=(now.bytes - before.bytes) / seconds / 1e6,
        latency_ms=(now.latency_seconds - before.latency_seconds) / batches * 1e3 if batches > 0 else None,
    )


def _together(topics: Iterable[TopicTotals], state: str) -> TopicTotals:
    found = list(topics)
    return TopicTotals(
        state=state,
        records=sum(one.records for one in found),
        bytes=sum(one.bytes for one in found),
        lag=sum(one.lag for one in found),
        latency_seconds=sum(one.latency_seconds for one in found),
        latency_batches=sum(one.latency_batches for one in found),
    )


def _sum(samples: Iterable[Sample]) -> float:
    return sum(one.value for one in samples)
