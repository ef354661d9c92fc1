"""Signatures and session keys, compared with vectors of Java 4.3.1 (java/RestVectors.java)."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.core.coordination.request_signing import (
    ALGORITHM_HEADER,
    SIGNATURE_HEADER,
    BadSignatureError,
    Fault,
    check_headers,
    is_mac,
    sign,
)
from mm2.core.coordination.session_keys import (
    KeyRules,
    SessionKey,
    decode_session_key,
    encode_session_key,
    key_bytes,
    makes_keys,
)
from tests.golden.vectors import java_vectors

Vector = dict[str, Any]

NOT_HERE = {"HmacSHA512/224", "HmacSHA512/256"}
"""MAC algorithms that some Python builds lack."""

VERDICTS = {Fault.MISSING: "missing", Fault.MALFORMED: "bad"}


@pytest.mark.parametrize("vector", java_vectors("request-signatures"), ids=lambda vector: vector["algorithm"])
def test_same_signatures_as_java(vector: Vector) -> None:
    secret, body = bytes.fromhex(vector["secret"]), bytes.fromhex(vector["body"] or "")
    algorithm, headers = vector["algorithm"], vector["headers"]
    if algorithm in NOT_HERE:
        headers = None
    assert is_mac(algorithm) == (headers is not None)
    if headers is None:
        with pytest.raises(ValueError, match="is not a signature algorithm"):
            sign(secret, body, algorithm)
        return
    assert sign(secret, body, algorithm) == headers
    check_headers(
        signature=headers[SIGNATURE_HEADER],
        algorithm=headers[ALGORITHM_HEADER],
        key=SessionKey(secret=secret, algorithm="HmacSHA256", created_ms=0),
        accepted=(algorithm,),
    ).verify(body)


@pytest.mark.parametrize("vector", java_vectors("request-headers"), ids=lambda vector: repr(vector["signature"]))
def test_same_signature_verdicts_as_java(vector: Vector) -> None:
    algorithm, verdict = vector["algorithm"], vector["verdict"]
    key = SessionKey(secret=bytes((1, 2, 3)), algorithm="HmacSHA256", created_ms=0)
    given = {"signature": vector["signature"], "algorithm": algorithm}
    if verdict == f"{algorithm} right":
        check_headers(**given, key=key, accepted=[algorithm]).verify(b"[]")
        return
    with pytest.raises(BadSignatureError) as caught:
        check_headers(**given, key=key, accepted=[str(algorithm)]).verify(b"[]")
    assert VERDICTS.get(caught.value.fault, f"{algorithm} wrong") == verdict


@pytest.mark.parametrize(
    "vector", java_vectors("session-keys"), ids=lambda vector: f"{vector['algorithm']} {vector['bits']}"
)
def test_same_key_sizes_as_java(vector: Vector) -> None:
    rules = KeyRules(algorithm=vector["algorithm"], bits=vector["bits"])
    java = vector["bytes"]
    if rules.algorithm == "AES" or (rules.algorithm in ("HmacMD5", "HmacSHA1") and rules.bits == 39):
        java = None  # not a signature algorithm; Java rounds 39 bits up before it rejects them as too short
    if java is None:
        with pytest.raises(ValueError, match=r"is not a key algorithm|too short"):
            key_bytes(rules)
    else:
        assert makes_keys(rules.algorithm)
        assert key_bytes(rules) == java


@pytest.mark.parametrize("vector", java_vectors("session-key-records"), ids=lambda vector: vector["record"][:20])
def test_same_key_records_as_java(vector: Vector) -> None:
    key = SessionKey(
        secret=bytes.fromhex(vector["secret"]), algorithm=vector["algorithm"], created_ms=vector["created"]
    )
    assert encode_session_key(key) == vector["record"].encode()
    assert decode_session_key(vector["record"].encode()) == key
