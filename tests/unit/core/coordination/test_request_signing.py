from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.coordination.request_signing import (
    ALGORITHM_HEADER,
    MAC_ALGORITHMS,
    OWN_SIGNATURE_HEADER,
    REQUEST_HEADER,
    SIGNATURE_HEADER,
    VALID_MS,
    BadSignatureError,
    Fault,
    RequestLine,
    SeenRequests,
    check_headers,
    command_secret,
    request_id,
    sign,
)
from mm2.core.coordination.session_keys import SessionKey

KEY = SessionKey(secret=b"k" * 32, algorithm="HmacSHA256", created_ms=0)
OTHER = SessionKey(secret=b"o" * 32, algorithm="HmacSHA256", created_ms=0)
BODY = '[{"name": "größe"}]'.encode()
SIGNED = sign(KEY.secret, BODY, "HmacSHA256")[SIGNATURE_HEADER]


def fault(
    *,
    signature: str | None = SIGNED,
    algorithm: str | None = "HmacSHA256",
    body: bytes = BODY,
    key: SessionKey | None = KEY,
    accepted: tuple[str, ...] = ("HmacSHA256",),
) -> Fault | None:
    try:
        check_headers(signature=signature, algorithm=algorithm, key=key, accepted=accepted).verify(body)
    except BadSignatureError as error:
        return error.fault
    return None


def test_valid_signature() -> None:
    assert fault() is None


@pytest.mark.parametrize("algorithm", MAC_ALGORITHMS)
def test_every_algorithm(algorithm: str) -> None:
    headers = sign(KEY.secret, BODY, algorithm)
    found = fault(signature=headers[SIGNATURE_HEADER], algorithm=headers[ALGORITHM_HEADER], accepted=(algorithm,))
    assert found is None


def test_different_body_key_or_algorithm() -> None:
    assert fault(body=BODY + b" ") is Fault.WRONG
    assert fault(body=b"") is Fault.WRONG
    assert fault(key=OTHER) is Fault.WRONG
    assert fault(algorithm="HmacSHA512", accepted=("HmacSHA512",)) is Fault.WRONG
    assert fault(signature="") is Fault.WRONG


def test_faults_in_the_order_of_java() -> None:
    nothing: tuple[str, ...] = ()
    assert fault(signature=None, algorithm="none", key=None, accepted=nothing) is Fault.MISSING
    assert fault(algorithm=None, signature="!", key=None, accepted=nothing) is Fault.MISSING
    assert fault(algorithm="none", key=None, accepted=nothing) is Fault.MALFORMED
    assert fault(signature="!", key=None, accepted=nothing) is Fault.MALFORMED
    assert fault(key=None, accepted=nothing) is Fault.NOT_ACCEPTED
    assert fault(key=None) is Fault.NO_KEY
    assert fault(key=OTHER) is Fault.WRONG


def test_algorithm_names_are_case_sensitive_as_in_java() -> None:
    assert fault(algorithm="hmacsha256") is Fault.NOT_ACCEPTED
    assert fault(algorithm="hmacsha256", accepted=("hmacsha256",)) is None


def test_requests_are_remembered_until_they_are_too_old() -> None:
    now_ms = 1_000_000
    seen = SeenRequests(lambda: now_ms, lambda: now_ms, most=2)

    def receive(sent_ms: int, nonce: int) -> Fault | None:
        try:
            seen.add(seen.check(request_id(sent_ms, bytes([nonce] * 16))))
        except BadSignatureError as error:
            return error.fault
        return None

    first = now_ms + VALID_MS
    assert receive(first + 1, 1) is Fault.STALE
    assert receive(first, 1) is None, "a request of a node whose clock is ahead"
    assert receive(now_ms - 1, 2) is Fault.STALE, "it can have been received before this node started"
    assert receive(now_ms, 2) is None
    assert receive(now_ms, 3) is Fault.TOO_MANY
    now_ms += 2 * VALID_MS
    assert receive(first, 1) is Fault.REPEATED
    now_ms += 1
    assert receive(first, 1) is Fault.STALE
    assert receive(now_ms, 3) is None


REQUEST = RequestLine(
    method="PUT", node_url="http://node-2:8083/", path="/flows/A/B/pause?topic=t", id=request_id(1_000_000, b"n" * 16)
)


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, method="GET"),
        replace(REQUEST, node_url="http://node-3:8083"),
        replace(REQUEST, path="/flows/A/B/resume?topic=t"),
        replace(REQUEST, path="/flows/A/B/pause"),
        replace(REQUEST, id=request_id(1_000_001, b"n" * 16)),
    ],
)
def test_our_signature_fits_one_request_only(other: RequestLine) -> None:
    headers = REQUEST.sign(KEY.secret, BODY, "HmacSHA256")
    assert headers[REQUEST_HEADER] == REQUEST.id
    signature = check_headers(
        signature=headers[OWN_SIGNATURE_HEADER],
        algorithm=headers[ALGORITHM_HEADER],
        key=KEY,
        accepted=("HmacSHA256",),
    )
    signature.verify(replace(REQUEST, node_url="http://node-2:8083").content(BODY))
    for content in (other.content(BODY), REQUEST.content(b""), BODY):
        with pytest.raises(BadSignatureError) as raised:
            signature.verify(content)
        assert raised.value.fault is Fault.WRONG


def test_commands_are_signed_with_another_key_than_they_are_read_with() -> None:
    secrets = {command_secret(KEY.secret, "t" * 16), command_secret(KEY.secret, "u" * 16), KEY.secret}
    assert len(secrets) == 3


@pytest.mark.parametrize(
    ("id", "expected"), [(None, Fault.MISSING), ("1000000", Fault.MALFORMED), (f"-1-{'0' * 32}", Fault.MALFORMED)]
)
def test_requests_without_a_valid_id(id: str | None, expected: Fault) -> None:
    with pytest.raises(BadSignatureError) as raised:
        SeenRequests(lambda: 1_000_000, lambda: 0).check(id)
    assert raised.value.fault is expected


def test_nothing_is_signed_with_an_unknown_algorithm() -> None:
    with pytest.raises(ValueError, match="'none' is not a signature algorithm; supported are HmacMD5,"):
        REQUEST.sign(KEY.secret, BODY, "none")


def test_requests_are_accepted_after_the_clock_was_set_back() -> None:
    """A machine whose clock is ahead when the node starts, and is then synchronized."""
    now_ms, monotonic_ms, hour_ms = 10_000_000, 500, 3_600_000
    seen = SeenRequests(lambda: now_ms, lambda: monotonic_ms)
    now_ms, monotonic_ms = now_ms - hour_ms + 2_000, monotonic_ms + 2_000
    assert seen.check(request_id(now_ms, bytes(16)))
    before = request_id(now_ms - 2_001, bytes(16))
    with pytest.raises(BadSignatureError, match="sent before this node started"):
        seen.check(before)
