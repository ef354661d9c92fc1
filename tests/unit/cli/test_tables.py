from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from mm2.cli.tables import counted, number, table
from tests.unit.cli.views import lines


def test_columns_line_up_and_lines_end_where_they_end() -> None:
    shown = table("name", "#count", "state", "")
    shown.add_row("a", "1,200", "RUNNING", "")
    shown.add_row("日本語", "7", "-", "why")
    shown.add_row("", "", "", "only this")
    shown.add_row("", "", "", "")
    stream = io.StringIO()
    Console(file=stream, width=60).print(shown)
    assert stream.getvalue().splitlines() == [
        "name    count  state",
        "a       1,200  RUNNING",
        "日本語      7  -        why",
        "                        only this",
        "",
    ]


def test_cells_have_their_colours_and_markup_is_only_text() -> None:
    shown = table("topic", "state")
    shown.add_row("[red]orders[/red]", Text("FAILED", style="bold red"))
    stream = io.StringIO()
    Console(file=stream, width=60, force_terminal=True, color_system="standard").print(shown)
    heading, row = stream.getvalue().splitlines()
    assert heading == "\x1b[2mtopic\x1b[0m              \x1b[2mstate\x1b[0m"
    assert row == "[red]orders[/red]  \x1b[1;31mFAILED\x1b[0m"


def test_a_table_without_rows_has_its_headings() -> None:
    assert lines(table("a", "#b")) == ["a  b"]


@pytest.mark.parametrize(("count", "words"), [(0, "0 groups"), (1, "1 group"), (1_200, "1,200 groups")])
def test_counted(count: int, words: str) -> None:
    assert counted(count, "group") == words


def test_a_number_that_is_not_known() -> None:
    assert (number(-1), number(0), number(12_345)) == ("-", "0", "12,345")
