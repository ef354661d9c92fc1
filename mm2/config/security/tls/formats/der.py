"""Elements of ASN.1 in DER, as far as the structure of key stores needs them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

INTEGER, OCTETS, SEQUENCE, EXPLICIT = 0x02, 0x04, 0x30, 0xA0
"""Tags of INTEGER, OCTET STRING, SEQUENCE and [0] EXPLICIT."""

_LONG = 0x80  # of a length: the number of bytes that contain it follows


class DerError(Exception):
    """The bytes are not DER."""


@dataclass(frozen=True, slots=True)
class Element:
    """One element: its tag byte, its content, and all its bytes."""

    tag: int
    content: bytes
    raw: bytes

    @property
    def children(self) -> tuple[Element, ...]:
        """The elements of a constructed element. Raises DerError."""
        return tuple(_elements(self.content))


def parse(raw: bytes) -> Element:
    """Return the element that ``raw`` consists of. Raises DerError."""
    found = list(_elements(raw))
    if len(found) != 1:
        raise DerError
    return found[0]


def encode(tag: int, content: bytes) -> bytes:
    """Return the encoding of one element."""
    if len(content) < _LONG:
        return bytes((tag, len(content))) + content
    size = len(content).to_bytes((len(content).bit_length() + 7) // 8)
    return bytes((tag, _LONG | len(size))) + size + content


def _elements(raw: bytes) -> Iterator[Element]:
    at = 0
    while at < len(raw):
        start, length, at = at, raw[at + 1 : at + 2], at + 2
        if not length or length[0] == _LONG:  # the latter: a length that is known only at the end, in BER
            raise DerError
        size = length[0]
        if size > _LONG:
            at, digits = at + size - _LONG, raw[at : at + size - _LONG]
            size = int.from_bytes(digits)
        if at + size > len(raw):
            raise DerError
        yield Element(raw[start], raw[at : at + size], raw[start : at + size])
        at += size
