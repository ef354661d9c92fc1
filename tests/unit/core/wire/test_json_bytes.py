"""JSON from outside: what is read, and what is rejected."""

from __future__ import annotations

import pytest

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import as_int, decode_json


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"null", None),
        (bytearray(b'{"a":[1,-2.5,true]}'), {"a": [1, -2.5, True]}),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"[" * 64 + b"]" * 64, None),
        (b'["' + b"[{" * 100 + b'\\"]}"]', ["[{" * 100 + '"]}']),
        (b"[" + b"{}," * 100 + b"{}]", [{}] * 101),
        (b'"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
        (b'"\\\\ud800"', "\\ud800"),
    ],
)
def test_valid_json(raw: bytes, value: object) -> None:
    found = decode_json(raw, "answer")
    assert value is None or found == value


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (None, "it is null"),
        (b"", "Expecting value"),
        (b"\xff", "can't decode byte 0xff"),
        (b"[" * 1_000, "more than 64 levels"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "more than 64 levels"),
        (b"[" + b'"' * 1_000 + b"[" * 1_000, "more than 64 levels"),
        (b"9223372036854775808", "has more than 64 bits"),
        (b"-9223372036854775809", "has more than 64 bits"),
        (b"1" + b"0" * 5_000, "has more than 64 bits"),
        (b"1e999", "too large"),
        (b"[NaN]", "NaN is not JSON"),
        (b"-Infinity", "-Infinity is not JSON"),
        (b'"\\ud800"', "surrogates not allowed"),
    ],
)
def test_invalid_json(raw: bytes | None, reason: str) -> None:
    with pytest.raises(FormatError, match=f"^cannot read answer: .*{reason}"):
        decode_json(raw, "answer")


def test_half_surrogate_pairs_only_where_they_are_expected() -> None:
    assert decode_json(b'"\\ud800"', "topic", surrogates=True) == "\ud800"


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_other_values_are_not_integers(value: object) -> None:
    assert as_int(7) == 7
    with pytest.raises(TypeError, match="is not an integer"):
        as_int(value)
