"""``mm2 lag``: how far flows and partitions are behind, how fast that changes, and when they will have caught up."""

from __future__ import annotations

import json as json_text
import shutil
import sys
import time
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from mm2.cli.node_address import node_context, node_url
from mm2.cli.node_client import fetch_flows, read_flows
from mm2.cli.pace import LOOK_AGAIN_S, FlowPace, Outlook, Pace
from mm2.cli.parameters import Json, Node, Watch
from mm2.cli.screen import show_live, show_once
from mm2.cli.tables import duration, number, rate_text, state_text, table
from mm2.cli.trouble import DONE, UsageError
from mm2.rest.shapes import FlowShape, PartitionShape

_BESIDES_ROWS = 6
"""Lines of a screen that are no partitions: two headings, an empty line, what was left out, and the prompt."""

_STYLES = {
    Outlook.CAUGHT_UP: "green",
    Outlook.KEEPING_UP: "green",
    Outlook.FALLING_BEHIND: "bold red",
    Outlook.STANDING_STILL: "bold red",
}


def lag(
    node: Node,
    /,
    *,
    watch: Watch = False,
    json: Json = False,
) -> int:
    """Print the lag of every flow and partition. Raises CommandError when the node does not answer."""
    if watch and json:
        raise UsageError("--watch and --json do not go together: use one of them")
    url, context = node_url(node), node_context(node)
    pace = Pace(time.monotonic)

    def look() -> Sequence[FlowShape]:
        flows = read_flows(fetch_flows(url, context), url)
        pace.take(flows)
        return flows

    if watch:
        show_live(lambda: lag_view(look(), pace, rows=_rows()))
        return DONE
    flows = look()
    if any(one.lag_records > 0 for flow in flows for topic in flow.topics for one in topic.partitions):
        time.sleep(LOOK_AGAIN_S)
        flows = look()
    if json:
        sys.stdout.write(json_text.dumps(lag_json(flows, pace), ensure_ascii=False, indent=2) + "\n")
    else:
        show_once(lambda: lag_view(flows, pace))
    return DONE


def lag_view(flows: Sequence[FlowShape], pace: Pace, *, rows: int | None = None) -> RenderableType:
    """One row a flow, then one row a partition: by lag in records, then in seconds; what is not known yet comes last.

    ``rows``: so many fit on the screen.
    """
    replicating = [flow for flow in flows if flow.enabled]
    if not replicating:
        return Text("nothing is replicated")
    partitions = _worst_first(replicating)
    shown = partitions if rows is None else partitions[: max(1, rows - len(replicating))]
    parts: list[RenderableType] = [_flows(replicating, pace)]
    if shown:
        parts += [Text(), _partitions(shown, pace)]
    if left := len(partitions) - len(shown):
        parts.append(Text(f"… and {left:,} more partitions that are less behind", style="dim"))
    return Group(*parts)


def lag_json(flows: Sequence[FlowShape], pace: Pace) -> dict[str, object]:
    """The same for programs: what is not known is null."""
    return {"flows": [_flow_json(flow, pace) for flow in flows if flow.enabled]}


def _worst_first(flows: Sequence[FlowShape]) -> list[tuple[str, str, PartitionShape]]:
    partitions = [(flow.flow, topic.topic, one) for flow in flows for topic in flow.topics for one in topic.partitions]
    partitions.sort(key=lambda row: (-row[2].lag_records, -row[2].lag_seconds, row[0], row[1], row[2].partition))
    return partitions


def _flows(flows: Sequence[FlowShape], pace: Pace) -> RenderableType:
    """What people look for comes first: a narrow screen that is watched shows no more."""
    shown = table("flow", "state", "outlook", "#lag records", "#lag seconds", "#records/s", "#partitions", "#caught up")
    for flow in flows:
        whole = pace.of(flow)
        shown.add_row(
            Text(flow.flow, style="bold"),
            state_text(flow.state),
            _outlook(whole),
            "-" if whole.lag_records is None else number(whole.lag_records),
            "-" if whole.lag_seconds is None else f"{whole.lag_seconds:,.1f}",
            rate_text(whole.records_per_second),
            str(whole.partitions),
            str(whole.caught_up),
        )
    return shown


def _partitions(partitions: Sequence[tuple[str, str, PartitionShape]], pace: Pace) -> RenderableType:
    shown = table(
        "flow", "topic", "#partition", "state", "#lag records", "#lag seconds", "#records/s", "#position", "#end offset"
    )
    for flow, topic, partition in partitions:
        shown.add_row(
            flow,
            topic,
            str(partition.partition),
            state_text(partition.state),
            number(partition.lag_records),
            f"{partition.lag_seconds:,.1f}" if partition.lag_records >= 0 else "-",
            rate_text(pace.rate((flow, topic, partition.partition))),
            number(partition.position),
            number(partition.end_offset),
        )
    return shown


def _outlook(whole: FlowPace) -> Text:
    words = whole.outlook.value
    if whole.outlook is Outlook.CATCHING_UP and whole.catch_up_seconds is not None:
        words = f"caught up in about {duration(whole.catch_up_seconds)}"
    return Text(words, style=_STYLES.get(whole.outlook, ""))


def _rows() -> int | None:
    return shutil.get_terminal_size().lines - _BESIDES_ROWS if sys.stdout.isatty() else None


def _flow_json(flow: FlowShape, pace: Pace) -> dict[str, object]:
    whole = pace.of(flow)
    return {
        "flow": flow.flow,
        "state": flow.state.value,
        "partition_count": whole.partitions,
        "caught_up": whole.caught_up,
        "lag_records": whole.lag_records,
        "lag_seconds": whole.lag_seconds,
        "records_per_second": whole.records_per_second,
        "outlook": whole.outlook.value,
        "catch_up_seconds": whole.catch_up_seconds,
        "partitions": [_partition_json(row, pace) for row in _worst_first([flow])],
    }


def _partition_json(row: tuple[str, str, PartitionShape], pace: Pace) -> dict[str, object]:
    flow, topic, partition = row
    known = partition.lag_records >= 0
    return {
        "topic": topic,
        "partition": partition.partition,
        "state": partition.state.value,
        "position": partition.position if partition.position >= 0 else None,
        "end_offset": partition.end_offset if partition.end_offset >= 0 else None,
        "lag_records": partition.lag_records if known else None,
        "lag_seconds": partition.lag_seconds if known else None,
        "records_per_second": pace.rate((flow, topic, partition.partition)),
        "error": partition.error,
    }
