"""Exponential backoff with jitter, by KIP-580's rule: base · 2ⁿ, at most the maximum, each ±20 %."""

from __future__ import annotations

import random
from typing import Self

from mm2.core.settings.client import ClientSettings

_JITTER = 0.2  # as in KIP-580; keeps clients that failed together from retrying together


class Backoff:
    """Counts consecutive failures and computes the wait before the next attempt."""

    __slots__ = ("_base", "_failures", "_max", "_uniform")

    def __init__(self, base_ms: int, max_ms: int, *, generator: random.Random | None = None) -> None:
        self._base = base_ms / 1000
        self._max = max(base_ms, max_ms) / 1000
        self._failures = 0
        # each partition has two: they share the module's generator (3 KB), which is seeded again in forked processes
        self._uniform = random.uniform if generator is None else generator.uniform

    @classmethod
    def for_retries(cls, settings: ClientSettings) -> Self:
        """Return a backoff with retry.backoff.ms and retry.backoff.max.ms."""
        return cls(settings.retry_backoff_ms, settings.retry_backoff_max_ms)

    @property
    def failures(self) -> int:
        """Failures since the last reset."""
        return self._failures

    def reset(self) -> None:
        """Start over after a success."""
        self._failures = 0

    def next(self) -> float:
        """Count one more failure, and return the seconds to wait before the next attempt."""
        exponent = min(self._failures, 30)  # 2³⁰ times any base exceeds any maximum
        self._failures += 1
        return min(self._base * 2.0**exponent, self._max) * self._uniform(1 - _JITTER, 1 + _JITTER)
