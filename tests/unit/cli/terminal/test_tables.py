from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from mm2.cli.terminal.tables import counted, lower_bound, number, table
from tests.unit.cli.views import lines


def test_columns_are_aligned_without_trailing_spaces() -> None:
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


def test_cell_styles_and_literal_markup() -> None:
    shown = table("topic", "state")
    shown.add_row("[red]orders[/red]", Text("FAILED", style="bold red"))
    stream = io.StringIO()
    Console(file=stream, width=60, force_terminal=True, color_system="standard").print(shown)
    heading, row = stream.getvalue().splitlines()
    assert heading == "\x1b[2mtopic\x1b[0m              \x1b[2mstate\x1b[0m"
    assert row == "[red]orders[/red]  \x1b[1;31mFAILED\x1b[0m"


def test_names_cannot_control_the_terminal() -> None:
    shown = table("topic", "state")
    shown.add_row("\x1b[2J\x9borders\n", Text("\x1b]0;title\x07", style="red"))
    assert lines(shown)[1:] == [r"\x1b[2J\x9borders\n  \x1b]0;title"]


def test_empty_table_has_headings() -> None:
    assert lines(table("a", "#b")) == ["a  b"]


@pytest.mark.parametrize(("count", "expected"), [(0, "0 groups"), (1, "1 group"), (1_200, "1,200 groups")])
def test_counted(count: int, expected: str) -> None:
    assert counted(count, "group") == expected


def test_unknown_number_is_not_0() -> None:
    assert (number(None), number(0), number(12_345)) == ("-", "0", "12,345")


@pytest.mark.parametrize(
    ("text", "bound"), [("-", "unknown"), ("0", "unknown"), ("0.0", "unknown"), ("12,345", "at least 12,345")]
)
def test_sum_with_unknown_parts_is_a_lower_bound(text: str, bound: str) -> None:
    assert lower_bound(text, exact=True) == text
    assert lower_bound(text, exact=False) == bound
