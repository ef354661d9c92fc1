"""Which values nobody may see printed."""

from __future__ import annotations

import re

HIDDEN = "[hidden]"

_SENSITIVE = (
    r"passw|passphrase|secret|jaas|credential|token(?!\.endpoint)|basic\.auth|access\.?key"
    r"|keystore\.key\b|certificate\.chain\b|truststore\.certificates\b"
)
"""Java's PASSWORD keys, and what Spark and other tools call theirs: Spark redacts secret, password, token and
access key in its own displays too."""

_SECRET_NAME = re.compile(_SENSITIVE, re.IGNORECASE)
_SECRET_VALUE = re.compile(rf"LoginModule|-----BEGIN|(?:{_SENSITIVE})[\w.]*\s*[=:]", re.IGNORECASE)
"""A secret under a misspelt key is still a secret, and so is one that a stray backslash joined to the line before."""


_REFERENCE = re.compile(r"\$\{[^}]*\}")
"""``${dir:/run/secrets:password}`` says where a secret is, not what it is."""


def is_secret(key: str, value: str) -> bool:
    """True when ``value`` must be shown as ``[hidden]``, by the name of its key or by what it looks like."""
    return bool(_SECRET_NAME.search(key) or _SECRET_VALUE.search(_REFERENCE.sub("", value)))


def shown(key: str, value: str) -> str:
    """The value as it may be printed."""
    return HIDDEN if is_secret(key, value) else value
