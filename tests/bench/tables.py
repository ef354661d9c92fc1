"""The comparison as tables: on the screen, and as Markdown in the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table

from tests.bench.rows import Row, Section

NONE = "-"  # shown instead of a figure that was not measured
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def on_screen(sections: Sequence[Section]) -> Iterator[Table | str]:
    """Yield a table for each section, followed by its notes."""
    for section in sections:
        table = Table(title=section.title, title_justify="left")
        for number, column in enumerate(_columns(section)):
            table.add_column(column, justify="right" if number else "left")
        for row in section.rows:
            table.add_row(*_cells(row))
        yield table
        yield from section.notes


def as_markdown(facts: Sequence[tuple[str, str]], sections: Sequence[Section]) -> str:
    """Return the facts as a list, followed by a table for each section."""
    lines = [f"- {what}: {which}" for what, which in facts]
    for section in sections:
        lines += [
            "",
            f"### {section.title}",
            "",
            _markdown_line(_columns(section)),
            _markdown_line(["---", *["---:"] * 4]),
        ]
        lines += [_markdown_line(_cells(row)) for row in section.rows]
        for note in section.notes:
            lines += ["", note]
    return "\n".join(lines)


def write_block(page: Path, block: str) -> None:
    """Replace the text between the markers of a page by ``block``.

    Raises ValueError unless the page has each marker once, in order.
    """
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end) or text.count(BEGIN) + text.count(END) != 2:
        raise ValueError(f"{page.name} must contain {BEGIN} once, followed by {END} once")
    page.write_text(f"{before}{BEGIN}\n{block}\n{END}{after}")


def _columns(section: Section) -> tuple[str, ...]:
    return "", *section.compared, "ratio", "aim"


def _cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row: name, mm2's figure, the other one, ratio, aim."""
    aim = "" if row.aim is None else f"≤ {row.aim:g}"
    return row.what, _figure(row.ours, row.digits), _figure(row.other, row.digits), _figure(row.ratio, 2), aim


def _figure(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:,.{digits}f}"


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
