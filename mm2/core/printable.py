"""Text that other programs chose, such as names of topics and groups and messages of errors, for terminals and logs.

Control characters in it could change what a terminal shows, or forge lines of a log: ESC and C1 controls, line breaks,
and characters that change the direction of text. They are shown as Python writes them in a string, ``\\x1b``.
"""

from __future__ import annotations

import re

_UNPRINTABLE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What JSON allows in strings, and terminals do not show as it is."""


def one_line(text: str) -> str:
    """Return ``text`` with line ends and control characters escaped."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable_lines(text: str) -> str:
    """Return ``text`` with control characters escaped, except line feeds and tabs."""
    return text if text.isprintable() else "".join(one if one in "\n\t" else _escaped(one) for one in text)


def printable_json(text: str) -> str:
    """Return the same JSON without control characters in its strings; JSON itself escapes only those below U+0020."""
    return _UNPRINTABLE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
