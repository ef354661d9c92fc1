r"""Places of a value's characters in the file: through continuation lines and escapes of java.util.Properties.

A line that ends with a backslash continues on the next one, whose leading whitespace is dropped; ``\\`` is one
backslash, ``\u00e9`` one character (java.util.Properties.load). So a place in a value is not simply one in its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from mm2.config.grammar.problems import SourceSpan
from mm2.config.grammar.properties import Entry, as_utf8

WIDEST_EXCERPT = 72
"""Characters of an excerpt: with its indentation it fits a terminal of 80 columns."""

_CONTINUES = r"(?:[ \t\f]|\\\n)*"
_TO_VALUE = re.compile(rf"\s*(?:\\.|[^\\=:\s])*{_CONTINUES}[=:]?{_CONTINUES}", re.DOTALL)
_TOKEN = re.compile(
    r"(?P<continuation>\\\n[ \t\f]*)"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair is one character
    r"|\\u[0-9a-fA-F]{4}|\\.|.",
    re.DOTALL,
)


def place_in_value(entry: Entry, offset: int) -> SourceSpan:
    """Return the place of the character at ``offset`` of the value of ``entry``; its end, if the value is not longer.

    Only the line is known if the value has references, because what replaced them is not in the file.
    """
    starts = [] if entry.raw != entry.value else list(_starts(entry.source))
    if len(starts) != len(entry.raw) + 1:
        return SourceSpan(file=entry.file, line=entry.line)
    before = entry.source[: starts[min(offset, len(entry.raw))]]
    line, column = before.count("\n"), len(before) - (before.rfind("\n") + 1)
    return place_in_line(
        entry.file, entry.line + line, entry.source.split("\n")[line], column, hidden=entry.shown != entry.value
    )


def place_in_line(file: str, number: int, line: str, column: int, *, hidden: bool = False) -> SourceSpan:
    """Return the place at ``column``, counted from 0, of a ``line``. ``hidden``: the line must not be printed."""
    text, at = as_utf8(line), len(as_utf8(line[:column]))
    return SourceSpan(file=file, line=number, column=at + 1, excerpt=() if hidden else excerpt(text, at))


def excerpt(text: str, at: int) -> tuple[str, str]:
    """Return ``text`` around column ``at``, and a line with a caret under that column."""
    text = "".join(char if char.isprintable() else " " for char in text)
    first = 0
    if len(text) > WIDEST_EXCERPT:
        first = max(0, min(at - WIDEST_EXCERPT // 2, len(text) - WIDEST_EXCERPT))
    last = first + WIDEST_EXCERPT
    shown = text[first:last]
    if first:
        shown = "…" + shown[1:]
    if last < len(text):
        shown = shown[:-1] + "…"
    return shown.rstrip(), " " * (at - first) + "^"


def _starts(source: str) -> Iterator[int]:
    """Return where each character of the value starts in ``source``, and where the value ends."""
    end = len(source.rstrip("\n"))
    position = cast(re.Match[str], _TO_VALUE.match(source)).end()
    while position < end:
        token = cast(re.Match[str], _TOKEN.match(source, position))
        if token["continuation"] is None:
            yield position
        position = token.end()
    yield end
