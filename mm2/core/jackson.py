r"""JSON texts as Java's Connect writes them, with Jackson: escaped are ``"``, ``\`` and control characters, with
upper-case hex digits, and characters beyond U+FFFF as two ``\uXXXX``; all others are UTF-8."""

from __future__ import annotations

import re

_ESCAPED = re.compile(r'["\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def quoted(text: str) -> str:
    """``text`` as a JSON string."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def quoted_or_null(text: str | None) -> str:
    """The same; null for None."""
    return "null" if text is None else quoted(text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))
