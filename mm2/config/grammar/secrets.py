"""Detection of values that must not be printed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mm2.core import masking

HIDDEN = masking.HIDDEN

_SENSITIVE = (
    r"pa?s+w|passo|(?<!by)pass(?![a-z])|passcode|pwd|passphrase|secret|secert|jaas|credential|token(?!\.endpoint)"
    r"|basic\.auth|(?:access|account|api)[._-]?key|(?:encryption|private|shared|signing)[._-]?key(?![\w.-])"
    r"|(?<![a-z])(?:pin|sas)(?![a-z])|env\.\w*key(?![\w.])"
    r"|keystore\.key\b|certificate\.chain\b|truststore\.certificates\b"
)
"""Java's PASSWORD keys, and the names that Spark, Hadoop and other tools use: Spark redacts secret, password, token and
access key in its own UI too. Also ``pasword`` and other words that users write by mistake."""

_SECRET_NAME = re.compile(_SENSITIVE, re.IGNORECASE)
_IN_URL = r"://(?:[^\s/@]*@|[^\s/]*:\S*@)"
"""A user before the host of a URL, or a user and a password, which can contain any character."""

_IN_QUERY = r"://\S*[?&](?:code|key|sig|signature)="
"""Keys in the query of a URL, as functions and storage of clouds have them."""

_ASSIGNED = rf"(?:{_SENSITIVE})[\w.]*\s*[=:]"

_SECRET_VALUE = re.compile(
    rf"LoginModule|-----BEGIN|{_IN_URL}|{_IN_QUERY}|authorization\s*[=:]|{_ASSIGNED}", re.IGNORECASE
)
"""Finds secrets under misspelt keys, those that a stray backslash joined to the previous line, and those in URLs."""


_PART = re.compile(
    rf"""(?:{_ASSIGNED}|{_IN_QUERY})\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<plain>[^\s;&"']+))"""
    r"|://[^\s/:@]*:(?P<in_url>\S*)@",
    re.IGNORECASE,
)
"""A secret among the options of a login module or of Java, or in a URL."""


_NEVER_SECRET_NAME = re.compile(r"(?:^|\.)mm2\.sql\.[^.]*\.(?:topics|file|transform)$|^mm2\.rest\.tokens\.file$")
"""Users choose the NAME in these keys, such as ``mask-passwords``; it says nothing about their values. The file of
tokens has only their digests."""

_REFERENCE = re.compile(r"\$\{[^}]*\}")
"""``${dir:/run/secrets:password}`` is the location of a secret, not the secret."""


def is_secret(key: str, value: str) -> bool:
    """Return whether ``value`` must be shown as ``[hidden]``, judged by the name of its key and by its form."""
    by_name = _SECRET_NAME.search(key) and not _NEVER_SECRET_NAME.search(key)
    return bool(by_name or _SECRET_VALUE.search(_REFERENCE.sub("", value)))


def shown(key: str, value: str) -> str:
    """Return the value, safe to print."""
    return HIDDEN if is_secret(key, value) else value


def parts(value: str) -> Iterator[str]:
    """Yield the secrets within a secret value, which messages can contain without the rest of it."""
    for match in _PART.finditer(value):
        yield next(text for text in match.groupdict().values() if text is not None)
