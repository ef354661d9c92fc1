from __future__ import annotations

import pytest

from mm2.core.coordination.session_keys import KeyRules, SessionKey, decode_session_key, needs_new_key, new_session_key
from mm2.core.wire.formats import FormatError

KEY = SessionKey(secret=bytes(32), algorithm="HmacSHA256", created_ms=1_000_000)


@pytest.mark.parametrize(
    ("key", "rules", "now_ms", "why"),
    [
        (None, KeyRules(), 0, "there is no session key yet"),
        (KEY, KeyRules(), 4_599_999, None),
        (KEY, KeyRules(), 4_600_000, "is 3600000 ms old"),
        (KEY, KeyRules(ttl_ms=0), 2**60, None),
        (KEY, KeyRules(), 0, None),  # created by a leader whose clock is ahead
        (KEY, KeyRules(algorithm="HmacSHA512"), 1_000_000, "is HmacSHA256, the file requires HmacSHA512"),
        (KEY, KeyRules(bits=128), 1_000_000, "has 32 bytes, the file requires 16"),
        (KEY, KeyRules(bits=250), 1_000_000, None),
    ],
)
def test_reasons_for_a_new_key(key: SessionKey | None, rules: KeyRules, now_ms: int, why: str | None) -> None:
    reason = needs_new_key(key, rules, now_ms)
    assert reason == why if reason is None or why is None else why in reason


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff\xff",
        b"[]",
        b'{"key":"geheim"',
        b'{"key":"geheim","algorithm":"HmacSHA256"}',
        b'{"key":"geheim!","algorithm":"HmacSHA256","creation-timestamp":1}',
        b'{"key":"","algorithm":"HmacSHA256","creation-timestamp":1}',
        b'{"key":1,"algorithm":"HmacSHA256","creation-timestamp":1}',
        b'{"key":"Z2VoZWlt","algorithm":"HmacSHA256","creation-timestamp":"now"}',
    ],
)
def test_invalid_records(value: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode_session_key(value)
    assert "geheim" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_new_key_is_valid() -> None:
    rules = KeyRules(algorithm="HmacSHA3-384", bits=130, ttl_ms=10)
    key = new_session_key(rules, 1_000, bytes)
    assert key == SessionKey(secret=bytes(17), algorithm="HmacSHA3-384", created_ms=1_000)
    assert needs_new_key(key, rules, 1_009) is None
    assert needs_new_key(key, rules, 1_010) is not None
    with pytest.raises(ValueError, match="is not a key algorithm"):
        new_session_key(KeyRules(algorithm="AES"), 0, bytes)


def test_secret_is_hidden() -> None:
    assert "secret" not in repr(SessionKey(secret=b"open sesame", algorithm="HmacSHA256", created_ms=1))
