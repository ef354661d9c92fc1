"""Records and batches of every shape that a source can contain, generated from a seed."""

from __future__ import annotations

import random

from tests.lab.batches import DELETE_HORIZON, LOG_APPEND_TIME, Batch, Headers, Record

NOW = 1_700_000_000_000
NAMES = ("", "h", "twice", "größe", "x" * 200)


def _nullable(rng: random.Random) -> bytes | None:
    return rng.choice([None, b"", rng.randbytes(8), rng.randbytes(40), bytes(rng.randrange(3_000))])


def _timestamp(rng: random.Random) -> int:
    return rng.choice([NOW + rng.randrange(50), NOW + rng.randrange(-(10**10), 10**10), -1, 0])


def _headers(rng: random.Random) -> Headers:
    return tuple((rng.choice(NAMES), rng.choice([None, b"", b"value"])) for _ in range(rng.choice([0, 0, 1, 3])))


def any_batch(rng: random.Random, at: int, *, max_records: int) -> Batch:
    """Return one batch with records from offset ``at``: any codec, with or without gaps, with either timestamp type."""
    compacted = rng.random() < 0.3
    offset = at
    records: list[Record] = []
    for _ in range(rng.randint(1, max_records)):
        offset += rng.randint(0, 3) if compacted else 0
        records.append(Record(offset, _timestamp(rng), _nullable(rng), _nullable(rng), _headers(rng)))
        offset += 1
    attributes = rng.choice([0, 0, LOG_APPEND_TIME, DELETE_HORIZON])
    return Batch(
        records=records,
        codec=rng.randint(0, 4),
        base_offset=at,
        next_offset=offset + (rng.randint(0, 3) if compacted else 0),
        attributes=attributes,
        max_timestamp=NOW + 7 if attributes & LOG_APPEND_TIME else None,
    )


def any_log(rng: random.Random, *, max_batches: int, max_records: int) -> list[Batch]:
    """Return consecutive batches, with occasional gaps where whole batches were compacted away."""
    at = rng.randint(0, 1_000)
    log: list[Batch] = []
    for _ in range(rng.randint(1, max_batches)):
        log.append(any_batch(rng, at, max_records=max_records))
        assert log[-1].next_offset is not None
        at = log[-1].next_offset + rng.choice([0, 0, 0, 5])
    return log
