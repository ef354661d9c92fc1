"""How tables look on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from mm2.core.lease import TaskState

GAP = 2  # blanks between columns

_STYLES = {
    TaskState.RUNNING: "green",
    TaskState.FAILED: "bold red",
    TaskState.WAITING: "yellow",
    TaskState.PAUSED: "yellow",
    TaskState.DRAINING: "yellow",
    TaskState.STOPPED: "yellow",
}


def table(*columns: str) -> Rows:
    """An empty table without borders; a column named ``#…`` holds numbers and goes to the right."""
    return Rows(columns)


class Rows:
    """Headings and rows of cells in columns. Cells have one style each, and no line breaks.

    rich's own table takes 0.8 ms of CPU a row, which is half a minute for the partitions of a large flow.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._right = [column.startswith("#") for column in columns]
        self._rows: list[tuple[str | Text, ...]] = [tuple(column.removeprefix("#") for column in columns)]

    def add_row(self, *cells: str | Text) -> None:
        """One cell for each column."""
        self._rows.append(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        texts = [[cell if isinstance(cell, str) else cell.plain for cell in row] for row in self._rows]
        sizes = [[cell_len(text) for text in row] for row in texts]
        widths = [max(column) for column in zip(*sizes, strict=True)]
        for number, row in enumerate(self._rows):
            blank = 0  # what is still to be written as blanks, unless the line ends
            for place, cell in enumerate(row):
                text, left = texts[number][place], widths[place] - sizes[number][place]
                if text:
                    yield Segment(" " * (blank + left if self._right[place] else blank))
                    yield Segment(text, self._style(console, cell, heading=number == 0))
                    blank = GAP + (0 if self._right[place] else left)
                else:
                    blank += widths[place] + GAP
            yield Segment.line()

    def _style(self, console: Console, cell: str | Text, *, heading: bool) -> Style | None:
        if heading:
            return console.get_style("dim")
        return console.get_style(cell.style) if isinstance(cell, Text) and cell.style else None


def state_text(state: TaskState) -> Text:
    """A state in its colour."""
    return Text(state.value, style=_STYLES[state])


def number(value: int) -> str:
    """An offset or a count; what is not known yet (-1) is a dash."""
    return f"{value:,}" if value >= 0 else "-"


def rate_text(rate: float | None) -> str:
    """Records in a second; a dash while that is not known."""
    return "-" if rate is None else f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def duration(seconds: float) -> str:
    """How long, as people say it: ``0.8 s``, ``42 s``, ``7 min``, ``3 h``, ``12 d``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    for unit, length, until in (("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800)):
        if seconds < until:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds / 86_400:,.0f} d"


def counted(count: int, thing: str) -> str:
    """``1 group``, ``1,200 groups``."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
