"""The contents of the demo's table, computed from two reads of the nodes' /flows and /metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.demo.queried import QuerySample
from tests.lab.node import Node

FLOW = "A->B"
PREFIX = "A."  # of remote topics


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTotals:
    """One topic at one moment: counters, and the lag of the partitions that it is known of, which those in ``unknown``
    are not; ``lag`` None: of none. ``latency_seconds`` is the sum over ``latency_batches``. ``query`` is its name,
    ``rows_in`` the records that passed through it, with those that it dropped."""

    state: str = "WAITING"
    records: float = 0
    bytes: float = 0
    lag: int | None = None
    unknown: int = 0
    latency_seconds: float = 0
    latency_batches: float = 0
    query: str | None = None
    rows_in: float = 0
    rows_dropped: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A node at one moment, ``at`` seconds of a monotonic clock; topics by their names on the source. Counters are the
    node's own; states and lags are the flow's. ``tasks``: those that the node runs; ``leads``: whether it leads."""

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
class QueryRows:
    """How many records went into a query, came out of it, and were dropped by it."""

    query: str
    in_: int
    out: int
    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One topic in the table. ``lag`` and ``unknown`` as in `TopicTotals`; ``latency_ms`` is the mean since an
    earlier look, None if no batch arrived. ``rows`` of a topic with a query."""

    topic: str
    state: str
    written: int
    replicated: int
    lag: int | None
    unknown: int
    megabytes_per_second: float
    latency_ms: float | None
    rows: QueryRows | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The whole table. ``pass_through`` is a fraction of all batches, None before the first."""

    state: str
    reasons: tuple[str, ...]
    rows: tuple[Row, ...]
    total: Row
    heartbeats: int
    pass_through: float | None
    nodes: tuple[str, ...] = ()
    samples: tuple[QuerySample, ...] = ()


def look(node: Node, at: float) -> Look | None:
    """Return the state of the node; None if it does not answer."""
    metrics, flow = node.get("/metrics"), node.flow(FLOW)
    own = own_id(flow, node.url) if flow else ""
    if metrics is None or not flow:
        return None
    samples = [one for family in text_string_to_metric_families(metrics.text) for one in family.samples]
    batches = [one for one in samples if one.name == "mm2_source_batches_total"]
    topics = {one["topic"]: _flow_totals(one) for one in flow["topics"]}
    copied = {one.labels["topic"] for one in samples if one.name == "mm2_source_records_total"}
    return Look(
        at=at,
        state=flow["state"],
        reasons=tuple(flow["reasons"]),
        topics={
            name: _with_counters(topics.get(name, TopicTotals()), samples, PREFIX + name)
            for name in topics.keys() | {one.removeprefix(PREFIX) for one in copied}
        },
        heartbeats=_sum(one for one in samples if one.name == "mm2_heartbeats_total"),
        passed_through=_sum(one for one in batches if one.labels["path"] == "pass-through"),
        batches=_sum(batches),
        tasks=tuple(_short(task["id"]) for task in flow["tasks"] if task["node"] == own),
        leads=bool(own) and flow["leader"] == own,
    )


def together(looks: Iterable[Look], ended: Iterable[Look], at: float) -> Look | None:
    """Return the states of several nodes as one; None if none of them answers. ``ended``: the last states of nodes that
    ended or did not answer, whose counters still count."""
    alive = list(looks)
    if not alive:
        return None
    leading = next((one for one in alive if one.leads), alive[0])
    everyone = [*alive, *ended]
    names = {topic for one in everyone for topic in one.topics}
    return Look(
        at=at,
        state=leading.state,
        reasons=leading.reasons,
        topics={
            name: _counted(
                leading.topics.get(name, TopicTotals()), [one.topics[name] for one in everyone if name in one.topics]
            )
            for name in names
        },
        heartbeats=sum(one.heartbeats for one in everyone),
        passed_through=sum(one.passed_through for one in everyone),
        batches=sum(one.batches for one in everyone),
    )


def _short(task: str) -> str:
    """Return ``source task 3`` for MirrorSourceConnector-3."""
    connector, _, number = task.rpartition("-")
    return {"MirrorSourceConnector": f"source task {number}", "MirrorCheckpointConnector": "checkpoints"}.get(
        connector, "heartbeats"
    )


