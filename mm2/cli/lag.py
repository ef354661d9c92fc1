"""``mm2 lag``: which partitions are behind, the worst first."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from mm2.cli.node_address import node_url
from mm2.cli.node_client import fetch_flows, read_flows
from mm2.cli.parameters import Node, Watch
from mm2.cli.screen import show_live, show_once
from mm2.cli.tables import number, state_text, table
from mm2.cli.trouble import DONE
from mm2.rest.shapes import FlowShape


def lag(
    node: Node,
    /,
    *,
    watch: Watch = False,
) -> int:
    """Print the lag of every partition. Raises CommandError when the node does not answer."""
    url = node_url(node)
    (show_live if watch else show_once)(lambda: lag_view(read_flows(fetch_flows(url), url)))
    return DONE


def lag_view(flows: Iterable[FlowShape]) -> RenderableType:
    """One row a partition, by lag in records, then in seconds; what is not known yet comes last."""
    partitions = [
        (flow.flow, topic.topic, partition) for flow in flows for topic in flow.topics for partition in topic.partitions
    ]
    if not partitions:
        return Text("nothing is replicated")
    partitions.sort(key=lambda row: (-row[2].lag_records, -row[2].lag_seconds, row[0], row[1], row[2].partition))
    shown = table("flow", "topic", "#partition", "#position", "#end offset", "#lag records", "#lag seconds", "state")
    for flow, topic, partition in partitions:
        shown.add_row(
            flow,
            topic,
            str(partition.partition),
            number(partition.position),
            number(partition.end_offset),
            number(partition.lag_records),
            f"{partition.lag_seconds:,.1f}" if partition.lag_records >= 0 else "-",
            state_text(partition.state),
        )
    return shown
