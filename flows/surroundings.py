"""What a partition sees of the slot around it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from flows.batch.outgoing import Outgoing

if TYPE_CHECKING:
    from flows.copy import PartitionCopy

Spawn = Callable[[Coroutine[Any, Any, None]], object]
"""Runs a coroutine beside everything else of the slot; an error of it that is nobody's ends the slot."""


class Seen(NamedTuple):
    """Source offsets from ``since`` up to, not including, ``until``: whichever of them is not in a batch is known to
    carry no record, because it was looked at."""

    since: int
    until: int


class Surroundings(Protocol):
    """What a partition asks for. None of these calls back into the partition at once."""

    def release(self, count: int) -> None:
        """Bytes are done with."""

    def fetch_changed(self, copy: PartitionCopy) -> None:
        """``fetch_from`` answers something else now."""

    def send_changed(self, copy: PartitionCopy) -> None:
        """``sendable`` may be true now."""

    def wake_later(self, copy: PartitionCopy, delay: float) -> None:
        """Call ``wake`` after ``delay`` seconds."""

    def acknowledged(self, copy: PartitionCopy, batch: Outgoing, base_offset: int, seen: Seen) -> None:
        """The target has this batch and all before it; ``base_offset`` is -1 if it does not say where."""

    def passed(self, copy: PartitionCopy, seen: Seen) -> None:
        """The position moved over source offsets without anything being copied."""
