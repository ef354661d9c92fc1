"""Status lines in a node's log: lines at startup, then one line per flow and minute."""

from __future__ import annotations

from collections.abc import Sequence

from mm2.core.lanes.task_states import TaskState
from mm2.node.status.last_known_lag import last_known_lag
from mm2.node.status.status_model import FlowStatus, NodeStatus
from mm2.rest.merge.flow_merge import own_share
from mm2.rest.merge.flow_problems import flow_problems, pause_of

NAMED_TOPICS = 5
"""Number of topics in the lines at startup, enough to see whether the topic filter works as intended."""


def first_line(version: str, node_id: str, file: str) -> str:
    """Return the line with which the log of a node begins. ``file`` is the configuration file."""
    return f"mm2 {version}, node {node_id}, {file}"


def start_lines(status: NodeStatus, *, rest: Sequence[str]) -> list[str]:
    """Return what has been found once the node runs. ``rest`` has the URLs of the REST interface."""
    lines = [f"node {status.node_id} has started:"]
    lines += [f"  {flow.flow}  {_found(flow)}" for flow in status.flows]
    shown = ", ".join(f"{url} (/health /flows /metrics /docs)" for url in rest)
    lines.append(f"  REST      {shown or 'none (set listeners = http://127.0.0.1:8083 to enable it)'}")
    lines.append(f"  Spark UI  {status.spark_ui or 'not available yet'}")
    others = (one for one in status.engines if one.spark_ui not in (None, status.spark_ui))
    lines += [f"  Spark UI  {one.spark_ui} ({one.engine})" for one in others]
    return lines


def flow_lines(previous: NodeStatus, current: NodeStatus, seconds: float) -> list[str]:
    """Return `flow_line` for every flow of ``current``: for the part of it that this node copies."""
    before = {flow.flow: flow for flow in previous.flows}
    return [flow_line(before.get(flow.flow), flow, seconds) for flow in own_share(current)]


def flow_line(previous: FlowStatus | None, current: FlowStatus, seconds: float) -> str:
    """Return rate, lag and current problem of one flow, for the ``seconds`` between two published states.

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
            _counted(len(current.topics), "topic") if _topics_known(current) else "topics unknown",
        ]
    pause = pause_of(current)
    paused = "" if pause is None else f"; {pause}"
    return f"{current.flow} {current.state}: {', '.join(parts)}{paused}{_last_error(current)}"


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
    """Return the records and bytes that this node copied in between, whichever partitions moved."""
    if previous is None or previous.records_total > current.records_total:  # the flow was removed and added again
        return current.records_total, current.bytes_total
    return current.records_total - previous.records_total, current.bytes_total - previous.bytes_total


def _lag(flow: FlowStatus) -> str:
    """Return the lag; a lower bound while that of some partitions is unknown, with the last known one."""
    partitions = [partition for topic in flow.topics for partition in topic.partitions]
    known = [partition for partition in partitions if partition.lag_known]
    records = sum(partition.lag_records or 0 for partition in known)
    before = last_known_lag(flow)
    last = "" if before is None else f" (last known: {before})"
    if len(known) < len(partitions) and not records:
        return f"lag unknown{last}"
    if not partitions and not _topics_known(flow):
        return "lag unknown"
    seconds = max((partition.lag_seconds or 0.0 for partition in known), default=0.0)
    bound = "" if len(known) == len(partitions) else "at least "
    return f"lag {bound}{_counted(records, 'record')}" + (f" ({seconds:,.1f} s)" if records else "") + last


def _topics_known(flow: FlowStatus) -> bool:
    """Return whether none is the number of topics, if there is none: a flow that does not run has not read them."""
    return bool(flow.topics) or flow.state in (TaskState.RUNNING, TaskState.PAUSED)


def _last_error(flow: FlowStatus) -> str:
    found = flow_problems(flow)
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
