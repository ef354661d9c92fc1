"""JSON from outside: what is read, and what is rejected."""

from __future__ import annotations

import json
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import _is_deep, as_int, decode_json


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


@pytest.mark.parametrize(
    "raw",
    [
        b'["' + b"x" * 15_000_000 + b'",' + b"[]," * 100 + b"1]",
        b"[" + b'"",' * 200_000 + b"[]," * 100 + b"1]",
        b"[" + rb'"\\\"[",' * 200_000 + b"[]," * 100 + b"1]",
        b"[" + b"[1]," * 200_000 + b"1]",
    ],
    ids=["one string", "empty strings", "escapes", "lists"],
)
def test_the_depth_is_found_in_little_memory(raw: bytes) -> None:
    tracemalloc.start()
    try:
        text = raw.decode()
        begun = time.thread_time()
        assert not _is_deep(text)
        assert _is_deep(text[:-1] + "," + "[" * 64)
        assert time.thread_time() - begun < 5
        assert tracemalloc.get_traced_memory()[1] < 6 * len(raw) + (4 << 20)
    finally:
        tracemalloc.stop()


@given(
    st.recursive(
        st.text('\\"[]{}', max_size=9) | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text('\\"[]{}'), inner),
    )
)
def test_levels_are_counted_outside_of_strings(value: object) -> None:
    def depth(one: object) -> int:
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    text = json.dumps(value)
    assert depth(value) < 50
    nested = "[" * (64 - depth(value)) + text + "]" * (64 - depth(value))
    assert not _is_deep(nested)
    assert _is_deep(f"[{nested}]")
