"""``mm2 status``: what flows do, from the REST interface of one of their nodes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from cyclopts import Parameter
from rich.console import Group, RenderableType
from rich.text import Text

from mm2.cli.node_address import node_context, node_urls
from mm2.cli.node_client import fetch_flows, first_answering, read_flows
from mm2.cli.node_rows import node_rows
from mm2.cli.pace import LOOK_AGAIN_S, Pace
from mm2.cli.parameters import Node, Watch
from mm2.cli.screen import show_live, show_once
from mm2.cli.tables import counted, number, rate_text, state_text, table
from mm2.cli.trouble import DONE, UsageError
from mm2.core.lease import TaskState
from mm2.rest.shapes import CoverageShape, FlowShape, TopicShape
from mm2.rest.troubles import troubles

WHOLE_FLOW = ""
"""What is paused, where it is not some topics."""


def status(
    node: Node,
    /,
    *,
    watch: Watch = False,
    json: Annotated[bool, Parameter(negative=(), show_default=False, help="Print GET /flows as it is.")] = False,
) -> int:
    """Print the flows of the node, or GET /flows as it is. Raises CommandError when the node does not answer."""
    if watch and json:
        raise UsageError("--watch and --json do not go together: use one of them")
    urls, context = node_urls(node), node_context(node)
    pace = Pace(time.monotonic)

    def fetch() -> tuple[str, bytes]:
        return first_answering(urls, lambda url: (url, fetch_flows(url, context)))

    def look() -> RenderableType:
        url, body = fetch()
        flows = read_flows(body, url)
        pace.take(flows)
        return status_view(flows, pace, asked=None if "://" in node else url)

    if json:
        sys.stdout.write(fetch()[1].decode() + "\n")
    elif watch:
        show_live(look)
    else:
        url, body = fetch()
        flows = read_flows(body, url)
        if any(_copies(flow) for flow in flows):
            pace.take(flows)
            time.sleep(LOOK_AGAIN_S)
        show_once(look)
    return DONE


def status_view(flows: Sequence[FlowShape], pace: Pace, *, asked: str | None = None) -> RenderableType:
    """A heading and tables of nodes and topics for each flow, and below it everything that is wrong with it. ``asked``:
    the URL that was found in a file."""
    parts: list[RenderableType] = []
    for flow in flows:
        parts.append(_heading(flow))
        if flow.members:
            parts += [_nodes(flow, pace), Text()]
        if flow.topics:
            parts.append(_topics(flow, pace))
        parts += [Text(f"  {remark}", style="yellow") for remark in _remarks(flow)]
        parts += [Text(f"  ! {complaint}", style="red") for complaint in _complaints(flow)]
        parts.append(Text())
    if not parts:
        parts = [Text("the node has no flows"), Text()]
    return Group(*parts[:-1], *([] if asked is None else [Text(f"asked {asked}", style="dim")]))


def _copies(flow: FlowShape) -> bool:
    return any(
        one.state is TaskState.RUNNING and one.position >= 0 for topic in flow.topics for one in topic.partitions
    )


def _remarks(flow: FlowShape) -> Iterator[str]:
    """What is as somebody wanted it, or will be in a moment."""
    if WHOLE_FLOW in flow.paused:
        yield "paused: the whole flow"
    elif flow.paused:
        yield f"paused: {', '.join(flow.paused)}"
    moving = [counted(counts.moving, what.removesuffix("s")) for what, counts in flow.coverage.items() if counts.moving]
    if moving:
        yield f"on their way to another node: {', '.join(moving)}"


def _complaints(flow: FlowShape) -> Iterator[str]:
    """A sentence for everything that is wrong with a flow, and for every loss."""
    yield from map(str, troubles(flow))
    for what, counts in flow.coverage.items():
        yield from _coverage(what.removesuffix("s"), counts)
    for loss in flow.losses:
        lost = f"offsets {loss.first} to {loss.until - 1} are lost: {loss.reason}"
        yield f"topic {loss.topic} partition {loss.partition}: {lost}"


def _coverage(what: str, counts: CoverageShape) -> Iterator[str]:
    if counts.uncovered:
        yield f"run by nobody: {counted(counts.uncovered, what)}"
    if counts.doubled:
        yield f"run by more than one: {counted(counts.doubled, what)}"
    if counts.stray:
        yield f"run though they should not be: {counted(counts.stray, what)}"


def _heading(flow: FlowShape) -> RenderableType:
    rest = "  heartbeats only" if not flow.enabled else f"  leader {flow.leader or 'none'}  epoch {flow.epoch}"
    return Text.assemble((flow.flow, "bold"), "  ", state_text(flow.state), rest)


def _nodes(flow: FlowShape, pace: Pace) -> RenderableType:
    shown = table("node", "", "tasks", "#partitions", "#records/s", "#lag records", "#lanes", "release", "url")
    for row in node_rows(flow, pace):
        shown.add_row(
            row.node,
            Text(row.role, style="yellow" if row.role == "leaves" else "dim"),
            row.tasks or "-",
            f"{row.partitions:,}",
            rate_text(row.records_per_second),
            number(row.lag_records),
            "-" if row.lanes is None else str(row.lanes),
            row.release or "-",
            Text(row.url or "-", style="dim"),
        )
    return shown


def _topics(flow: FlowShape, pace: Pace) -> RenderableType:
    shown = table(
        "topic",
        "remote topic",
        "state",
        "#partitions",
        "#written",
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


def _sums(flow: str, topic: TopicShape, pace: Pace) -> Iterable[str]:
    known = [partition for partition in topic.partitions if partition.lag_records >= 0]
    if not known:
        return ("-",) * 5
    rates = [pace.rate((flow, topic.topic, partition.partition)) for partition in known]
    moved = [rate for rate in rates if rate is not None]
    return (
        f"{sum(partition.end_offset for partition in known):,}",
        f"{sum(partition.position for partition in known):,}",
        rate_text(sum(moved) if moved else None),
        f"{sum(partition.lag_records for partition in known):,}",
        f"{max(partition.lag_seconds for partition in known):,.1f}",
    )
