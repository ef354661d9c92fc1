"""Which values nobody may see printed."""

from __future__ import annotations

import re

HIDDEN = "[hidden]"

_SECRET_NAME = re.compile(
    r"passw|passphrase|secret|jaas|credential|token(?!\.endpoint)|basic\.auth|accesskey|access\.key"
    r"|keystore\.key$|certificate\.chain$|truststore\.certificates$",
    re.IGNORECASE,
)
"""Java's PASSWORD keys, and what Spark and other tools call theirs: Spark redacts secret, password, token and
access key in its own displays too."""

_SECRET_VALUE = re.compile(r"LoginModule|password\s*=|-----BEGIN", re.IGNORECASE)
"""A secret under a misspelt key is still a secret."""


def is_secret(key: str, value: str) -> bool:
    """True when ``value`` must be shown as ``[hidden]``, by the name of its key or by what it looks like."""
    return bool(_SECRET_NAME.search(key) or _SECRET_VALUE.search(value))


def shown(key: str, value: str) -> str:
    """The value as it may be printed."""
    return HIDDEN if is_secret(key, value) else value
