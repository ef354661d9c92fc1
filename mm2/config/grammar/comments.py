"""Detection of comments after a value, which properties files do not have."""

from __future__ import annotations

import re

from mm2.config.grammar.properties import Entry, escaped
from mm2.config.grammar.secrets import is_secret

_COMMENT = re.compile(r"\s(?P<sign>#|//).*", re.DOTALL)


def without_comment(text: str) -> str:
    """Return ``text`` without a comment at its end."""
    return _COMMENT.sub("", text).strip()


def no_comment(entry: Entry) -> str:
    """Return the rule that the comment at the end of a value breaks; empty if there is none."""
    match = _COMMENT.search(entry.raw)
    return f"{match['sign']} does not start a comment after a value" if match else ""


def comment_fix(entry: Entry) -> str:
    """Return the fix for a comment at the end of a value, or an empty text if there is none."""
    value = without_comment(entry.raw)
    if value == entry.raw.strip():
        return ""
    shown = "" if is_secret(entry.key, entry.raw) else f", and write {entry.key} = {escaped(value)}"
    return f"move the comment to its own line{shown}"
