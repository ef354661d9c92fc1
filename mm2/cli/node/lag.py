"""``mm2 lag``: the lag of flows and partitions, how fast it changes, and when they will have caught up."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from mm2.cli.errors import DONE, FAILED, UsageError
from mm2.cli.node.lag_report import LagOrder, LagReport, LagSource, PartitionRow, lag_order
from mm2.cli.node.progress_rates import LOOK_AGAIN_S, CatchUpEstimate, FlowPace, ReplicationRate
from mm2.cli.terminal.screen import print_json, show_live, show_once
from mm2.cli.terminal.tables import counted, duration, lower_bound, number, rate_text, state_text, table
from mm2.core.lanes.task_states import TaskState
from mm2.node.status.last_known_lag import last_known_lag
from mm2.node.status.pace_limit import shown_limit
from mm2.node.status.status_model import FlowStatus

_BESIDES_ROWS = 6
"""Lines of a screen that do not show a partition: two headings, an empty line, what was left out, and the prompt."""

_STYLES = {
    CatchUpEstimate.CAUGHT_UP: "green",
    CatchUpEstimate.KEEPING_UP: "green",
    CatchUpEstimate.FALLING_BEHIND: "bold red",
    CatchUpEstimate.STANDING_STILL: "bold red",
}


def lag(
    node: str,
    *,
    flow: str | None = None,
    topic: Sequence[str] = (),
    sort: str = LagOrder.LAG,
    watch: bool = False,
    json: bool = False,
) -> int:
    """Print the lag of every flow and partition, and return whether the lag in records of each of them is known.

    Raises CommandError if neither the node nor the clusters answer.
    """
    if watch and json:
        raise UsageError("--watch and --json cannot be combined: use one of them")
    order = lag_order(sort)
    source = LagSource(node, flow=flow, topics=topic, watching=watch)
    pace = ReplicationRate(time.monotonic)

    if watch:
        show_live(lambda: _watched(_look(source, pace), pace, order))
        return DONE
    report = _look(source, pace)
    if report.from_node and any(
        one.lag_records for flow in report.flows for topic in flow.topics for one in topic.partitions
    ):
        time.sleep(LOOK_AGAIN_S)
        report = _look(source, pace)
    _print_notes(report)
    if json:
        print_json(lag_json(report, pace, order=order))
    else:
        show_once(lambda: lag_view(report, pace, order=order))
    return DONE if report.is_complete else FAILED


def _look(source: LagSource, pace: ReplicationRate) -> LagReport:
    """Read the lags, and add those of a node to ``pace``. Without one, rates of earlier reports are void."""
    report = source.read()
    if report.from_node:
        pace.take(report.flows)
    else:
        pace.forget()
    return report


def _print_notes(report: LagReport) -> None:
    if report.notes:
        from mm2.cli.clusters.cluster_access import note  # noqa: PLC0415 slow to import, and a node's report has none

        for text in report.notes:
            note(f"mm2 lag: {text}")


def _watched(report: LagReport, pace: ReplicationRate, order: LagOrder) -> RenderableType:
    notes = [Text(text, style="yellow") for text in report.notes]
    rows = _rows()
    view = lag_view(report, pace, order=order, rows=None if rows is None else rows - len(notes))
    return Group(*notes, view)


def lag_view(
    report: LagReport, pace: ReplicationRate, *, order: LagOrder = LagOrder.LAG, rows: int | None = None
) -> RenderableType:
    """Return one row per flow, then one per partition in this order. ``rows``: how many fit on the screen."""
    replicating = [flow for flow in report.flows if flow.enabled]
    if not replicating:
        return Text("no enabled flows")
    partitions = report.rows(order, replicating)
    last_known = [
        f"{flow.flow}: lag unknown of {counted(last.partitions, 'partition')}; last known: {last}"
        for flow in replicating
        if (last := last_known_lag(flow)) is not None
    ]
    limits = [f"{flow.flow}: {limit}" for flow in replicating if (limit := shown_limit(flow)) is not None]
    remarks = [*last_known, *limits]
    shown = partitions if rows is None else partitions[: max(1, rows - len(replicating) - len(remarks))]
    parts: list[RenderableType] = [_flows(report, replicating, pace)]
    parts += [Text(remark, style="yellow") for remark in remarks]
    if shown:
        parts += [Text(), _partitions(report, shown, pace)]
    if left := len(partitions) - len(shown):
        less = " with less or unknown lag" if order is LagOrder.LAG else ""
        parts.append(Text(f"… and {left:,} more partitions{less}", style="dim"))
    return Group(*parts)


def lag_json(report: LagReport, pace: ReplicationRate, *, order: LagOrder = LagOrder.LAG) -> dict[str, object]:
    """Return the same for programs: unknown values are null."""
    return {
        "read_from": "node" if report.from_node else "clusters",
        "flows": [_flow_json(report, flow, pace, order) for flow in report.flows if flow.enabled],
    }


def _flows(report: LagReport, flows: Sequence[FlowStatus], pace: ReplicationRate) -> RenderableType:
    """Return the table of flows. The most important columns come first: a narrow screen cuts off the others."""
    shown = table("flow", "state", "outlook", "#lag records", "#lag seconds", "#records/s", "#partitions", "#caught up")
    for flow in flows:
        whole = pace.of(flow)
        shown.add_row(
            Text(flow.flow, style="bold"),
            _state(report, flow.state),
            _outlook(whole),
            lower_bound(number(whole.lag_records_at_least), exact=not whole.unknown),
            lower_bound(
                _seconds(whole.lag_seconds_at_least), exact=whole.lag_seconds is not None or not whole.partitions
            ),
            lower_bound(rate_text(whole.records_per_second), exact=not whole.unknown),
            str(whole.partitions),
            str(whole.caught_up),
        )
    return shown


def _partitions(report: LagReport, rows: Sequence[PartitionRow], pace: ReplicationRate) -> RenderableType:
    remarks = not report.from_node and any(row.status.error is not None for row in rows)
    shown = table(
        *("flow", "topic", "#partition", "state", "#lag records", "#lag seconds", "#records/s"),
        *("#position", "#end offset", "node", *([""] if remarks else [])),
    )
    for row in rows:
        one = row.status
        shown.add_row(
            row.flow,
            row.topic,
            str(one.partition),
            _state(report, one.state),
            number(one.lag_records),
            _seconds(one.lag_seconds),
            rate_text(pace.rate((row.flow, row.topic, one.partition))),
            number(one.position),
            number(one.end_offset),
            one.node,
            *([one.error or ""] if remarks else []),
        )
    return shown


def _state(report: LagReport, state: TaskState) -> Text:
    known = report.state(state)
    return Text("unknown", style="dim") if known is None else state_text(known)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:,.1f}"


def _outlook(whole: FlowPace) -> Text:
    words = whole.outlook.value
    if whole.outlook is CatchUpEstimate.CATCHING_UP and whole.catch_up_seconds is not None:
        words = f"caught up in about {duration(whole.catch_up_seconds)}"
    return Text(words, style=_STYLES.get(whole.outlook, ""))


def _rows() -> int | None:
    return shutil.get_terminal_size().lines - _BESIDES_ROWS if sys.stdout.isatty() else None


def _flow_json(report: LagReport, flow: FlowStatus, pace: ReplicationRate, order: LagOrder) -> dict[str, object]:
    whole = pace.of(flow)
    state, last = report.state(flow.state), last_known_lag(flow)
    return {
        "flow": flow.flow,
        "state": None if state is None else state.value,
        "partition_count": whole.partitions,
        "unknown_partitions": whole.unknown,
        "caught_up": whole.caught_up,
        "lag_records": whole.lag_records,
        "lag_records_at_least": whole.lag_records_at_least,
        "lag_seconds": whole.lag_seconds,
        "lag_seconds_at_least": whole.lag_seconds_at_least,
        "records_per_second": whole.records_per_second,
        "observed": None if last is None else last.observed,
        "last_lag_records": None if last is None else last.lag_records,
        "lag_records_at_most": None if last is None else last.at_most,
        "outlook": whole.outlook.value,
        "catch_up_seconds": whole.catch_up_seconds,
        "limited_by": flow.limited_by,
        "partitions": [_partition_json(report, row, pace) for row in report.rows(order, [flow])],
    }


def _partition_json(report: LagReport, row: PartitionRow, pace: ReplicationRate) -> dict[str, object]:
    one, state = row.status, report.state(row.status.state)
    return {
        "topic": row.topic,
        "partition": one.partition,
        "state": None if state is None else state.value,
        "position": one.position,
        "end_offset": one.end_offset,
        "lag_records": one.lag_records,
        "lag_seconds": one.lag_seconds,
        "observed": one.observed,
        "last_end_offset": one.last_end_offset,
        "last_lag_records": one.last_lag_records,
        "lag_records_at_most": one.lag_records_at_most,
        "records_per_second": pace.rate((row.flow, row.topic, one.partition)),
        "node": one.node or None,
        "error": one.error,
    }
