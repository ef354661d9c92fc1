"""docs/how-to/troubleshooting.md quotes messages that exist in the program."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/troubleshooting.md"

GAP = "…"
"""Placeholder for the variable part of a message, on the page and in `_texts`."""

NOT_OURS = {  # quotes of brokers, columns and examples
    "FILE:LINE: error: …",
    "lag records",
    "lag seconds",
}


def _quoted() -> list[str]:
    seen = re.findall(r"^\*\*You see\*\*(.*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    quotes = [quote for line in seen for quote in re.findall(r"`([^`]+)`", line)]
    return [quote for quote in quotes if " " in quote and not quote.startswith("mm2 ") and quote not in NOT_OURS]


@functools.cache
def _texts() -> tuple[str, ...]:
    """Return every string literal of the program; values of f-strings are replaced with `GAP`."""
    return tuple(_literals())


def _literals() -> Iterator[str]:
    for package in ("mm2", "flows"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                match node:
                    case ast.JoinedStr(values=values):
                        yield "".join(
                            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else GAP
                            for part in values
                        )
                    case ast.Constant(value=str(text)):
                        yield text


@pytest.mark.parametrize("quote", _quoted())
def test_program_contains_the_message(quote: str) -> None:
    parts = [part.strip() for part in quote.split(GAP) if part.strip()]
    assert parts
    assert [part for part in parts if not any(part in text for text in _texts())] == []


def test_page_quotes_messages() -> None:
    assert len(_quoted()) > 10
