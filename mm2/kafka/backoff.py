"""Exponential backoff with jitter, by KIP-580's rule: base · 2ⁿ, at most the maximum, each ±20 %."""

from __future__ import annotations

import random

_JITTER = 0.2  # KIP-580's; keeps clients that failed together from coming back together


class Backoff:
    """Counts failures in a row and says how long to wait before the next attempt."""

    __slots__ = ("_base", "_failures", "_max", "_random")

    def __init__(self, base_ms: int, max_ms: int, *, generator: random.Random | None = None) -> None:
        self._base = base_ms / 1000
        self._max = max(base_ms, max_ms) / 1000
        self._failures = 0
        self._random = generator or random.Random()  # noqa: S311 - spreads load, hides nothing

    @property
    def failures(self) -> int:
        """Failures since the last reset."""
        return self._failures

    def reset(self) -> None:
        """Forget the failures: something worked."""
        self._failures = 0

    def next(self) -> float:
        """Count one more failure; seconds to wait before the next attempt."""
        exponent = min(self._failures, 30)  # 2³⁰ times any base is past any maximum
        self._failures += 1
        return min(self._base * 2.0**exponent, self._max) * self._random.uniform(1 - _JITTER, 1 + _JITTER)
