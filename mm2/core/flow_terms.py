"""What the file of a flow's leader says of the flow, as the leader keeps it in ``mm2-configs.*`` for every node.

    mm2-terms       {"digest":"1-0123456789abcdef","node":"n1","terms":{"topics":"orders.*"}}

Nodes whose files say something else can name the keys by it. No secret is among the terms (`mm2.config.agreement`).
Java skips the key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mm2.core.formats import FormatError

KEY = b"mm2-terms"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowTerms:
    """``node``: whose file it is. ``terms``: key to value, where it is not the default. ``digest``: all of them in
    one word."""

    node: str
    digest: str
    terms: Mapping[str, str]


def encode_terms(terms: FlowTerms) -> bytes:
    """The record's value."""
    value = {"digest": terms.digest, "node": terms.node, "terms": dict(sorted(terms.terms.items()))}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode_terms(value: bytes | None) -> FlowTerms | None:
    """None: no leader has said anything. Raises FormatError."""
    if value is None:
        return None
    try:
        message: Any = json.loads(value.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"read terms: {error}: {value!r:.200}") from None
    match message:
        case {"digest": str(digest), "node": str(node), "terms": dict(terms)} if all(
            isinstance(text, str) for text in terms.values()
        ):
            return FlowTerms(node=node, digest=digest, terms=terms)
    raise FormatError(f"read terms: it is not {{digest, node, terms}}: {value!r:.200}")
