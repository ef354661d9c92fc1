"""``mm2 lag``: the lag of flows and partitions, how fast it changes, and when they will have caught up."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from mm2.cli.errors import DONE, UsageError
from mm2.cli.node.node_address import node_context, node_url
from mm2.cli.node.node_client import fetch_flows, read_flows
from mm2.cli.node.progress_rates import LOOK_AGAIN_S, FlowPace, Outlook, Pace
from mm2.cli.terminal.screen import print_json, show_live, show_once
from mm2.cli.terminal.tables import duration, lower_bound, number, rate_text, state_text, table
from mm2.node.status.status_model import FlowStatus, PartitionStatus

_BESIDES_ROWS = 6
"""Lines of a screen that do not show a partition: two headings, an empty line, what was left out, and the prompt."""

_STYLES = {
    Outlook.CAUGHT_UP: "green",
    Outlook.KEEPING_UP: "green",
    Outlook.FALLING_BEHIND: "bold red",
    Outlook.STANDING_STILL: "bold red",
}


def lag(node: str, *, watch: bool = False, json: bool = False) -> int:
    """Print the lag of every flow and partition. Raises CommandError if the node does not answer."""
    if watch and json:
        raise UsageError("--watch and --json cannot be combined: use one of them")
    url, context = node_url(node), node_context(node)
    pace = Pace(time.monotonic)

    def look() -> Sequence[FlowStatus]:
        flows = read_flows(fetch_flows(url, context), url)
        pace.take(flows)
        return flows

    if watch:
        show_live(lambda: lag_view(look(), pace, rows=_rows()))
        return DONE
    flows = look()
    if any(one.lag_records for flow in flows for topic in flow.topics for one in topic.partitions):
        time.sleep(LOOK_AGAIN_S)
        flows = look()
    if json:
        print_json(lag_json(flows, pace))
    else:
        show_once(lambda: lag_view(flows, pace))
    return DONE


def lag_view(flows: Sequence[FlowStatus], pace: Pace, *, rows: int | None = None) -> RenderableType:
    """Return one row per flow, then one per partition: by lag in records, then in seconds, unknown lags last.

    ``rows``: how many fit on the screen.
    """
    replicating = [flow for flow in flows if flow.enabled]
    if not replicating:
        return Text("no enabled flows")
    partitions = _worst_first(replicating)
    shown = partitions if rows is None else partitions[: max(1, rows - len(replicating))]
    parts: list[RenderableType] = [_flows(replicating, pace)]
    if shown:
        parts += [Text(), _partitions(shown, pace)]
    if left := len(partitions) - len(shown):
        parts.append(Text(f"… and {left:,} more partitions with less or unknown lag", style="dim"))
    return Group(*parts)


def lag_json(flows: Sequence[FlowStatus], pace: Pace) -> dict[str, object]:
    """Return the same for programs: unknown values are null."""
    return {"flows": [_flow_json(flow, pace) for flow in flows if flow.enabled]}


def _worst_first(flows: Sequence[FlowStatus]) -> list[tuple[str, str, PartitionStatus]]:
    partitions = [(flow.flow, topic.topic, one) for flow in flows for topic in flow.topics for one in topic.partitions]

    def order(row: tuple[str, str, PartitionStatus]) -> tuple[object, ...]:
        flow, topic, one = row
        unknown = one.lag_records is None
        return unknown, -(one.lag_records or 0), -(one.lag_seconds or 0.0), flow, topic, one.partition

    return sorted(partitions, key=order)


def _flows(flows: Sequence[FlowStatus], pace: Pace) -> RenderableType:
    """Return the table of flows. The most important columns come first: a narrow screen cuts off the others."""
    shown = table("flow", "state", "outlook", "#lag records", "#lag seconds", "#records/s", "#partitions", "#caught up")
    for flow in flows:
        whole = pace.of(flow)
        shown.add_row(
            Text(flow.flow, style="bold"),
            state_text(flow.state),
            _outlook(whole),
            lower_bound(number(whole.lag_records_at_least), exact=not whole.unknown),
            lower_bound(_seconds(whole.lag_seconds_at_least), exact=not whole.unknown),
            lower_bound(rate_text(whole.records_per_second), exact=not whole.unknown),
            str(whole.partitions),
            str(whole.caught_up),
        )
    return shown


def _partitions(partitions: Sequence[tuple[str, str, PartitionStatus]], pace: Pace) -> RenderableType:
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
            _seconds(partition.lag_seconds),
            rate_text(pace.rate((flow, topic, partition.partition))),
            number(partition.position),
            number(partition.end_offset),
        )
    return shown


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:,.1f}"


def _outlook(whole: FlowPace) -> Text:
    words = whole.outlook.value
    if whole.outlook is Outlook.CATCHING_UP and whole.catch_up_seconds is not None:
        words = f"caught up in about {duration(whole.catch_up_seconds)}"
    return Text(words, style=_STYLES.get(whole.outlook, ""))


def _rows() -> int | None:
    return shutil.get_terminal_size().lines - _BESIDES_ROWS if sys.stdout.isatty() else None


def _flow_json(flow: FlowStatus, pace: Pace) -> dict[str, object]:
    whole = pace.of(flow)
    return {
        "flow": flow.flow,
        "state": flow.state.value,
        "partition_count": whole.partitions,
        "unknown_partitions": whole.unknown,
        "caught_up": whole.caught_up,
        "lag_records": whole.lag_records,
        "lag_records_at_least": whole.lag_records_at_least,
        "lag_seconds": whole.lag_seconds,
        "lag_seconds_at_least": whole.lag_seconds_at_least,
        "records_per_second": whole.records_per_second,
        "outlook": whole.outlook.value,
        "catch_up_seconds": whole.catch_up_seconds,
        "partitions": [_partition_json(row, pace) for row in _worst_first([flow])],
    }


def _partition_json(row: tuple[str, str, PartitionStatus], pace: Pace) -> dict[str, object]:
    flow, topic, partition = row
    return {
        "topic": topic,
        "partition": partition.partition,
        "state": partition.state.value,
        "position": partition.position,
        "end_offset": partition.end_offset,
        "lag_records": partition.lag_records,
        "lag_seconds": partition.lag_seconds,
        "records_per_second": pace.rate((flow, topic, partition.partition)),
        "error": partition.error,
    }
