"""Exponential backoff."""

from __future__ import annotations

import random
import tracemalloc

from mm2.kafka.backoff import Backoff


def test_doubles_up_to_the_maximum_within_the_jitter(rng: random.Random) -> None:
    backoff = Backoff(100, 1_000, generator=rng)
    for expected in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        assert 0.8 * expected <= backoff.next() <= 1.2 * expected
    assert backoff.failures == 6


def test_resets_after_a_success(rng: random.Random) -> None:
    backoff = Backoff(100, 1_000, generator=rng)
    backoff.next()
    backoff.next()
    backoff.reset()
    assert backoff.failures == 0
    assert backoff.next() <= 0.12


def test_a_maximum_below_the_base_is_the_base(rng: random.Random) -> None:
    backoff = Backoff(500, 100, generator=rng)
    assert 0.4 <= backoff.next() <= 0.6
    assert 0.4 <= backoff.next() <= 0.6


def test_never_overflows(rng: random.Random) -> None:
    backoff = Backoff(1, 1_000, generator=rng)
    assert max(backoff.next() for _ in range(3_000)) <= 1.2


def test_waits_of_zero_are_allowed(rng: random.Random) -> None:
    assert Backoff(0, 0, generator=rng).next() == 0


def test_thousands_of_them_take_little_memory() -> None:
    tracemalloc.start()
    try:
        kept = [Backoff(100, 1_000) for _ in range(1_000)]
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < len(kept) * 300
