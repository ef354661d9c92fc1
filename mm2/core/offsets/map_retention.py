"""How far back the exact offset map goes: which of its segments are deleted."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapify, heappop, heapreplace

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import SEGMENT_RANGES, SegmentKey
from mm2.core.offsets.exact_offsets import PartitionOffsets


class TranslationWindow(StrEnum):
    """A value of mm2.offset.translation.window; the others are numbers of ranges."""

    RETENTION = "retention"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapLimits:
    """``window``: mm2.offset.translation.window. ``max_bytes``: of all partitions in the topic."""

    window: TranslationWindow | int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapExtent:
    """How far back the map of a partition is exact: from source offset ``exact_from`` on.

    ``log_start``: the first offset that the source has; None: unknown.
    """

    exact_from: int
    log_start: int | None

    @property
    def to_start(self) -> bool | None:
        """Whether it is exact for everything that the source has; None: unknown."""
        return None if self.log_start is None else self.exact_from <= self.log_start


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedSegments:
    """The keys to delete, and how many of them only because the topic would be too large."""

    keys: tuple[SegmentKey, ...]
    for_size: int


def deletable(
    partitions: Mapping[TopicPartition, PartitionOffsets],
    others: Mapping[TopicPartition, Set[SegmentKey]],
    log_starts: Mapping[TopicPartition, int],
    limits: MapLimits,
) -> DeletedSegments:
    """Return the segments to delete, the oldest of each partition first.

    A number as window keeps the last segments, ``retention`` those that end after the source's log start: without a
    known one, all. If the rest is too large, the oldest ones of the partition that is the largest then go, again and
    again. The newest segment of a partition always stays: lanes continue it.

    ``others`` are records that are no part of the map: of former eras, and unreadable ones. They are deleted if they
    are older than what is kept.
    """
    counts = {one: _outdated(one, known, log_starts, limits.window) for one, known in partitions.items()}
    outdated = sum(counts.values())
    _reduce(partitions, counts, limits.max_bytes)
    keys = []
    for one, known in partitions.items():
        entries, count = known.entries, counts[one]
        keys += [SegmentKey(one, entry.era, entry.sequence) for entry in entries[:count]]
        if len(entries):
            first = entries[count]
            keys += sorted(key for key in others.get(one, ()) if key[1:] < (first.era, first.sequence))
    return DeletedSegments(keys=tuple(keys), for_size=sum(counts.values()) - outdated)


def _outdated(
    partition: TopicPartition,
    known: PartitionOffsets,
    log_starts: Mapping[TopicPartition, int],
    window: TranslationWindow | int,
) -> int:
    entries = known.entries
    closed = max(0, len(entries) - 1)
    if isinstance(window, int):
        return min(closed, max(0, len(entries) - window // SEGMENT_RANGES))
    start = log_starts.get(partition)
    count = 0
    while start is not None and count < closed and entries[count].upstream_end <= start:
        count += 1
    return count


def _reduce(
    partitions: Mapping[TopicPartition, PartitionOffsets], counts: dict[TopicPartition, int], max_bytes: int
) -> None:
    """Increase the ``counts`` of segments that are deleted until the others have at most ``max_bytes``, if possible."""
    largest = []
    for one, known in partitions.items():
        size = known.size - sum(entry.size for entry in known.entries[: counts[one]])
        largest.append((-size, one))
    total = -sum(size for size, _ in largest)
    heapify(largest)
    while total > max_bytes and largest:
        size, one = largest[0]
        entries, count = partitions[one].entries, counts[one]
        if count + 1 >= len(entries):
            heappop(largest)
            continue
        freed = entries[count].size
        counts[one] += 1
        total -= freed
        heapreplace(largest, (size + freed, one))
