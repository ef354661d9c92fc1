"""docs/reference/what-you-see.md: a table of outages, and what a node shows in each, from recordings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

from tests.faults.fault_page import table
from tests.faults.outages.recording import Observation
from tests.faults.outages.rows import ROWS
from tests.lab.commands import ROOT
from tests.long.journal import tree_version

PAGE = ROOT / "docs/reference/what-you-see.md"
HEADER = ("outage", "flow", "lag", "`/health`", "`/health/ready`", "alerts")
INTRO = """\
# What you see in an outage

What `mm2 status`, `/health`, the log and the alerts say while something is broken, recorded from two nodes that copy
two topics (`t-orders` is written to, `t-clicks` is idle). Each outage is a test, in
`tests/faults/test_what_operators_see.py`; `make outages` records them again and writes this page. Nothing in it is a 0,
`UP`, `caught up` or `RUNNING` that was not observed within the last 10 s: what is unknown is shown as such, with its
last known value.

`/health` is shown as after 38 s, since problems make it 503 once they have lasted 30 s: 503 if a node returned that.
Alerts are those that fire if the outage lasts for a day, with the minute in which they do: the shipped rules are
evaluated on the recorded series, as if these continued.
"""
_URL = re.compile(r"127\.0\.0\.1:\d+")
_LEVEL = re.compile(r" (INFO|WARNING|ERROR|CRITICAL) ")
_LOGGED = 12  # lines of the log of an outage
_WIDE = 180  # characters of a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a row of the page is made of. ``log``: of all nodes, from the fault to its end."""

    row: str
    during: Sequence[Observation]
    alerts: Mapping[str, int]
    log: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        last = self.during[-1] if self.during else None
        if last is None or not last.flows.code:
            return (self.row, "no answer", "no answer", "no answer", "no answer", self._alerts)
        return (
            self.row,
            f"`{last.flow.get('state', 'none')}`",
            _lag(last),
            "503" if any(one.health.code != HTTPStatus.OK for one in self._last) else "200",
            str(last.ready.code),
            self._alerts,
        )

    @property
    def _last(self) -> Sequence[Observation]:
        """The last observation of each node."""
        return list({one.node: one for one in self.during}.values())

    @property
    def section(self) -> str:
        """What was shown, word by word."""
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        parts = [f"## {self.row}", f"Recorded at {tree_version()[:7]}, {date}."]
        if self.during:
            last = self.during[-1]
            parts += ["`mm2 status`:", _block(last.status.stdout or last.status.stderr)]
            if last.reasons:
                parts += ["`reasons` of `/health`:", _block("\n".join(last.reasons))]
        lines = [line for line in self.log.splitlines() if (found := _LEVEL.search(line)) and found[1] != "INFO"]
        if lines:
            parts += ["Log, from `WARNING` on:", _block("\n".join(lines[:_LOGGED]))]
        return "\n\n".join(parts)

    @property
    def _alerts(self) -> str:
        return "<br>".join(f"`{name}` ({_minutes(minute)})" for name, minute in sorted(self.alerts.items())) or "none"


def merge(text: str, shown: Iterable[Shown]) -> str:
    """Return the page with these rows replaced. Rows that are neither in it nor in ``shown`` are left out."""
    before, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    of_row = {one.partition("\n")[0].removeprefix("## "): one.rstrip() for one in sections}
    cells = {row[0]: tuple(row) for row in table(before)[1:]}
    for one in shown:
        of_row[one.row], cells[one.row] = one.section, one.cells
    names = [row.name for row in ROWS if row.name in cells]
    lines = [_line(HEADER), _line(["---"] * len(HEADER)), *(_line(cells[name]) for name in names)]
    return "\n\n".join([INTRO.rstrip(), "\n".join(lines), *(of_row[name] for name in names)]) + "\n"


def write(shown: Iterable[Shown], page: Path = PAGE) -> None:
    """Write the rows into the page."""
    page.write_text(merge(page.read_text("utf-8") if page.exists() else "", shown), encoding="utf-8")


def _lag(seen: Observation) -> str:
    lags = [one["lag_records"] for one in seen.partitions()]
    if not lags or None in lags:
        return "unknown" if not any(lag is not None for lag in lags) else "partly known"
    return "known"


def _minutes(minute: int) -> str:
    return f"{minute} min" if minute < 120 else f"{minute // 60} h"


def _block(text: str) -> str:
    lines = [line.rstrip()[:_WIDE] for line in _URL.sub("127.0.0.1:8083", text.rstrip()).splitlines()]
    return "\n".join(["```", *lines, "```"])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
