r"""JSON strings as Java's Connect writes them with Jackson.

``"``, ``\`` and control characters are escaped, with upper-case hex digits; characters beyond U+FFFF become two
``\uXXXX``; all others are UTF-8.
"""

from __future__ import annotations

import re

_ESCAPED = re.compile(r'["\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def quoted(text: str) -> str:
    """Return ``text`` as a JSON string."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def quoted_or_null(text: str | None) -> str:
    """Return ``text`` as a JSON string; null for None."""
    return "null" if text is None else quoted(text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))
