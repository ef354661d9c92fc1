"""`flows.source.completed_fetch`: where a damaged batch ends."""

from __future__ import annotations

import pytest

from flows.source.completed_fetch import UnreadableBatch, unreadable_batch
from tests.unit.flows.replicators import data

DAMAGED, NEXT = data(10, 10), data(20, 5)
RECORD, BASE_OFFSET, LENGTH, LAST_OFFSET_DELTA, COUNT = 70, 7, 8, 26, 60
END = 25


def flipped(blob: bytes, at: int, bit: int = 1) -> bytes:
    damaged = bytearray(blob)
    damaged[at] ^= bit
    return bytes(damaged)


@pytest.mark.parametrize(
    ("at", "bit", "following", "expected"),
    [
        (RECORD, 1, NEXT, (10, 20)),
        (RECORD, 1, b"", (10, 20)),
        (RECORD, 1, NEXT[:-1], (10, 20)),
        (RECORD, 1, flipped(NEXT, RECORD), (10, 20)),
        (LAST_OFFSET_DELTA, 1, NEXT, (10, 20)),  # 9 becomes 8: less than the number of records
        (LAST_OFFSET_DELTA, 2, NEXT, (10, 20)),  # 9 becomes 11: the next batch would begin inside
        (LAST_OFFSET_DELTA, 64, b"", (10, None)),  # beyond the high watermark
        (LAST_OFFSET_DELTA, 1, b"", (10, None)),
        (COUNT, 128, NEXT, (10, 20)),
        (BASE_OFFSET, 2, NEXT, (10, 20)),  # 10 becomes 8
        (BASE_OFFSET, 2, b"", (10, 18)),
        (BASE_OFFSET, 128, NEXT, (10, 20)),  # 10 becomes 138
        (LENGTH, 128, NEXT, (10, None)),  # negative
        (LENGTH + 3, 64, NEXT, (10, 20)),
    ],
)
def test_the_extent_of_a_damaged_batch(at: int, bit: int, following: bytes, expected: tuple[int, int | None]) -> None:
    found = unreadable_batch(memoryview(flipped(DAMAGED, at, bit) + following), 10, END)
    assert (found.first, found.until) == expected


def test_it_begins_at_the_wanted_offset() -> None:
    blob = flipped(DAMAGED, RECORD)
    assert unreadable_batch(memoryview(blob), 13, END) == UnreadableBatch(13, 20, blob)
    assert unreadable_batch(memoryview(blob), 5, END) == UnreadableBatch(10, 20, blob)
    assert unreadable_batch(memoryview(blob), 5, -1) == UnreadableBatch(10, 20, blob)
    assert unreadable_batch(memoryview(blob + NEXT), 13, END) == UnreadableBatch(13, 20, blob)
    assert unreadable_batch(memoryview(blob[:40]), 10, END) == UnreadableBatch(10, None, blob[:40])
