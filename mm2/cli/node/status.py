"""``mm2 status``: the state of flows, from the REST interface of one of their nodes."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Group, RenderableType
from rich.text import Text

from mm2.cli.errors import DONE, UsageError
from mm2.cli.node.lag_report import require_topics
from mm2.cli.node.node_address import node_context, node_urls
from mm2.cli.node.node_client import FLOWS_RESPONSE, fetch_clusters, fetch_flows, first_answering, read_flows
from mm2.cli.node.partition import partition_status
from mm2.cli.node.progress_rates import LOOK_AGAIN_S, ReplicationRate
from mm2.cli.terminal.screen import show_live, show_once
from mm2.cli.terminal.tables import counted, duration, lower_bound, number, rate_text, state_text, table
from mm2.core.coordination.pauses import WHOLE_FLOW, about_pause
from mm2.core.lanes.losses import extent
from mm2.core.lanes.task_states import TaskState
from mm2.core.observation.retention import is_at_risk
from mm2.core.observation.unreplicated import Unreplicated
from mm2.core.printable import printable_json
from mm2.core.problems.times_in_words import utc_text
from mm2.node.status.last_known_lag import last_known_lag
from mm2.node.status.pace_limit import shown_limit
from mm2.node.status.status_model import (
    AssignmentAuditStatus,
    ClusterStatus,
    CopyAgainStatus,
    FlowStatus,
    MemberStatus,
    PartitionStatus,
    TaskStatus,
    TopicStatus,
)
from mm2.rest.merge.flow_problems import flow_problems, topic_reasons

_RISKS_NAMED = 5
"""Topics whose records the source soon deletes that are named: one cause can concern thousands."""

MOST_LOSSES = 10
"""Losses that are shown one by one: half a screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node. ``role``: ``leader``, ``no lanes``, ``former`` (member), or empty. ``lag_records`` is the sum over
    partitions with a known lag, None without any; ``unknown`` counts the others. ``lanes`` None: not a member."""

    node: str
    role: str
    tasks: str
    partitions: int
    records_per_second: float | None
    lag_records: int | None
    unknown: int
    lanes: int | None
    release: str
    url: str


def node_rows(flow: FlowStatus, pace: ReplicationRate) -> list[NodeRow]:
    """Return the members in their order, then other nodes that run tasks or partitions."""
    parts: dict[str, list[tuple[str, PartitionStatus]]] = {}
    for topic in flow.topics:
        for partition in topic.partitions:
            parts.setdefault(partition.node, []).append((topic.topic, partition))
    tasks: dict[str, list[TaskStatus]] = {}
    for task in flow.tasks:
        tasks.setdefault(task.node, []).append(task)
    others = sorted({*tasks, *parts} - {member.node for member in flow.members} - {""})
    nodes: list[MemberStatus | str] = [*flow.members, *others]
    return [_row(flow, node, tasks, parts, pace) for node in nodes]


def _row(
    flow: FlowStatus,
    node: MemberStatus | str,
    tasks: Mapping[str, Sequence[TaskStatus]],
    parts: Mapping[str, Sequence[tuple[str, PartitionStatus]]],
    pace: ReplicationRate,
) -> NodeRow:
    name, member = (node, None) if isinstance(node, str) else (node.node, node)
    copied = parts.get(name, ())
    lags = [one.lag_records for _, one in copied if one.lag_records is not None]
    return NodeRow(
        node=name,
        role=_role(member),
        tasks=_tasks(tasks.get(name, ())),
        partitions=len(copied),
        records_per_second=pace.rate(*((flow.flow, topic, one.partition) for topic, one in copied)),
        lag_records=sum(lags) if lags else None,
        unknown=len(copied) - len(lags),
        lanes=member.capacity if member is not None else None,
        release=member.version if member is not None else "",
        url=member.url if member is not None else "",
    )


_NO_LANES = "no lanes"
"""Of a node that offers none: it starts or drains, or Spark does not run them."""


def _role(member: MemberStatus | None) -> str:
    if member is None:
        return "former"
    if member.leads:
        return "leader"
    return _NO_LANES if member.capacity == 0 else ""


def _tasks(tasks: Iterable[TaskStatus]) -> str:
    """Return the tasks by kind, with the state of those that do not run: ``source 0, 2 WAITING  checkpoint 0``."""
    kinds: dict[str, list[str]] = {}
    for task in tasks:
        state = "" if task.state is TaskState.RUNNING else f" {task.state}"
        kinds.setdefault(task.kind, []).append(task.id.rpartition("-")[2] + state)
    return "  ".join(f"{kind} {', '.join(numbers)}" for kind, numbers in kinds.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What to show: one flow, these topics, and only what has a problem."""

    flow: str | None = None
    topics: tuple[str, ...] = ()
    problems: bool = False

    def of(self, flows: Sequence[FlowStatus]) -> list[FlowStatus]:
        """Return the part of ``flows`` to show. Raises UsageError for names that are not there."""
        names = [flow.flow for flow in flows]
        if self.flow is not None and self.flow not in names:
            raise UsageError(f"no flow {self.flow!r} on this node; its flows: {', '.join(names)}")
        found = [flow for flow in flows if self.flow in (None, flow.flow)]
        if self.topics:
            require_topics(self.topics, found)
            found = [_of_topics(flow, self.topics) for flow in found]
            found = [flow for flow in found if flow.topics]
        if self.problems:
            found = [_with_problems(flow) for flow in found if any(_complaints(flow))]
        return found


