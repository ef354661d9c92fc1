"""What a node says about itself in its log: a few lines when it is up, then one line a flow and minute."""

from __future__ import annotations

from collections.abc import Sequence

from mm2.node.published import FlowStatus, NodeStatus, PartitionStatus
from mm2.rest.troubles import troubles

NAMED_TOPICS = 5
"""Topics the banner names: enough to see whether the filter does what was meant."""


def banner(status: NodeStatus, *, file: str, rest: Sequence[str]) -> list[str]:
    """The lines a node starts with. ``file`` is its configuration, ``rest`` the URLs of its REST interface."""
    lines = [f"mm2 {status.version}, node {status.node_id}, {file}"]
    lines += [f"  {flow.flow}  {_found(flow)}" for flow in status.flows]
    shown = ", ".join(f"{url} (/health /flows /metrics /docs)" for url in rest)
    lines.append(f"  REST      {shown or 'none: set listeners = http://127.0.0.1:8083 to have one'}")
    lines.append(f"  Spark UI  {status.spark_ui or 'not up'}")
    return lines


def flow_lines(previous: NodeStatus, current: NodeStatus, seconds: float) -> list[str]:
    """`flow_line` for every flow of ``current``."""
    before = {flow.flow: flow for flow in previous.flows}
    return [flow_line(before.get(flow.flow), flow, seconds) for flow in current.flows]


def flow_line(previous: FlowStatus | None, current: FlowStatus, seconds: float) -> str:
    """How one flow did during the ``seconds`` between two published states: rate, lag and what troubles it now.

    ``A->B RUNNING: 12,345 records/s, 4.5 MB/s, lag 1,200 records (0.8 s), 12 topics; last error: …``
    """
    if not current.enabled:
        sent = current.heartbeats_total - (previous.heartbeats_total if previous else 0)
        parts = ["heartbeats only", f"{max(0, sent)} sent"]
    else:
        records, size = _copied(previous, current)
        parts = [
            f"{_rate(records, seconds)} records/s",
            f"{_bytes(size / seconds if seconds > 0 else 0)}/s",
            _lag(current),
            _counted(len(current.topics), "topic"),
        ]
    return f"{current.flow} {current.state}: {', '.join(parts)}{_last_error(current)}"


def _found(flow: FlowStatus) -> str:
    if not flow.enabled:
        return "heartbeats only"
    if not flow.topics:
        return f"no topics yet: {flow.reasons[0]}" if flow.reasons else "no topics yet"
    names = ", ".join(topic.topic for topic in flow.topics[:NAMED_TOPICS])
    more = ", …" if len(flow.topics) > NAMED_TOPICS else ""
    partitions = sum(len(topic.partitions) for topic in flow.topics)
    return f"{_counted(len(flow.topics), 'topic')}, {_counted(partitions, 'partition')}: {names}{more}"


def _copied(previous: FlowStatus | None, current: FlowStatus) -> tuple[int, int]:
    """Records and bytes copied in between. A partition that is new counts whole, one that is gone not at all."""
    before = _by_partition(previous) if previous else {}
    records = size = 0
    for key, partition in _by_partition(current).items():
        earlier = before.get(key)
        records += partition.records_total - (earlier.records_total if earlier else 0)
        size += partition.bytes_total - (earlier.bytes_total if earlier else 0)
    return max(0, records), max(0, size)


def _by_partition(flow: FlowStatus) -> dict[tuple[str, int], PartitionStatus]:
    return {(topic.topic, partition.partition): partition for topic in flow.topics for partition in topic.partitions}


def _lag(flow: FlowStatus) -> str:
    known = [partition for partition in _by_partition(flow).values() if partition.lag_known]
    if not known:
        return "lag not known yet" if flow.topics else "lag 0 records"
    records = sum(partition.lag_records for partition in known)
    seconds = max(partition.lag_seconds for partition in known)
    return f"lag {_counted(records, 'record')}" + (f" ({seconds:,.1f} s)" if records else "")


def _last_error(flow: FlowStatus) -> str:
    found = troubles(flow)
    if not found:
        return ""
    more = f" (and {len(found) - 1} more: see /health)" if len(found) > 1 else ""
    return f"; last error: {found[0]}{more}"


def _rate(count: int, seconds: float) -> str:
    rate = count / seconds if seconds > 0 else 0.0
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1_000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1_000
    return f"{size:.1f} GB"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
