"""``mm2 status``: what a node's flows do, from its REST interface."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated

from cyclopts import Parameter
from rich.console import Group, RenderableType
from rich.text import Text

from mm2.cli.node_address import node_context, node_url
from mm2.cli.node_client import fetch_flows, read_flows
from mm2.cli.parameters import Node, Watch
from mm2.cli.screen import show_live, show_once
from mm2.cli.tables import state_text, table
from mm2.cli.trouble import DONE, UsageError
from mm2.rest.shapes import FlowShape, PartitionShape, TopicShape
from mm2.rest.troubles import troubles


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
    url, context = node_url(node), node_context(node)
    if json:
        sys.stdout.write(fetch_flows(url, context).decode() + "\n")
    else:
        (show_live if watch else show_once)(lambda: status_view(read_flows(fetch_flows(url, context), url)))
    return DONE


def status_view(flows: Iterable[FlowShape]) -> RenderableType:
    """A heading and a table for each flow, and below it everything that is wrong with it."""
    parts: list[RenderableType] = []
    for flow in flows:
        parts.append(_heading(flow))
        if flow.topics:
            parts.append(_table(flow.topics))
        parts += [Text(f"  ! {complaint}", style="red") for complaint in _complaints(flow)]
        parts.append(Text())
    return Group(*parts[:-1]) if parts else Text("the node has no flows")


def _complaints(flow: FlowShape) -> Iterator[str]:
    """A sentence for everything that is wrong with a flow, and for every loss."""
    yield from map(str, troubles(flow))
    for loss in flow.losses:
        lost = f"offsets {loss.first} to {loss.until - 1} are lost: {loss.reason}"
        yield f"topic {loss.topic} partition {loss.partition}: {lost}"


def _heading(flow: FlowShape) -> RenderableType:
    rest = "  heartbeats only" if not flow.enabled else f"  leader {flow.leader or 'none'}  epoch {flow.epoch}"
    return Text.assemble((flow.flow, "bold"), "  ", state_text(flow.state), rest)


def _table(topics: Iterable[TopicShape]) -> RenderableType:
    shown = table(
        "topic", "remote topic", "state", "#partitions", "#written", "#position", "#lag records", "#lag seconds"
    )
    for topic in topics:
        known = [partition for partition in topic.partitions if partition.lag_records >= 0]
        shown.add_row(
            topic.topic,
            topic.remote_topic,
            state_text(topic.state),
            str(len(topic.partitions)),
            *(_sums(known) if known else ("-",) * 4),
        )
    return shown


def _sums(partitions: list[PartitionShape]) -> tuple[str, str, str, str]:
    return (
        f"{sum(partition.end_offset for partition in partitions):,}",
        f"{sum(partition.position for partition in partitions):,}",
        f"{sum(partition.lag_records for partition in partitions):,}",
        f"{max(partition.lag_seconds for partition in partitions):,.1f}",
    )
