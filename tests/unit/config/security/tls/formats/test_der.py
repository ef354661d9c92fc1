from __future__ import annotations

import pytest

from mm2.config.security.tls.formats.der import OCTETS, DerError, encode, parse


@pytest.mark.parametrize("size", [0, 1, 127, 128, 255, 256, 70_000])
def test_lengths(size: int) -> None:
    element = parse(encode(OCTETS, bytes(size)))
    assert (element.tag, element.content) == (OCTETS, bytes(size))


@pytest.mark.parametrize("raw", [b"", b"\x04", b"\x04\x02a", b"\x04\x80a\x00\x00", b"\x04\x01ab", b"\x04\x82\x01"])
def test_no_der(raw: bytes) -> None:
    with pytest.raises(DerError):
        parse(raw)
