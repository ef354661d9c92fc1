"""The leader's terms in the config topic: bytes, and what is not one of them."""

from __future__ import annotations

import pytest

from mm2.core.flow_terms import FlowTerms, decode_terms, encode_terms
from mm2.core.formats import FormatError

TERMS = FlowTerms(node="n1", digest="1-x", terms={"topics": "ä.*", "tasks.max": "4"})


def test_terms_are_json_with_sorted_keys() -> None:
    assert encode_terms(TERMS).decode() == '{"digest":"1-x","node":"n1","terms":{"tasks.max":"4","topics":"ä.*"}}'


def test_terms_come_back_as_they_were() -> None:
    assert decode_terms(encode_terms(TERMS)) == TERMS
    assert decode_terms(None) is None


@pytest.mark.parametrize(
    "value",
    [b"\xff", b"{", b"[]", b'{"digest":"1-x","node":"n1"}', b'{"digest":"1-x","node":"n1","terms":{"tasks.max":4}}'],
)
def test_anything_else_is_refused(value: bytes) -> None:
    with pytest.raises(FormatError, match="read terms: "):
        decode_terms(value)
