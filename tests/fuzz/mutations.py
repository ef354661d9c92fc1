"""Random changes of valid encodings."""

from __future__ import annotations

import random

NUMBERS = (0, 1, -1, 2, 7, 0x7F, 0x80, 0xFF, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**62)
PIECES = (
    b"",
    b"\xff" * 9,
    b"\xff" * 300,
    b"\x80" * 12,
    b"\x00" * 40,
    b"\x01" * 40,
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xfe\xff\xff\xff\x0f",
    b'"' * 9,
    b"[" * 2_000,
    b'{"a":' * 300,
    b"\\ud800",
    b"1e999",
    b"NaN",
    b"null",
    b"9" * 400,
    b"\xed\xa0\x80",
    b"=" * 5,
)
MOST_BYTES = 1 << 20


def mutated(rng: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    """Return one of the valid encodings with one to eight changes."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5, 8))):
        _change(rng, data, seeds)
    return bytes(data[:MOST_BYTES])


def _change(rng: random.Random, data: bytearray, seeds: tuple[bytes, ...]) -> None:
    at = rng.randint(0, len(data))
    until = min(len(data), at + rng.choice((0, 1, 2, 4, 8, 30, 1_000)))
    match rng.randrange(8):
        case 0 if data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        case 1 if data:
            data[at % len(data)] = rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
        case 2:
            del data[at:until]
        case 3:
            data[at:at] = data[at:until] * rng.choice((1, 2, 50))
        case 4:
            width = rng.choice((1, 2, 4, 8))
            number = rng.choice(NUMBERS) % (1 << 8 * width)
            data[at : at + width] = number.to_bytes(width, rng.choice(("big", "little")))
        case 5:
            data[at:until] = rng.choice(PIECES)
        case 6:
            other = rng.choice(seeds)
            start = rng.randint(0, len(other))
            data[at:] = other[start:]
        case _:
            del data[at:]
