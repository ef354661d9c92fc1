"""Realistic events of a shop: JSON with a fixed structure, varying numbers, and partly repetitive text.

The same seed gives the same bytes. lz4 halves the size of a batch, as with real JSON. Random bytes would not compress
and padding would compress away; either would dominate the benchmark.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.lab.records import Outgoing

SEED = 20_240_601
CUSTOMERS = 10_000  # number of keys: enough to fill partitions evenly
VOCABULARY = 300  # number of words in the text
PROSE_BYTES = 4 << 20  # far more than lz4's window of 64 kB, so that a slice rarely repeats within it
KINDS = (b"viewed", b"added", b"ordered", b"paid", b"shipped", b"returned")
SYLLABLES = (
    "ba be bi bo da de di do ka ke ki ko la le li lo ma me mi mo na ne ni no ra re ri ro sa se si so ta te ti to"
)


def events(count: int, *, value_bytes: int, partitions: int, now_ms: int, seed: int = SEED) -> Iterator[Outgoing]:
    """Yield ``count`` events with values of exactly ``value_bytes`` and timestamps 1 ms apart, the last at ``now_ms``.

    All events of a customer have the same key and partition.
    """
    rng = random.Random(seed)
    prose = text(rng)
    places = len(prose) - value_bytes
    for number in range(count):
        bits = rng.getrandbits(96)
        customer = bits % CUSTOMERS
        at = now_ms - count + 1 + number
        frame = b'{"event":"%b","id":"%012x","customer":%d,"cents":%d,"note":"' % (
            KINDS[(bits >> 16) % len(KINDS)],
            bits >> 48,
            customer,
            (bits >> 20) % 100_000,
        )
        place = (bits >> 40) % places
        note = prose[place : place + value_bytes - len(frame) - 2]
        yield Outgoing(
            key=b"customer-%d" % customer,
            value=frame + note + b'"}',
            timestamp_ms=at,
            partition=customer % partitions,
        )


def text(rng: random.Random) -> bytes:
    """Return `PROSE_BYTES` of words, to take slices of."""
    syllables = SYLLABLES.split()
    vocabulary = ["".join(rng.choices(syllables, k=rng.randrange(2, 6))) for _ in range(VOCABULARY)]
    words: list[str] = []
    size = 0
    while size < PROSE_BYTES:
        words.append(f"{' '.join(rng.choices(vocabulary, k=12))} {rng.getrandbits(24)}")
        size += len(words[-1]) + 1
    return " ".join(words).encode()
