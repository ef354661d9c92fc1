"""Detection of comments after a value, which properties files do not have."""

from __future__ import annotations

import re

from mm2.config.grammar.properties import Entry
from mm2.config.grammar.secrets import is_secret

NO_COMMENT = "# does not start a comment after a value"

_COMMENT = re.compile(r"\s#.*", re.DOTALL)


def without_comment(text: str) -> str:
    """Return ``text`` without a comment at its end."""
    return _COMMENT.sub("", text).strip()


def comment_fix(entry: Entry) -> str:
    """Return the fix for a comment at the end of a value, or an empty text if there is none."""
    value = without_comment(entry.value)
    if value == entry.value.strip():
        return ""
    shown = "" if is_secret(entry.key, entry.raw) else f", and write {entry.key} = {value}"
    return f"move the comment to its own line{shown}"