def _of_topics(flow: FlowStatus, topics: Collection[str]) -> FlowStatus:
    """Return the flow with these topics only, without reasons and losses of others."""
    others = topic_reasons(flow)
    return replace(
        flow,
        topics=tuple(topic for topic in flow.topics if topic.topic in topics),
        losses=tuple(loss for loss in flow.losses if loss.topic in topics),
        copying_again=tuple(one for one in flow.copying_again if one.topic in topics),
        reasons=tuple(reason for reason in flow.reasons if reason not in others),
    )


def _with_problems(flow: FlowStatus) -> FlowStatus:
    """Return the flow without what has no problem."""
    ill = frozenset({TaskState.FAILED, TaskState.WAITING})
    parts = (
        replace(
            topic, partitions=tuple(one for one in topic.partitions if one.error or one.state in ill or _expires(one))
        )
        for topic in flow.topics
    )
    return replace(
        flow,
        topics=tuple(topic for topic in parts if topic.partitions or topic.error),
        tasks=tuple(task for task in flow.tasks if task.error or task.state in ill),
        members=(),
    )


def status(
    node: str,
    *,
    flow: str | None = None,
    topic: Sequence[str] = (),
    partition: str | None = None,
    problems: bool = False,
    watch: bool = False,
    json: bool = False,
) -> int:
    """Print the flows of the node, or the response of GET /flows; with ``partition``, that partition of the topic.

    ``flow``, ``topic`` and ``problems`` leave out everything else. Raises CommandError if the node does not answer,
    UsageError for a flow or topic that it does not have.
    """
    if watch and json:
        raise UsageError("--watch and --json cannot be combined: use one of them")
    if partition is not None:
        if len(topic) != 1 or problems:
            raise UsageError("one partition needs --topic T --partition P, without --problems")
        return partition_status(node, topic[0], partition, flow=flow, watch=watch, json=json)
    chosen = Chosen(flow=None if flow is None else flow.replace(" ", ""), topics=tuple(topic), problems=problems)
    urls, context = node_urls(node), node_context(node)
    pace = ReplicationRate(time.monotonic)

    def fetch() -> tuple[str, bytes]:
        return first_answering(urls, lambda url: (url, fetch_flows(url, context)))

    def look() -> RenderableType:
        url, body = fetch()
        flows = read_flows(body, url)
        pace.take(flows)
        clusters = fetch_clusters(url, context)
        of_flows = " of the flows" if any(_unreachable(clusters)) else ""
        return status_view(
            chosen.of(flows),
            pace,
            clusters=clusters,
            asked=None if "://" in node else url,
            none=f"no problems{of_flows}" if problems and flows else "no flows on this node",
        )

    if json:
        url, body = fetch()
        shown = body if chosen == Chosen() else FLOWS_RESPONSE.dump_json(tuple(chosen.of(read_flows(body, url))))
        sys.stdout.write(printable_json(shown.decode()) + "\n")
    elif watch:
        show_live(look)
    else:
        url, body = fetch()
        flows = read_flows(body, url)
        if any(_copies(flow) for flow in chosen.of(flows)):
            pace.take(flows)
            time.sleep(LOOK_AGAIN_S)
        show_once(look)
    return DONE


def status_view(
    flows: Sequence[FlowStatus],
    pace: ReplicationRate,
    *,
    clusters: Sequence[ClusterStatus] = (),
    asked: str | None = None,
    none: str = "no flows on this node",
) -> RenderableType:
    """Return a heading and tables of nodes and topics for each flow, and below them its problems.

    ``clusters``: those of the node that was asked. ``asked``: its URL, if it comes from a file. ``none``: what
    is shown without flows.
    """
    parts: list[RenderableType] = [Text(f"! {one}", style="red") for one in _unreachable(clusters)]
    if parts:
        parts.append(Text())
    for flow in flows:
        parts.append(_heading(flow))
        if flow.members:
            parts += [_nodes(flow, pace), Text()]
        if flow.topics:
            parts.append(_topics(flow, pace))
        parts += [Text(f"  {remark}", style="yellow") for remark in _remarks(flow)]
        parts += [Text(f"  ! {complaint}", style="red") for complaint in _complaints(flow)]
        parts.append(Text())
    if not flows:
        parts += [Text(none), Text()]
    return Group(*parts[:-1], *([] if asked is None else [Text(f"from {asked}", style="dim")]))


