"""How tables look on a terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from mm2.core.lease import TaskState

_STYLES = {
    TaskState.RUNNING: "green",
    TaskState.FAILED: "bold red",
    TaskState.WAITING: "yellow",
    TaskState.PAUSED: "yellow",
    TaskState.DRAINING: "yellow",
    TaskState.STOPPED: "yellow",
}


def table(*columns: str) -> Table:
    """An empty table without borders; a column named ``#…`` holds numbers and goes to the right."""
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        made.add_column(column.removeprefix("#"), justify="right" if column.startswith("#") else "left", no_wrap=True)
    return made


def state_text(state: TaskState) -> Text:
    """A state in its colour."""
    return Text(state.value, style=_STYLES[state])


def number(value: int) -> str:
    """An offset or a count; what is not known yet (-1) is a dash."""
    return f"{value:,}" if value >= 0 else "-"
