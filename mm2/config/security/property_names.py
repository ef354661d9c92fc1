"""Names of security properties as the file must contain them."""

from __future__ import annotations

from mm2.config.grammar.values import Value


def sibling(value: Value, name: str, other: str) -> str:
    """Return the key of property ``other`` at the level where ``value``, property ``name``, was set.

    ``A.ssl.truststore.location`` has the sibling ``A.ssl.truststore.type``.
    """
    assert value.entry is not None, f"{name} was not set in the file"
    return value.entry.key.removesuffix(name) + other
