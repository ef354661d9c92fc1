"""Orders of a shop, of which a tenth are tests: what flows with a query, or with Java's transformations, get.

The JSON of a test order says so, and it has a header `TEST` as well: the transformations that Java has for the values
of MirrorMaker cannot read JSON.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from tests.bench.payloads import CUSTOMERS, KINDS, SEED, text
from tests.lab.records import Outgoing

TEST = "test"
TESTS_EVERY = 10
CARD = re.compile(rb"\d{4}-\d{4}-\d{4}")
MASK = b"****-****-****"


def orders(count: int, *, value_bytes: int, partitions: int, now_ms: int, seed: int = SEED) -> Iterator[Outgoing]:
    """Yield ``count`` orders as `tests.bench.payloads.events` does, each with a card number and ``test``."""
    rng = random.Random(seed)
    notes = text(rng)
    places = len(notes) - value_bytes
    for number in range(count):
        bits = rng.getrandbits(96)
        customer = bits % CUSTOMERS
        is_test = (bits >> 16) % TESTS_EVERY == 0
        card = b"%04d-%04d-%04d-%04d" % tuple(rng.randrange(10_000) for _ in range(4))
        start = b'{"event":"%b","id":"%012x","test":%b,"customer":%d,"card":"%b","cents":%d,"note":"' % (
            KINDS[(bits >> 16) % len(KINDS)],
            bits >> 48,
            b"true" if is_test else b"false",
            customer,
            card,
            (bits >> 20) % 100_000,
        )
        place = (bits >> 40) % places
        note = notes[place : place + value_bytes - len(start) - 2]
        yield Outgoing(
            key=b"customer-%d" % customer,
            value=start + note + b'"}',
            headers=((TEST, b""),) if is_test else (),
            timestamp_ms=now_ms - count + 1 + number,
            partition=customer % partitions,
        )