def own_id(flow: Mapping[str, Any], url: str) -> str:
    """Return the node ID of the member whose URL is ``url``."""
    return next((str(one["node"]) for one in flow.get("members", ()) if one["url"] == url), "")


def picture(before: Look, now: Look, written: Mapping[str, int], nodes: tuple[str, ...] = ()) -> Picture:
    """Return the totals at ``now``, and rates since ``before``. ``nodes``: a line for each, if there are several."""
    seconds = max(now.at - before.at, 1e-9)  # the first picture compares a state with itself
    old = {topic: before.topics.get(topic, TopicTotals()) for topic in written}
    new = {topic: now.topics.get(topic, TopicTotals()) for topic in written}
    whole = (_sum_of(old.values(), before.state), _sum_of(new.values(), now.state))
    return Picture(
        state=now.state,
        reasons=now.reasons,
        rows=tuple(_row(topic, count, old[topic], new[topic], seconds) for topic, count in written.items()),
        total=_row("all", sum(written.values()), *whole, seconds),
        heartbeats=int(now.heartbeats),
        pass_through=now.passed_through / now.batches if now.batches else None,
        nodes=nodes,
    )


def _flow_totals(topic: Mapping[str, Any]) -> TopicTotals:
    """Return the state and the lag of a topic of /flows."""
    lags = [one["lag_records"] for one in topic["partitions"] if one["lag_records"] is not None]
    return TopicTotals(
        state=topic["state"],
        lag=sum(lags) if lags else None,
        unknown=len(topic["partitions"]) - len(lags),
        query=topic["query"],
    )


def _with_counters(totals: TopicTotals, samples: Iterable[Sample], remote_topic: str) -> TopicTotals:
    own = [one for one in samples if one.labels.get("topic") == remote_topic]

    def total(name: str) -> float:
        return _sum(one for one in own if one.name == name)

    return replace(
        totals,
        records=total("mm2_source_records_total"),
        bytes=total("mm2_source_bytes_total"),
        latency_seconds=total("mm2_source_replication_latency_seconds_sum"),
        latency_batches=total("mm2_source_replication_latency_seconds_count"),
        rows_in=total("mm2_source_query_rows_in_total"),
        rows_dropped=total("mm2_source_query_rows_dropped_total"),
    )


def _row(topic: str, written: int, before: TopicTotals, now: TopicTotals, seconds: float) -> Row:
    batches = now.latency_batches - before.latency_batches
    return Row(
        topic=topic,
        state=now.state,
        written=written,
        replicated=int(now.records),
        lag=now.lag,
        unknown=now.unknown,
        megabytes_per_second=(now.bytes - before.bytes) / seconds / 1e6,
        latency_ms=(now.latency_seconds - before.latency_seconds) / batches * 1e3 if batches > 0 else None,
        rows=_query_rows(now),
    )


def _query_rows(topic: TopicTotals) -> QueryRows | None:
    if topic.query is None:
        return None
    rows, dropped = int(topic.rows_in), int(topic.rows_dropped)
    return QueryRows(query=topic.query, in_=rows, out=rows - dropped, dropped=dropped)


def _sum_of(topics: Iterable[TopicTotals], state: str) -> TopicTotals:
    """Return all topics as one."""
    found = list(topics)
    lags = [one.lag for one in found if one.lag is not None]
    unknown = sum(one.unknown for one in found) + (len(found) - len(lags))  # a topic without any is unknown, too
    whole = TopicTotals(state=state, lag=sum(lags) if lags else None, unknown=unknown)
    return _counted(whole, found)


def _counted(totals: TopicTotals, found: Sequence[TopicTotals]) -> TopicTotals:
    """Return ``totals`` with the sums of the counters in ``found``."""
    return replace(
        totals,
        records=sum(one.records for one in found),
        bytes=sum(one.bytes for one in found),
        latency_seconds=sum(one.latency_seconds for one in found),
        latency_batches=sum(one.latency_batches for one in found),
        rows_in=sum(one.rows_in for one in found),
        rows_dropped=sum(one.rows_dropped for one in found),
    )


def _sum(samples: Iterable[Sample]) -> float:
    return sum(one.value for one in samples)
