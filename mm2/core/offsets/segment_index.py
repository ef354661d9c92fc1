"""The segments of one source partition by the places of their records, and the segments that are in memory.

A reader of the exact map keeps some numbers of each segment, and fetches the ranges of an old one when they are needed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, overload

from mm2.core.offsets.copied_ranges import CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, SegmentHead, SegmentKey, TopicIds, decode_segment
from mm2.core.wire.formats import FormatError

KEPT_SEGMENTS = 2_048
"""Segments of `LoadedSegments`, of at most 8 KB each, apart from the last ones of each partition."""


class SegmentNotLoaded(Exception):
    """The segment whose record is at offset ``place`` of the topic is needed: fetch it, `LoadedSegments.put` it, and
    try again."""

    def __init__(self, place: int) -> None:
        super().__init__(f"the segment at offset {place} is not loaded")
        self.place = place


class SegmentLost(Exception):
    """The segment is gone or damaged: what only it knows is unknown."""


class EncodedSegment(NamedTuple):
    """The record of a segment, as it was read."""

    key: bytes
    value: bytes


class LoadedSegments:
    """The segments in memory, by the offsets of their records: the last ones that were used, and those pinned.

    The index of a partition pins its newest segment, since most positions are there. Not safe for use by two threads.
    """

    def __init__(self, *, kept: int = KEPT_SEGMENTS) -> None:
        self._kept = kept
        self._used: OrderedDict[int, Segment | None] = OrderedDict()
        self._pinned: dict[int, Segment | EncodedSegment | None] = {}

    def get(self, place: int) -> Segment:
        """Return the segment. Raises SegmentNotLoaded, or SegmentLost if it is gone or damaged."""
        if place in self._pinned:
            segment = self._pinned[place]
            if isinstance(segment, EncodedSegment):
                segment = self._pinned[place] = _decoded(segment)
        elif place in self._used:
            self._used.move_to_end(place)
            segment = self._used[place]
        else:
            raise SegmentNotLoaded(place)
        if segment is None:
            raise SegmentLost
        return segment

    def put(self, place: int, segment: Segment | None) -> None:
        """Keep a segment until others were used more recently. None: it is gone or damaged."""
        self._used[place] = segment
        self._used.move_to_end(place)
        while len(self._used) > self._kept:
            self._used.popitem(last=False)

    def pin(self, place: int, segment: Segment | EncodedSegment) -> None:
        """Keep a segment until `unpin`; an encoded one is decoded when it is needed."""
        self._pinned[place] = segment

    def unpin(self, place: int) -> None:
        """Keep the segment only as others that were used. One that was never decoded is left to be fetched."""
        segment = self._pinned.pop(place, None)
        if isinstance(segment, Segment):
            self.put(place, segment)

    def discard(self, place: int) -> None:
        """Remove the segment: its record was replaced by a later one, or deleted."""
        self._pinned.pop(place, None)
        self._used.pop(place, None)


def _decoded(encoded: EncodedSegment) -> Segment | None:
    try:
        return decode_segment(*encoded)
    except FormatError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEntry:
    """A segment in the index: its ``place`` is the offset of its record in the topic, its ``size`` in bytes.

    ``upstream`` and ``upstream_end`` are the lowest source offset of all its ranges and the end of the highest one,
    ``downstream`` and ``downstream_end`` those of the target; -1 if it has no ranges. ``clean``: its ranges continue
    ``before`` and each other, so that no record is repeated, and none is in doubt. ``hole`` is that of the first range.
    The other fields as in `Segment`.
    """

    place: int
    sequence: int
    era: int
    size: int
    before: CopiedUpTo
    upstream: int
    downstream: int
    upstream_end: int
    downstream_end: int
    truncated: int
    topic_ids: TopicIds
    clean: bool = True
    hole: int = 0

    @classmethod
    def of(cls, key: SegmentKey, head: SegmentHead, *, place: int, size: int) -> SegmentEntry:
        """Return the entry of the segment with this key and head."""
        return cls(
            place=place,
            sequence=key.sequence,
            era=key.era,
            size=size,
            before=head.before,
            upstream=head.upstream,
            downstream=head.downstream,
            upstream_end=head.upstream_end,
            downstream_end=head.downstream_end,
            truncated=head.truncated,
            topic_ids=head.topic_ids,
            clean=head.clean,
            hole=head.hole,
        )


_COLUMNS = 9
_PLACE, _SEQUENCE, _UPSTREAM = 0, 1, 4

_DEAD = 64
"""Entries removed from the start are left in the columns until there are more, and half of them are dead: moving all
others for each one would take too long."""


def _is_irregular(entry: SegmentEntry) -> bool:
    return entry.before.doubt != 0 or entry.truncated >= 0 or not entry.clean


class SegmentIndex(Sequence[SegmentEntry]):
    """The segments of one era of a partition, in the order of their sequences and of their target offsets.

    All but the last one are in columns, 76 bytes for each. A sequence that is missing is a gap. ``topic_ids`` of all
    entries are those of the last one.
    """

    __slots__ = ("_columns", "_dead", "_exceptions", "_last", "_sizes")

    def __init__(self) -> None:
        self._last: SegmentEntry | None = None
        self._columns: tuple[array[int], ...] = ()  # empty until there are two segments: most partitions have one
        self._sizes = _NO_SIZES
        self._dead = 0
        self._exceptions = _NO_EXCEPTIONS  # by sequence, what does not fit into the columns

    def __len__(self) -> int:
        return len(self._sizes) - self._dead + (self._last is not None)

    @overload
    def __getitem__(self, at: int) -> SegmentEntry: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[SegmentEntry]: ...
    def __getitem__(self, at: int | slice) -> SegmentEntry | Sequence[SegmentEntry]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        number = at + len(self) if at < 0 else at
        if not 0 <= number < len(self):
            raise IndexError(at)
        number += self._dead
        if number == len(self._sizes):
            assert self._last is not None
            return self._last
        return self._entry(number)

    @property
    def last(self) -> SegmentEntry | None:
        """The newest segment."""
        return self._last

    @property
    def first(self) -> SegmentEntry | None:
        """The oldest segment."""
        return self[0] if len(self) else None

    def irregular(self, since: int) -> list[SegmentEntry]:
        """Return, in order, the segments from sequence ``since`` on that are not clean or begin with a truncation."""
        found = [] if self._last is None or not _is_irregular(self._last) else [self._last]
        for sequence in reversed(self._exceptions):
            if sequence < since:
                break
            found.append(self._exceptions[sequence])
        return found[::-1]

    @property
    def size(self) -> int:
        """The bytes of all segments in the topic."""
        return sum(self._sizes[self._dead :]) + (0 if self._last is None else self._last.size)

    def add(self, entry: SegmentEntry) -> None:
        """Add a segment after the last one, or replace the last one by a later record of it."""
        last = self._last
        if last is not None and entry.sequence != last.sequence:
            self._close(last)
        self._last = entry

    def move(self, sequence: int, *, place: int, size: int) -> int | None:
        """Record that a later record of a segment is at ``place``. Returns the earlier place; None: it is unknown."""
        at = self._closed(sequence)
        if at is None:
            return None
        earlier, self._columns[_PLACE][at] = self._columns[_PLACE][at], place
        self._sizes[at] = size
        if sequence in self._exceptions:
            self._exceptions[sequence] = replace(self._exceptions[sequence], place=place, size=size)
        return earlier

    def remove(self, sequence: int) -> SegmentEntry | None:
        """Remove a segment and return it; None if it is not there, or is the last one, which is never deleted."""
        at = self._closed(sequence)
        if at is None:
            return None
        entry = self._entry(at)
        self._exceptions.pop(sequence, None)
        if at > self._dead:
            for column in (*self._columns, self._sizes):
                del column[at]
            return entry
        self._dead += 1
        if self._dead > _DEAD and 2 * self._dead > len(self._sizes):
            for column in (*self._columns, self._sizes):
                del column[: self._dead]
            self._dead = 0
        return entry

    def by_sequence(self, sequence: int) -> SegmentEntry | None:
        """Return a segment; None if it is not there."""
        if self._last is not None and sequence == self._last.sequence:
            return self._last
        at = self._closed(sequence)
        return None if at is None else self._entry(at)

    def upstream_of(self, sequence: int) -> int:
        """Return the lowest source offset of a segment that is there."""
        if self._last is not None and sequence == self._last.sequence:
            return self._last.upstream
        at = self._closed(sequence)
        assert at is not None
        return self._columns[_UPSTREAM][at]

    def _closed(self, sequence: int) -> int | None:
        """Return the row of a segment in the columns; None if it is not there."""
        if not self._columns:
            return None
        sequences = self._columns[_SEQUENCE]
        at = bisect_left(sequences, sequence, self._dead)
        return at if at < len(sequences) and sequences[at] == sequence else None

    def _close(self, entry: SegmentEntry) -> None:
        if not self._columns:
            self._columns = tuple(array("q") for _ in range(_COLUMNS))
            self._sizes = array("i")
        row = (
            entry.place,
            entry.sequence,
            entry.before.upstream,
            entry.before.downstream,
            entry.upstream,
            entry.downstream,
            entry.upstream_end,
            entry.downstream_end,
            entry.hole,
        )
        for column, number in zip(self._columns, row, strict=True):
            column.append(number)
        self._sizes.append(entry.size)
        if _is_irregular(entry):
            if self._exceptions is _NO_EXCEPTIONS:
                self._exceptions = {}
            self._exceptions[entry.sequence] = entry

    def _entry(self, row: int) -> SegmentEntry:
        assert self._last is not None
        numbers = [column[row] for column in self._columns]
        place, sequence, reached, reached_target, upstream, downstream, upstream_end, downstream_end, hole = numbers
        other = self._exceptions.get(sequence)
        if other is not None:
            return other
        return SegmentEntry(
            place=place,
            sequence=sequence,
            era=self._last.era,
            size=self._sizes[row],
            before=CopiedUpTo(reached, reached_target),
            upstream=upstream,
            downstream=downstream,
            upstream_end=upstream_end,
            downstream_end=downstream_end,
            truncated=-1,
            topic_ids=self._last.topic_ids,
            clean=True,
            hole=hole,
        )


_NO_SIZES = array("i")  # of all partitions with one segment
_NO_EXCEPTIONS: dict[int, SegmentEntry] = {}
