"""Fingerprints of records, and of sequences of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from struct import Struct

PRIME = (1 << 61) - 1
"""Fingerprints of sequences are numbers below this Mersenne prime: two different ones are equal once in 10^18."""

_BASE = 0x0F2B_4C67_9A3D_51E9  # any number between the size of a record's fingerprint and the prime
_BYTES = 8
_LENGTH = Struct(">q")
_NULL = _LENGTH.pack(-1)

Headers = Iterable[tuple[str, bytes | None]]


def fingerprint(*, key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int | None) -> int:
    """Return the fingerprint of a record, a number of 64 bits. ``timestamp_ms`` None: equal ones can differ in it."""
    digest = blake2b(digest_size=_BYTES)
    digest.update(_NULL if timestamp_ms is None else b"t" + _LENGTH.pack(timestamp_ms))
    for part in (key, value):
        _add(digest.update, part)
    for name, content in headers:
        _add(digest.update, name.encode(errors="surrogatepass"))
        _add(digest.update, content)
    return int.from_bytes(digest.digest(), "big")


def _add(update: Callable[[bytes], None], part: bytes | None) -> None:
    if part is None:
        update(_NULL)
    else:
        update(_LENGTH.pack(len(part)))
        update(part)


class Sequence61:
    """The fingerprint of all records so far, from which that of any part can be computed."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, record: int) -> None:
        """Add the fingerprint of the next record."""
        self.value = (self.value * _BASE + record) % PRIME


def part(start: int, end: int, records: int) -> int:
    """Return the fingerprint of the last ``records`` records, by those of the sequence before and after them."""
    return (end - start * pow(_BASE, records, PRIME)) % PRIME
