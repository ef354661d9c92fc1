"""The secret that nodes of a flow sign requests with (KIP-507), created by the leader and stored in the config topic.

    key      session-key
    value    {"key":"<base64>","algorithm":"HmacSHA256","creation-timestamp":1763740800000}

The leader creates a new key if there is none, if the key is older than `KeyRules.ttl_ms`, or if the file sets another
algorithm or size. All nodes, including the leader, use the key in the topic.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

SESSION_KEY = b"session-key"
"""The key of the record in ``mm2-configs.A.internal``."""

SMALLEST_BITS = 40
"""Minimum of inter.worker.key.size; Java's generators of SHA-2 and SHA-3 keys reject smaller sizes."""

_KEY_BYTES: Mapping[str, int] = {
    "HmacMD5": 64,
    "HmacSHA1": 64,
    "HmacSHA224": 28,
    "HmacSHA256": 32,
    "HmacSHA384": 48,
    "HmacSHA512": 64,
    "HmacSHA512/224": 28,
    "HmacSHA512/256": 32,
    "HmacSHA3-224": 28,
    "HmacSHA3-256": 32,
    "HmacSHA3-384": 48,
    "HmacSHA3-512": 64,
}
"""Java's key generators and the default size of their keys in bytes."""

KEY_ALGORITHMS = tuple(_KEY_BYTES)
"""Algorithms that keys can be created with. Any key can be used with any MAC."""

_BY_LOWER_CASE = {name.lower(): size for name, size in _KEY_BYTES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """A session key. ``created_ms``: creation time in epoch milliseconds of the leader's clock."""

    secret: bytes = field(repr=False)
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRules:
    """inter.worker.key.*: ``bits`` None is the algorithm's default size; with ``ttl_ms`` 0 a key never expires."""

    algorithm: str = "HmacSHA256"
    bits: int | None = None
    ttl_ms: int = 3_600_000


def makes_keys(algorithm: str) -> bool:
    """Return whether keys can be created with ``algorithm``, in any case."""
    return algorithm.lower() in _BY_LOWER_CASE


def key_bytes(rules: KeyRules) -> int:
    """Return the size of a new key in bytes. Raises ValueError for an algorithm or a size that Java rejects."""
    if not makes_keys(rules.algorithm):
        raise ValueError(f"{rules.algorithm!r} is not a key algorithm; supported are {', '.join(KEY_ALGORITHMS)}")
    if rules.bits is None:
        return _BY_LOWER_CASE[rules.algorithm.lower()]
    if rules.bits < SMALLEST_BITS:
        raise ValueError(f"a key of {rules.bits} bits is too short: must be at least {SMALLEST_BITS}")
    return (rules.bits + 7) // 8


def new_session_key(rules: KeyRules, now_ms: int, random_bytes: Callable[[int], bytes]) -> SessionKey:
    """Return a new key for the leader to write.

    ``random_bytes``: returns that many cryptographically secure bytes (``secrets.token_bytes``). Raises ValueError as
    `key_bytes`.
    """
    return SessionKey(secret=random_bytes(key_bytes(rules)), algorithm=rules.algorithm, created_ms=now_ms)


def needs_new_key(current: SessionKey | None, rules: KeyRules, now_ms: int) -> str | None:
    """Return why the leader must create a new key now, for the log; None if the current one is valid.

    Raises ValueError as `key_bytes`.
    """
    if current is None:
        return "there is no session key yet"
    if rules.ttl_ms > 0 and now_ms - current.created_ms >= rules.ttl_ms:
        return f"the session key is {now_ms - current.created_ms} ms old, inter.worker.key.ttl.ms = {rules.ttl_ms}"
    if current.algorithm != rules.algorithm:
        return f"the algorithm of the session key is {current.algorithm}, the file requires {rules.algorithm}"
    if len(current.secret) != key_bytes(rules):
        return f"the session key has {len(current.secret)} bytes, the file requires {key_bytes(rules)}"
    return None


def encode_session_key(key: SessionKey) -> bytes:
    """Return the record's value as Java writes it."""
    fields = {
        "key": base64.b64encode(key.secret).decode("ascii"),
        "algorithm": key.algorithm,
        "creation-timestamp": key.created_ms,
    }
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def decode_session_key(value: bytes) -> SessionKey:
    """Read the record's value. Raises FormatError; its message never contains the key."""
    try:
        fields = decode_json(value, "session key")
    except FormatError:
        raise FormatError("the session key is not JSON") from None  # without the text, which contains the key
    match fields:
        case {"key": str(text), "algorithm": str(algorithm), "creation-timestamp": int(created)}:
            return SessionKey(secret=_secret(text), algorithm=algorithm, created_ms=created)
    raise FormatError("the session key is not {key, algorithm, creation-timestamp}")


def _secret(text: str) -> bytes:
    try:
        secret = base64.b64decode(text, validate=True)
    except ValueError:
        secret = b""
    if not secret:
        raise FormatError("the session key is not base64, or empty")
    return secret
