"""``mm2 status --topic T --partition P``: what one partition does, why, and what has happened to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from mm2.cli.errors import DONE, UsageError
from mm2.cli.node.lag_report import no_such_topic
from mm2.cli.node.node_address import node_context, node_urls
from mm2.cli.node.node_client import fetch_flows, fetch_partition, first_answering, read_flows, read_partition
from mm2.cli.parameters import whole_number
from mm2.cli.terminal.screen import show_live, show_once
from mm2.cli.terminal.tables import number, state_text
from mm2.core.printable import printable_json
from mm2.core.problems.times_in_words import utc_text
from mm2.node.status.status_model import FlowStatus, PartitionStatus
from mm2.rest.merge.partition_merge import PartitionDetails, ShownStep


def partition_status(
    node: str, topic: str, partition: str, *, flow: str | None = None, watch: bool = False, json: bool = False
) -> int:
    """Print one partition, or the response of GET /flows/A/B/partitions/T/P. Raises CommandError if the node does not
    answer, UsageError for a flow, topic or partition that does not exist."""
    wanted = whole_number("--partition", partition, "a partition number")
    urls, context = node_urls(node), node_context(node)

    def fetch() -> tuple[str, bytes]:
        def ask(url: str) -> tuple[str, bytes]:
            chosen = _flow_of(read_flows(fetch_flows(url, context), url), topic, flow)
            return url, fetch_partition(url, context, chosen, topic, wanted)

        return first_answering(urls, ask)

    def look() -> RenderableType:
        url, body = fetch()
        return partition_view(read_partition(body, url))

    if json:
        sys.stdout.write(printable_json(fetch()[1].decode()) + "\n")
    elif watch:
        show_live(look)
    else:
        show_once(look)
    return DONE


def _flow_of(flows: Sequence[FlowStatus], topic: str, flow: str | None) -> FlowStatus:
    """Return the flow ``flow``, or the only one that replicates the topic. Raises UsageError."""
    if flow is not None:
        name = flow.replace(" ", "")
        chosen = next((one for one in flows if one.flow == name), None)
        if chosen is None:
            raise UsageError(f"no flow {name!r} on this node; its flows: {', '.join(one.flow for one in flows)}")
        if topic not in (found := {one.topic for one in chosen.topics}):
            raise no_such_topic(topic, found)
        return chosen
    having = [one for one in flows if topic in {found.topic for found in one.topics}]
    if not having:
        raise no_such_topic(topic, {found.topic for one in flows for found in one.topics})
    if len(having) > 1:
        raise UsageError(f"add --flow 'A->B': topic {topic} is replicated by {', '.join(one.flow for one in having)}")
    return having[0]


def partition_view(details: PartitionDetails) -> RenderableType:
    """Return the state and step of the partition, what its two sides wait for, its progress and its events."""
    status = details.status
    heading = Text.assemble(
        (f"{details.flow}  {details.topic} partition {status.partition}", "bold"),
        f" -> {details.remote_topic}  ",
        state_text(status.state),
        f"  {details.step}",
        "" if details.since is None else f" since {_time(details.since)}",
        f"  node {status.node or 'none'}",
    )
    lines = [heading, Text(f"  {_progress(status)}"), *_sides(details)]
    if details.limited_by is not None:
        lines.insert(2, Text(f"  pace: {details.limited_by}"))
    if status.error is not None:
        lines.append(Text(f"  ! {status.error}", style="red"))
    lines += [Text(f"  ! node {unknown}", style="yellow") for unknown in details.unknown]
    if details.events:
        lines.append(Text("  events:"))
        lines += [Text(f"    {_time(one.time)}  {one.node}  {one.text}") for one in details.events]
    else:
        lines.append(Text("  no events besides its start", style="dim"))
    return Group(*lines)


def _progress(status: PartitionStatus) -> str:
    last = "" if status.observed is None else f" (last known {status.last_end_offset} at {_time(status.observed)})"
    return (
        f"position {number(status.position)}  end {number(status.end_offset)}{last}"
        f"  lag {number(status.lag_records)} records"
    )


def _sides(details: PartitionDetails) -> Iterator[Text]:
    if details.fetching is None or details.sending is None:
        yield Text(f"  {details.reason}")
        return
    yield _side("fetching", details.fetching)
    yield _side("sending ", details.sending)


def _side(name: str, step: ShownStep) -> Text:
    reason = "" if step.reason is None else f": {step.reason}"
    return Text(f"  {name}  {step.step} since {_time(step.since)}{reason}")


def _time(ms: int) -> str:
    return utc_text(ms / 1000)
