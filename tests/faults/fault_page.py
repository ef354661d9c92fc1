"""The table of results in docs/explanation/guarantees.md: each cell with its number of rounds, commit and date."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.faults.fault_table import CELL, Round, figures
from tests.faults.mode import MODES
from tests.long.journal import FAILED, PASSED, Result
from tests.long.parts import MATRIX

PAGE = Path(__file__).parents[2] / "docs/explanation/guarantees.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
NOT_RUN = "-"
COLUMNS = tuple(mode.name for mode in MODES)
# Figures, then on a line of its own: number of rounds, commit, date. A plus: files differed from the commit.
MEASURED = re.compile(r"\d+/\d+/\d+(, .+)?<br>\d+ at [0-9a-f]{7,10}\+?, \d{4}-\d\d-\d\d")

Cell = tuple[str, str]  # row and column


def rounds_of(results: Iterable[Result]) -> list[Round]:
    """Return the rounds that tests have recorded."""
    return [Round(**value) for one in results for name, value in one.properties if name == Round.PROPERTY]


def measured(results: Iterable[Result]) -> dict[Cell, str]:
    """Return the new texts of cells from results of one commit. A cell of which a test failed is left out."""
    of_cell: dict[Cell, list[Result]] = {}
    for one in results:
        for name, value in one.properties:
            if name == CELL and not one.test.startswith(MATRIX):  # it has other topologies
                of_cell.setdefault((value[0], value[1]), []).append(one)
    return {
        cell: _text(rounds, found)
        for cell, found in of_cell.items()
        if (rounds := rounds_of(one for one in found if one.outcome == PASSED))
        and all(one.outcome != FAILED for one in found)
    }


def merge(text: str, cells: Mapping[Cell, str]) -> str:
    """Return the page with these cells replaced; a row that it does not have is added as the last one.

    Raises ValueError unless the page has the markers, and between them a table with the columns of all modes.
    """
    before, begin, rest = text.partition(BEGIN)
    block, end, after = rest.partition(END)
    rows = table(block)
    if not (begin and end) or not rows or tuple(rows[0]) != ("fault", *COLUMNS):
        raise ValueError(f"the page must contain {BEGIN}, a table with the columns of all modes, and {END}")
    of_fault = {cells[0]: cells[1:] for cells in rows[1:]}
    for (fault, mode), new in cells.items():
        of_fault.setdefault(fault, [NOT_RUN] * len(COLUMNS))[COLUMNS.index(mode)] = new
    lines = [_line(rows[0]), _line(["---"] * len(rows[0])), *(_line([name, *of_fault[name]]) for name in of_fault)]
    return f"{before}{BEGIN}\n{chr(10).join(lines)}\n{END}{after}"


def table(block: str) -> list[list[str]]:
    """Return the cells of a Markdown table: the header, then the rows."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines() if line.startswith("|")
    ]
    return [row for row in rows if not set("".join(row)) <= {"-", ":"}]


def results_block(text: str) -> str:
    """Return what the page has between the markers."""
    return text.partition(BEGIN)[2].partition(END)[0]


def _text(rounds: Sequence[Round], results: Sequence[Result]) -> str:
    commit, plus, _ = results[0].commit.partition("+")
    return f"{figures(rounds)}<br>{len(rounds)} at {commit[:7]}{plus}, {max(one.date for one in results)}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
