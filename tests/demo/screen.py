"""The demo's output: a live table on a terminal, otherwise a plain line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tests.demo.picture import Picture, Row
from tests.demo.queried import QuerySample

REFRESH = 0.5  # seconds between two reads of the nodes
LINE_EVERY = 5.0  # seconds between two plain lines

COLOURS = {"RUNNING": "green", "WAITING": "yellow", "PAUSED": "yellow", "DRAINING": "yellow"}


class Screen:
    """Shows pictures while a predicate is true."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """Print one line."""
        self._console.print(f"[bold]demo:[/] {text}", highlight=False, soft_wrap=True)

    def show(
        self, links: Mapping[str, str], picture: Callable[[], Picture | None], continues: Callable[[], bool]
    ) -> None:
        """Print ``links``, then show the newest picture while ``continues``; None leaves the previous one."""
        width = max(len(name) for name in links)
        for name, place in links.items():
            self.say(f"{name:<{width}} {place}")
        if self._console.is_terminal:
            self._show_table(picture, continues)
        else:
            self._show_lines(picture, continues)

    def _show_table(self, picture: Callable[[], Picture | None], continues: Callable[[], bool]) -> None:
        with Live(console=self._console, auto_refresh=False, transient=False) as live:
            while continues():
                newest = picture()
                if newest is not None:
                    live.update(_table(newest), refresh=True)
                time.sleep(REFRESH)

    def _show_lines(self, picture: Callable[[], Picture | None], continues: Callable[[], bool]) -> None:
        begun = last = time.monotonic()
        shown: tuple[QuerySample, ...] = ()
        while continues():
            newest = picture()
            if newest is not None and time.monotonic() - last >= LINE_EVERY:
                last = time.monotonic()
                self.say(_line(newest, last - begun))
                for sample in newest.samples if newest.samples != shown else ():
                    for line in sample.lines():
                        self.say(f"        {line}")
                shown = newest.samples
            time.sleep(REFRESH)


def _table(picture: Picture) -> RenderableType:
    table = Table(title="A -> B", title_justify="left", caption=_caption(picture), caption_justify="left")
    table.add_column("topic")
    table.add_column("state")
    for name in ("written", "replicated", "lag", "MB/s", "latency"):
        table.add_column(name, justify="right", min_width=9)
    queries = any(row.rows is not None for row in picture.rows)
    for name in ("query in", "out", "dropped") if queries else ():
        table.add_column(name, justify="right")
    for row in (*picture.rows, picture.total):
        if row is picture.total:
            table.add_section()
        table.add_row(
            row.topic,
            Text(row.state, COLOURS.get(row.state, "red")),
            *_cells(row),
            *(_query_cells(row) if queries else ()),
        )
    nodes = (Text(line) for line in picture.nodes)
    samples = (Text(line, "dim") for sample in picture.samples for line in sample.lines())
    return Group(table, *samples, *nodes, *(Text(reason, "yellow") for reason in picture.reasons))


def _cells(row: Row) -> tuple[str, ...]:
    rate = f"{row.megabytes_per_second:.2f}"
    return f"{row.written:,}", f"{row.replicated:,}", lag_text(row), rate, _latency(row)


def _query_cells(row: Row) -> tuple[str, ...]:
    rows = row.rows
    return ("", "", "") if rows is None else (f"{rows.in_:,}", f"{rows.out:,}", f"{rows.dropped:,}")


def _line(picture: Picture, seconds: float) -> str:
    row = picture.total
    return (
        f"{seconds:4.0f} s  {picture.state}  written {row.written:,}  replicated {row.replicated:,}  "
        f"lag {lag_text(row)}  {row.megabytes_per_second:.2f} MB/s  latency {_latency(row)}  {_caption(picture)}"
        + "".join(
            f"  query {rows.query}: in {rows.in_:,}  out {rows.out:,}  dropped {rows.dropped:,}"
            for row in picture.rows
            if (rows := row.rows) is not None
        )
        + "".join(f"  | {line}" for line in picture.nodes)
        + "".join(f"  ({reason})" for reason in picture.reasons)
    )


def lag_text(row: Row) -> str:
    """Return the lag of a row; a lower bound, or ``unknown``, while that of some partitions is unknown."""
    if row.lag is None or (row.unknown and not row.lag):
        return "unknown"
    return f"at least {row.lag:,}" if row.unknown else f"{row.lag:,}"


def _latency(row: Row) -> str:
    return "-" if row.latency_ms is None else f"{row.latency_ms:.0f} ms"


def _caption(picture: Picture) -> str:
    share = "-" if picture.pass_through is None else f"{picture.pass_through:.0%}"
    return f"heartbeats {picture.heartbeats:,}   passed through without decompressing {share} of batches"
