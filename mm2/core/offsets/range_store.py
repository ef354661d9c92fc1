"""The copied ranges of a partition in memory, in about the form in which they are stored."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from mm2.core.offsets.copied_ranges import CopiedRange
from mm2.core.offsets.packed_ranges import LIMITS, PACK_BYTES, PackedRanges, PackingLimits

RANGE_BYTES = 52
"""Memory for each range of the window: 32 of them take that of a full segment, of which 1.3 KB are its pack."""


_PACK_OVERHEAD = 350  # bytes

_MOST_PACK_BYTES = PACK_BYTES * 5 // 4
"""A full pack takes the unpacked ranges of its segment, too, rather than each of them an object of its own."""


@dataclass(frozen=True, slots=True)
class Found:
    """The target offset of the source position's record, or of the first record after it."""

    offset: int


@dataclass(frozen=True, slots=True)
class Bounded:
    """Bounds of a position that no range covers; None: unknown.

    Reading from ``least`` on misses nothing; reading from after ``most`` may miss records. ``behind``: the maximum
    number of source offsets before the position whose records are read again from ``least`` on.
    """

    least: int | None = None
    most: int | None = None
    behind: int = 0


MapLookup = Found | Bounded


class RangeStore:
    """Ranges with increasing source and target offsets. ``through``: as in `Segment`.

    The last ones are in four columns. All others are packed: packs of segments as they were read, and packs made from
    the columns. ``window`` limits the memory of all packs, or the number of ranges if none is packed; the oldest are
    dropped first.
    """

    __slots__ = ("_downstream", "_hole", "_limits", "_packs", "_records", "_starts", "_upstream", "_window", "through")

    def __init__(self, window: int, limits: PackingLimits = LIMITS) -> None:
        self._window = window
        self._limits = limits
        self._packs: list[PackedRanges] = []
        self._starts: list[int] = []
        self._upstream = array("q")
        self._downstream = array("q")
        self._records = array("q")
        self._hole = array("q")
        self.through = -1

    def append(self, copied: CopiedRange) -> None:
        """Append a range, which starts at or after the end of the last one."""
        last = len(self._upstream) - 1
        if (
            last >= 0
            and copied.upstream == self._upstream[last] + self._records[last]
            and copied.downstream == self._downstream[last] + self._records[last]
        ):
            self._records[last] += copied.records
        else:
            if last >= self._limits.unpacked:
                self._pack(last + 1 - self._limits.kept)
            self._upstream.append(copied.upstream)
            self._downstream.append(copied.downstream)
            self._records.append(copied.records)
            self._hole.append(copied.hole)
            self._keep()
        self.through = copied.upstream_end

    def append_packed(self, packed: PackedRanges) -> None:
        """Append ranges, the first of which starts at or after the end of the last one."""
        self._pack(len(self._upstream))
        self._add_pack(packed)
        self._keep()
        self.through = packed.upstream_end

    def cut(self, upstream: int) -> None:
        """Remove source offset ``upstream`` and all later ones."""
        kept = bisect_left(self._upstream, upstream)
        for column in (self._upstream, self._downstream, self._records, self._hole):
            del column[kept:]
        if kept:
            self._records[-1] = min(self._records[-1], upstream - self._upstream[-1])
        else:
            kept = bisect_left(self._starts, upstream)
            del self._packs[kept:], self._starts[kept:]
            if kept and self._packs[-1].upstream_end > upstream:
                self._packs[-1] = self._packs[-1].before(upstream, self._limits)
        self.through = min(self.through, upstream)

    def replace_from(self, other: RangeStore) -> None:
        """Replace everything from the first offset of ``other`` on with ``other``, which may be empty."""
        first = other._first(0)
        if first is None:
            return
        self.cut(first.upstream)
        if other._packs:
            self._pack(len(self._upstream))
            self._packs += other._packs
            self._starts += other._starts
        self._upstream += other._upstream
        self._downstream += other._downstream
        self._records += other._records
        self._hole += other._hole
        self._keep()
        self.through = other.through

    def look_up(self, upstream: int) -> MapLookup:
        """Return the target offset of source offset ``upstream``, or its bounds."""
        if self._upstream and upstream >= self._upstream[0]:
            return self._look_up_unpacked(upstream)
        at = bisect_right(self._starts, upstream) - 1
        following = self._first(at + 1)
        if at < 0:
            return self._between(upstream, None, following)
        packed = self._packs[at]
        if upstream >= packed.upstream_end:
            return self._between(upstream, CopiedRange(packed.upstream_end, packed.downstream_end, 0), following)
        place = packed.find(upstream)
        return Found(place.most) if place.exact else Bounded(place.least, place.most, place.behind)

    def _look_up_unpacked(self, upstream: int) -> MapLookup:
        at = bisect_right(self._upstream, upstream) - 1
        into = upstream - self._upstream[at]
        records = self._records[at]
        if into < records:
            return Found(self._downstream[at] + into)
        end = CopiedRange(self._upstream[at] + records, self._downstream[at] + records, 0)
        return self._between(upstream, end, self._unpacked(at + 1))

    def _between(self, upstream: int, end: CopiedRange | None, following: CopiedRange | None) -> MapLookup:
        """Look up an offset from ``end`` on, where a range ends, and before ``following``, the next range."""
        least, behind = (None, 0) if end is None else (end.downstream, upstream - end.upstream)
        if following is None:
            return Bounded(least, None, behind) if least is None or upstream > self.through else Found(least)
        if upstream >= following.upstream - following.hole:
            return Found(following.downstream)
        return Bounded(least, following.downstream, behind)

    def _first(self, number: int) -> CopiedRange | None:
        """Return where pack ``number`` starts, or what follows the last pack."""
        if number == len(self._packs):
            return self._unpacked(0)
        packed = self._packs[number]
        return CopiedRange(packed.upstream, packed.downstream, 0, packed.hole)

    def _unpacked(self, at: int) -> CopiedRange | None:
        if at == len(self._upstream):
            return None
        return CopiedRange(self._upstream[at], self._downstream[at], self._records[at], self._hole[at])

    def _pack(self, count: int) -> None:
        """Pack the first ``count`` unpacked ranges."""
        columns = (self._upstream, self._downstream, self._records, self._hole)
        ranges = [CopiedRange(*copied) for copied in zip(*(column[:count] for column in columns), strict=True)]
        if not ranges:
            return
        for column in columns:
            del column[:count]
        if self._packs and len(self._packs[-1].deflated) < _MOST_PACK_BYTES:
            self._packs[-1] = self._packs[-1].extended(ranges, self._limits)
        else:
            self._add_pack(PackedRanges.of(ranges, self._limits))

    def _add_pack(self, packed: PackedRanges) -> None:
        self._packs.append(packed)
        self._starts.append(packed.upstream)

    def _keep(self) -> None:
        if self._packs:
            size = sum(_PACK_OVERHEAD + len(packed.deflated) for packed in self._packs)
            while self._packs and size > RANGE_BYTES * self._window:
                size -= _PACK_OVERHEAD + len(self._packs[0].deflated)
                del self._packs[0], self._starts[0]
        if not self._packs and len(self._upstream) > self._window:
            for column in (self._upstream, self._downstream, self._records, self._hole):
                del column[: -self._window]