def _copies(flow: FlowStatus) -> bool:
    return any(one.state is TaskState.RUNNING and one.lag_known for topic in flow.topics for one in topic.partitions)


def _remarks(flow: FlowStatus) -> Iterator[str]:
    """Yield what is intended, or will be over in a moment."""
    if WHOLE_FLOW in flow.paused:
        yield f"paused: the whole flow{_about(flow, WHOLE_FLOW)}"
    elif flow.paused:
        yield f"paused: {', '.join(f'{topic}{_about(flow, topic)}' for topic in flow.paused)}"
    elif flow.state is TaskState.PAUSED:
        yield "paused; since when is unknown"
    yield from _copied_again(flow)
    if flow.max_bytes_per_second is not None:
        yield f"limited to {flow.max_bytes_per_second:,} bytes/s (mm2.max.bytes.per.second)"
    if flow.unreplicated is not None:
        yield f"if {flow.source} died now: {_missing(flow.unreplicated, flow.target)}"
    if (last := last_known_lag(flow)) is not None:
        yield f"lag unknown of {counted(last.partitions, 'partition')}; last known: {last}"
    if (limit := shown_limit(flow)) is not None:
        yield limit
    moving = [
        counted(counts.moving, what.removesuffix("s"))
        for what, counts in flow.assignment_audit.items()
        if counts.moving
    ]
    if dealt_with := [loss for loss in flow.losses if not loss.is_unaccepted]:
        what = "loss" if len(dealt_with) == 1 else "losses"
        yield f"{len(dealt_with)} {what} accepted or intended, see mm2 losses"
    if (partly := _exact_in_part(flow)) is not None:
        yield partly
    if moving:
        yield f"moving to another node: {', '.join(moving)}"


def _exact_in_part(flow: FlowStatus) -> str | None:
    """Return of how many partitions the exact offset map begins after the log start; None: none, or unknown."""
    partitions = {
        topic.topic: in_part
        for topic in flow.topics
        if (in_part := sum(one.exact_to_start is False for one in topic.partitions))
    }
    if not partitions:
        return None
    first = min(partitions, key=lambda topic: (-partitions[topic], topic))
    others = f" and {counted(len(partitions) - 1, 'more topic')}" if len(partitions) > 1 else ""
    count = counted(sum(partitions.values()), "partition")
    return f"not all positions translate exactly: the map begins after the log start in {count} of {first}{others}"


def _copied_again(flow: FlowStatus) -> Iterator[str]:
    """Yield the topics that an operator has copied again, with what is left of that."""
    positions = {(topic.topic, one.partition): one.position for topic in flow.topics for one in topic.partitions}
    topics: dict[str, list[CopyAgainStatus]] = {}
    for one in flow.copying_again:
        topics.setdefault(one.topic, []).append(one)
    for topic, parts in topics.items():
        left = unknown = 0
        for one in parts:
            position = positions.get((topic, one.partition))
            if one.until is None or position is None:
                unknown += 1
            else:
                left += max(0, one.until - max(position, one.first))
        request = f"copying {topic} again since {_utc(parts[0].since)} (by {parts[0].by})"
        some = f"unknown of {counted(unknown, 'partition')}" if unknown else ""
        known = "" if unknown == len(parts) else f"{counted(left, 'offset')} to go"
        yield f"{request}: {', '.join(filter(None, (known, some)))}"


def _about(flow: FlowStatus, paused: str) -> str:
    return about_pause(paused, flow.paused_since, flow.paused_by)


def _missing(found: Unreplicated, target: str) -> str:
    """Return what the target would lack: ``1,234 records, 3.2 s not on B``."""
    if found.unknown_partitions == found.partitions:
        last = ""
        if found.last_records is not None and found.observed is not None:
            last = f"; last known: {counted(found.last_records, 'record')} at {_utc(found.observed)}"
        return f"unknown what is not on {target}{last}"
    age = "" if not found.records else ", unknown since when" if found.seconds is None else f", {found.seconds:,.1f} s"
    text = f"{counted(found.records, 'record')}{age} not on {target}"
    if found.is_complete:
        return text
    return f"at least {text} (unknown of {counted(found.unknown_partitions, 'partition')})"


def _unreachable(clusters: Iterable[ClusterStatus]) -> Iterator[str]:
    for one in clusters:
        if one.reachable is False:
            since = "the node started" if one.answered is None else _utc(one.answered)
            yield f"{one.alias} has not answered since {since}: {one.error}"


