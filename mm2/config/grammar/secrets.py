"""Detection of values that must not be printed."""

from __future__ import annotations

import re

from mm2.core import masking

HIDDEN = masking.HIDDEN

_SENSITIVE = (
    r"passw|pwd|passphrase|secret|jaas|credential|token(?!\.endpoint)|basic\.auth|(?:access|account|api)[._-]?key"
    r"|keystore\.key\b|certificate\.chain\b|truststore\.certificates\b"
)
"""Java's PASSWORD keys, and the names that Spark, Hadoop and other tools use: Spark redacts secret, password, token and
access key in its own UI too."""

_SECRET_NAME = re.compile(_SENSITIVE, re.IGNORECASE)
_IN_URL = r"://(?:[^\s/@]*@|[^\s/]*:\S*@)"
"""A user before the host of a URL, or a user and a password, which can contain any character."""

_SECRET_VALUE = re.compile(rf"LoginModule|-----BEGIN|{_IN_URL}|(?:{_SENSITIVE})[\w.]*\s*[=:]", re.IGNORECASE)
"""Finds secrets under misspelt keys, those that a stray backslash joined to the previous line, and those in URLs."""


_NEVER_SECRET_NAME = re.compile(r"(?:^|\.)mm2\.sql\.[^.]*\.(?:topics|file|transform)$")
"""Users choose the NAME in these keys, such as ``mask-passwords``; it says nothing about their values."""

_REFERENCE = re.compile(r"\$\{[^}]*\}")
"""``${dir:/run/secrets:password}`` is the location of a secret, not the secret."""


def is_secret(key: str, value: str) -> bool:
    """Return whether ``value`` must be shown as ``[hidden]``, judged by the name of its key and by its form."""
    by_name = _SECRET_NAME.search(key) and not _NEVER_SECRET_NAME.search(key)
    return bool(by_name or _SECRET_VALUE.search(_REFERENCE.sub("", value)))


def shown(key: str, value: str) -> str:
    """Return the value, safe to print."""
    return HIDDEN if is_secret(key, value) else value
