"""The secret that nodes of a flow sign their requests with (KIP-507): made by the leader, spread by the config topic.

    key      session-key
    value    {"key":"<base64>","algorithm":"HmacSHA256","creation-timestamp":1763740800000}       (mm2-compat §2.4)

The leader makes a new one when there is none, when it has lived for `KeyRules.ttl_ms`, or when the file asks for
another algorithm or size. Everybody else, and the leader itself, uses what stands in the topic.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mm2.core.formats import FormatError

SESSION_KEY = b"session-key"
"""The key of the record in ``mm2-configs.A.internal``."""

SMALLEST_BITS = 40
"""Of inter.worker.key.size; Java's generators of SHA-2 and SHA-3 keys refuse smaller ones."""

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
"""Java's key generators and the size of their keys where none is asked for."""

KEY_ALGORITHMS = tuple(_KEY_BYTES)
"""What keys can be made with. Any key can be used with any MAC."""

_BY_LOWER_CASE = {name.lower(): size for name, size in _KEY_BYTES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """``created_ms``: when the leader made it, in milliseconds since 1970 by its own clock."""

    secret: bytes = field(repr=False)
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRules:
    """inter.worker.key.*: ``bits`` None is the algorithm's own size, ``ttl_ms`` 0 lets a key live for ever."""

    algorithm: str = "HmacSHA256"
    bits: int | None = None
    ttl_ms: int = 3_600_000


def makes_keys(algorithm: str) -> bool:
    """Whether keys can be made with ``algorithm``, in any case."""
    return algorithm.lower() in _BY_LOWER_CASE


def key_bytes(rules: KeyRules) -> int:
    """How many random bytes a new key is made of. Raises ValueError for an algorithm or a size that Java refuses."""
    if not makes_keys(rules.algorithm):
        raise ValueError(f"{rules.algorithm!r} makes no keys; known are {', '.join(KEY_ALGORITHMS)}")
    if rules.bits is None:
        return _BY_LOWER_CASE[rules.algorithm.lower()]
    if rules.bits < SMALLEST_BITS:
        raise ValueError(f"a key of {rules.bits} bits is too short: {SMALLEST_BITS} are the least")
    return (rules.bits + 7) // 8


def new_session_key(rules: KeyRules, now_ms: int, random_bytes: Callable[[int], bytes]) -> SessionKey:
    """A key for the leader to write. ``random_bytes``: from a number to as many that nobody can foretell
    (``secrets.token_bytes``). Raises ValueError as `key_bytes`."""
    return SessionKey(secret=random_bytes(key_bytes(rules)), algorithm=rules.algorithm, created_ms=now_ms)


def needs_new_key(current: SessionKey | None, rules: KeyRules, now_ms: int) -> str | None:
    """Why the leader must make a new key now, for the log; None: the current one is good. Raises ValueError as
    `key_bytes`."""
    if current is None:
        return "there is no session key yet"
    if rules.ttl_ms > 0 and now_ms - current.created_ms >= rules.ttl_ms:
        return f"the session key is {now_ms - current.created_ms} ms old, inter.worker.key.ttl.ms = {rules.ttl_ms}"
    if current.algorithm != rules.algorithm:
        return f"the session key was made by {current.algorithm}, the file asks for {rules.algorithm}"
    if len(current.secret) != key_bytes(rules):
        return f"the session key has {len(current.secret)} bytes, the file asks for {key_bytes(rules)}"
    return None


def encode_session_key(key: SessionKey) -> bytes:
    """The record's value as Java writes it."""
    fields = {
        "key": base64.b64encode(key.secret).decode("ascii"),
        "algorithm": key.algorithm,
        "creation-timestamp": key.created_ms,
    }
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def decode_session_key(value: bytes) -> SessionKey:
    """Raises FormatError; its text never holds the key."""
    try:
        fields = json.loads(value)
    except ValueError:
        raise FormatError("the session key is no JSON") from None  # json's error carries the whole text
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
