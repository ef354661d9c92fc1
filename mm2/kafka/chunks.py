"""Splitting of a request into several of limited size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def _one(_: object) -> int:
    return 1


def chunks(items: Iterable[T], limit: int, weight: Callable[[T], int] = _one) -> Iterator[list[T]]:
    """Yield ``items`` in order, in lists whose total weight is at most ``limit``; a heavier item gets its own list."""
    chunk: list[T] = []
    total = 0
    for item in items:
        added = weight(item)
        if chunk and total + added > limit:
            yield chunk
            chunk, total = [], 0
        chunk.append(item)
        total += added
    if chunk:
        yield chunk
