"""The leader's configuration fingerprint in the config topic: bytes and invalid records."""

from __future__ import annotations

import pytest

from mm2.core.coordination.config_fingerprint import ConfigFingerprint, decode_fingerprint, encode_fingerprint
from mm2.core.wire.formats import FormatError

FINGERPRINT = ConfigFingerprint(node="n1", digest="1-x", terms={"topics": "ä.*", "tasks.max": "4"})


def test_fingerprint_is_json_with_sorted_keys() -> None:
    assert (
        encode_fingerprint(FINGERPRINT).decode()
        == '{"digest":"1-x","node":"n1","terms":{"tasks.max":"4","topics":"ä.*"}}'
    )


def test_round_trip() -> None:
    assert decode_fingerprint(encode_fingerprint(FINGERPRINT)) == FINGERPRINT
    assert decode_fingerprint(None) is None


@pytest.mark.parametrize(
    "value",
    [b"\xff", b"{", b"[]", b'{"digest":"1-x","node":"n1"}', b'{"digest":"1-x","node":"n1","terms":{"tasks.max":4}}'],
)
def test_invalid_records_are_rejected(value: bytes) -> None:
    with pytest.raises(FormatError, match="cannot read config fingerprint: "):
        decode_fingerprint(value)
