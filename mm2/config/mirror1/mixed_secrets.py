"""Secrets that are written beside references of config providers, in one value."""

from __future__ import annotations

import re

from mm2.config.grammar.properties import Entry
from mm2.config.grammar.providers import without_references
from mm2.config.grammar.secrets import is_secret
from mm2.config.security import jaas
from mm2.config.security.sasl_properties import JAAS

_REFERENCE = "REFERENCE"
_PUBLIC_OPTIONS = frozenset({"username", "principal", "servicename", "keytab", "usekeytab", "ticketcache"})
"""Options of login modules, in lower case, whose values are not secret. Those of other modules are not known here."""
_PUBLIC_VALUES = frozenset({"", "true", "false"})
_COMMENT = re.compile(r"//|/\*")


def has_mixed_secret(entry: Entry) -> bool:
    """Return whether a line with references can also contain a secret in plain text."""
    if not is_secret(entry.key, entry.raw):
        return False
    rest = without_references(entry.raw)
    return bool(rest.strip()) if entry.key != JAAS else _has_secret_option(entry.raw)


def _has_secret_option(raw: str) -> bool:
    """Return whether an option of a login module, or a comment, can be a secret, or the text is no login module."""
    text = without_references(raw, _REFERENCE)
    if _COMMENT.search(text):
        return True
    try:
        module = jaas.parse(text)
    except jaas.JaasError:
        return True
    return any(
        name.lower() not in _PUBLIC_OPTIONS and value.replace(_REFERENCE, "").lower() not in _PUBLIC_VALUES
        for name, value in module.options.items()
    )
