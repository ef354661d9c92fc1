"""Totals that never decrease, from counters that restart at zero with every run of a lane."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key")


@dataclass(slots=True)
class _Counter:
    run: str = ""
    base: tuple[float, ...] = ()
    last: tuple[float, ...] = ()


@dataclass(slots=True)
class MonotonicCounters(Generic[Key]):
    """Sums per key over all runs. A run is identified by a string; the counters of a new run start at zero."""

    _counters: dict[Key, _Counter] = field(default_factory=dict)

    def fold(self, key: Key, run: str, values: tuple[float, ...]) -> tuple[float, ...]:
        """Add a run's current counters; return the totals."""
        counter = self._counters.setdefault(key, _Counter(run, (0,) * len(values), (0,) * len(values)))
        restarted = any(now < before for now, before in zip(values, counter.last, strict=True))
        if run != counter.run or restarted:
            counter.base = tuple(a + b for a, b in zip(counter.base, counter.last, strict=True))
            counter.run = run
        counter.last = values
        return self.get(key, values)

    def forget(self, key: Key) -> None:
        """Start again at zero."""
        self._counters.pop(key, None)

    def get(self, key: Key, unknown: tuple[float, ...]) -> tuple[float, ...]:
        """Return the totals of a key; ``unknown`` for a key that was never counted."""
        counter = self._counters.get(key)
        if counter is None:
            return unknown
        return tuple(a + b for a, b in zip(counter.base, counter.last, strict=True))