def _utc(ms: int) -> str:
    return utc_text(ms / 1_000)


def _at_risk(flow: FlowStatus) -> Iterator[str]:
    """Yield what the source soon deletes although it is not copied, the most urgent first."""
    found = []
    for topic in flow.topics:
        margins = [one.retention_margin_seconds or 0.0 for one in topic.partitions if _expires(one)]
        if margins:
            found.append((min(margins), topic.topic))
    found.sort()
    for seconds, name in found[:_RISKS_NAMED]:
        yield (
            f"topic {name}: {flow.source} deletes records that are not copied in {duration(seconds)}, by its retention"
            if seconds
            else f"topic {name}: {flow.source} deletes records that are not copied, by its retention"
        )
    if len(found) > _RISKS_NAMED:
        yield f"{flow.source} soon deletes records of {counted(len(found) - _RISKS_NAMED, 'more topic')}"


def _expires(one: PartitionStatus) -> bool:
    """Return whether the source soon deletes records of the partition that are not copied."""
    margin = one.retention_margin_seconds
    return margin is not None and is_at_risk(margin, one.lag_seconds)


def _complaints(flow: FlowStatus) -> Iterator[str]:
    """Yield a message for every problem of a flow, and for losses that no operator has accepted or intended."""
    yield from map(str, flow_problems(flow))
    yield from _at_risk(flow)
    for what, counts in flow.assignment_audit.items():
        yield from _coverage(what.removesuffix("s"), counts)
    unaccepted = [loss for loss in flow.losses if loss.is_unaccepted]
    for loss in unaccepted[:MOST_LOSSES]:
        yield f"topic {loss.topic} partition {loss.partition}: {extent(loss)}: {loss.reason}"
    if len(unaccepted) > MOST_LOSSES:
        yield f"and {len(unaccepted) - MOST_LOSSES} more losses, see mm2 losses"


def _coverage(what: str, counts: AssignmentAuditStatus) -> Iterator[str]:
    if counts.unassigned:
        yield f"unassigned: {counted(counts.unassigned, what)}"
    if counts.duplicated:
        yield f"running more than once: {counted(counts.duplicated, what)}"
    if counts.unexpected:
        yield f"running unexpectedly: {counted(counts.unexpected, what)}"


def _heading(flow: FlowStatus) -> RenderableType:
    rest = "  heartbeats only" if not flow.enabled else f"  leader {flow.leader or 'none'}  epoch {flow.epoch}"
    return Text.assemble((flow.flow, "bold"), "  ", state_text(flow.state), rest)


def _nodes(flow: FlowStatus, pace: ReplicationRate) -> RenderableType:
    shown = table("node", "", "tasks", "#partitions", "#records/s", "#lag records", "#lanes", "release", "url")
    for row in node_rows(flow, pace):
        shown.add_row(
            row.node,
            Text(row.role, style="yellow" if row.role == _NO_LANES else "dim"),
            row.tasks or "-",
            f"{row.partitions:,}",
            rate_text(row.records_per_second),
            lower_bound(number(row.lag_records), exact=not row.unknown),
            "-" if row.lanes is None else str(row.lanes),
            row.release or "-",
            Text(row.url or "-", style="dim"),
        )
    return shown


def _topics(flow: FlowStatus, pace: ReplicationRate) -> RenderableType:
    shown = table(
        "topic",
        "remote topic",
        "state",
        "#partitions",
        "#end offset",
        "#position",
        "#records/s",
        "#lag records",
        "#lag seconds",
    )
    for topic in flow.topics:
        shown.add_row(
            topic.topic,
            topic.remote_topic,
            state_text(topic.state),
            str(len(topic.partitions)),
            *_sums(flow.flow, topic, pace),
        )
    return shown


def _sums(flow: str, topic: TopicStatus, pace: ReplicationRate) -> Iterable[str]:
    """Return the cells with sums over the partitions. Offsets of a partition whose node died are those seen last."""
    known = [partition for partition in topic.partitions if partition.lag_known]
    ends = [found for one in topic.partitions if (found := pace.furthest(flow, topic.topic, one)) is not None]
    ages = [partition.lag_seconds for partition in known if partition.lag_seconds is not None]
    age = f"{max(ages):,.1f}" if ages else "-"
    cells = (
        f"{sum(end for _, end in ends):,}" if ends else "-",
        f"{sum(position for position, _ in ends):,}" if ends else "-",
        rate_text(pace.rate(*((flow, topic.topic, partition.partition) for partition in known))),
        f"{sum(partition.lag_records or 0 for partition in known):,}" if known else "-",
    )
    return (
        *(lower_bound(cell, exact=len(known) == len(topic.partitions)) for cell in cells),
        lower_bound(age, exact=len(ages) == len(topic.partitions)),
    )
