"""The settings of a flow in its leader's file, published by the leader in ``mm2-configs.*`` for all nodes.

    mm2-terms       {"digest":"1-0123456789abcdef","node":"n1","terms":{"topics":"orders.*"}}

Nodes with different files can name the properties that differ. The terms contain no secrets
(`mm2.config.reload.fingerprint`). Java skips the key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

KEY = b"mm2-terms"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFingerprint:
    """Fingerprint of the file of ``node``. ``terms``: properties with values other than the default. ``digest``: a hash
    of all settings."""

    node: str
    digest: str
    terms: Mapping[str, str]


def encode_fingerprint(terms: ConfigFingerprint) -> bytes:
    """Return the record's value."""
    value = {"digest": terms.digest, "node": terms.node, "terms": dict(sorted(terms.terms.items()))}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode_fingerprint(value: bytes | None) -> ConfigFingerprint | None:
    """Read the record's value; None if no leader has published a fingerprint. Raises FormatError."""
    if value is None:
        return None
    match decode_json(value, "config fingerprint"):
        case {"digest": str(digest), "node": str(node), "terms": dict(terms)} if all(
            isinstance(text, str) for text in terms.values()
        ):
            return ConfigFingerprint(node=node, digest=digest, terms=terms)
    raise FormatError(f"cannot read config fingerprint: not {{digest, node, terms}}: {value!r:.200}")
