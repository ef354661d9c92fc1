"""Exact offset translation from the target's acknowledgements (docs/adr/0003; the records: `exact_offset_records`).

Java keeps samples, the offset syncs. Here every acknowledged batch counts: a partition that is copied without
interruption is one range (source start, target start, count), and a position in it translates to exactly its record.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_journal import SEGMENTS
from mm2.core.offsets.exact_offset_records import SEGMENT_RANGES, Segment
from mm2.core.offsets.offset_translation import NoSync, NotReady, TooOld, Translated, Translation
from mm2.core.offsets.packed_ranges import LIMITS, PACK_BYTES, PackedRanges, PackingLimits

WINDOW = SEGMENTS * SEGMENT_RANGES  # ranges


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


class ExactOffsets:
    """The exact offset map of one flow, built from the records of the topic in order.

    A partition that is copied in order is one range and takes about 1 KB, one that is all gaps about 40 KB.
    """

    def __init__(self, *, window: int = WINDOW, limits: PackingLimits = LIMITS) -> None:
        """``window``: memory of a partition, in ranges that are not packed (`RangeStore`)."""
        self._window = window
        self._limits = limits
        self._partitions: dict[TopicPartition, PartitionOffsets] = {}

    def apply(self, segment: Segment) -> None:
        """Apply the next record."""
        partition = self._partitions.get(segment.topic_partition)
        if partition is None:
            partition = PartitionOffsets(window=self._window, limits=self._limits)
            self._partitions[segment.topic_partition] = partition
        partition.apply(segment)

    def translate(
        self,
        topic_partition: TopicPartition,
        upstream_offset: int,
        by_syncs: Callable[[TopicPartition, int], Translation],
    ) -> Translation:
        """Translate the position ``upstream_offset``; ``by_syncs`` translates as Java, for positions not in the map."""
        partition = self._partitions.get(topic_partition)
        if partition is None:
            return by_syncs(topic_partition, upstream_offset)
        found = partition.look_up(upstream_offset)
        if isinstance(found, Found):
            return Translated(offset=found.offset, behind=0)
        return combine(found, by_syncs(topic_partition, upstream_offset))

    def latest(self, topic_partition: TopicPartition, upstream_offset: int) -> int | None:
        """Return the last target offset from which the position ``upstream_offset`` misses nothing; None: unknown."""
        partition = self._partitions.get(topic_partition)
        if partition is None:
            return None
        found = partition.look_up(upstream_offset)
        return found.offset if isinstance(found, Found) else found.most


def combine(found: Bounded, by_syncs: Translation) -> Translation:
    """Return Java's translation, limited to the bounds ``found``.

    An offset sync can be less precise than the map (``least``), or refer to a deleted remote topic (``most``).
    """
    match by_syncs:
        case Translated(offset=offset, behind=behind):
            if found.most is not None and offset > found.most:
                return Translated(offset=found.most, behind=max(1, behind))
            if found.least is not None and offset <= found.least:
                return Translated(offset=found.least, behind=found.behind)
            return by_syncs
        case TooOld() | NoSync():
            return by_syncs if found.least is None else Translated(offset=found.least, behind=found.behind)
        case NotReady():
            return by_syncs
    assert_never(by_syncs)


class PartitionOffsets:
    """One source partition's ranges.

    Copying that restarts at an earlier offset, or continues after target offsets that no range records, repeats
    records. Until the repeat has caught up, records after its end are on the target only before its start. If the
    source were lost now, a group positioned in the repeat would miss them. The older ranges therefore count until then.

    Records that the source lost when its log was truncated do not count any more, although the target has them: the
    positions from there on translate to what was copied later.

    Invariants:
    A. Among the ranges that count, source and target offsets both increase, without overlap.
    B. A found offset misses nothing: every record at or after the position that the target has, and that the source
       still had when it was copied last, is in the target at or after that offset. The same holds for ``least``.
       Records that others copied, and records before an era's first segment, are assumed to be copied without a repeat.
    C. No result is beyond the end of the acknowledged target offsets.
    D. At any one time, a higher source position never translates to a lower target offset.
    E. The ranges that count take the memory of at most ``window`` unpacked ones, and as much those in a repeat.
    F. Packed ranges are added as they are, and replace those of an earlier record of the segment: they have all
       acknowledgements of their part of the target, in order. So a thousand of them cost as much as one range.
    """

    __slots__ = ("_counting", "_era", "_limits", "_reach", "_repeat", "_sequence", "_truncations", "_window")

    def __init__(self, *, window: int = WINDOW, limits: PackingLimits = LIMITS) -> None:
        self._window = window
        self._limits = limits
        self._era = self._sequence = -1
        self._truncations = -1  # the sequence of the last segment that begins with a truncation
        self._counting = RangeStore(window, limits)
        self._repeat: RangeStore | None = None
        self._reach = CopiedUpTo()

    def apply(self, segment: Segment) -> None:
        """Apply the next record of this partition; ranges repeated from earlier records change nothing."""
        if segment.era < self._era:
            return
        if segment.era > self._era:
            self._era = segment.era
            self._counting = RangeStore(self._window, self._limits)
            self._repeat = None
            self._reach = segment.before
        elif segment.sequence > self._sequence + 1:  # compaction removed those in between
            self._repeat = None
            self._reach = segment.before
        if segment.truncated >= 0 and segment.sequence > self._truncations:
            self._truncate(segment)
        self._sequence = max(self._sequence, segment.sequence)
        self._reach = self._reach._replace(upstream=max(self._reach.upstream, segment.before.upstream))
        if segment.packed is not None:
            self._take_packed(segment.packed, segment.before)
        for copied in segment.ranges:
            self._take(copied)
        if segment.ranges and segment.ranges[-1].downstream_end == self._reach.downstream:
            latest = self._counting if self._repeat is None else self._repeat
            latest.through = max(latest.through, segment.through)

    def look_up(self, upstream: int) -> MapLookup:
        """Return the target offset of the source position ``upstream``, or its bounds."""
        return self._counting.look_up(upstream)

    def _truncate(self, segment: Segment) -> None:
        """End all ranges where the source's log was truncated. A repeat has reached that offset, so it counts now."""
        self._truncations = segment.sequence
        if self._repeat is not None:
            self._repeat.cut(segment.truncated)
            self._counting.replace_from(self._repeat)
            self._repeat = None
        self._counting.cut(segment.truncated)
        self._reach = segment.before
        if self._reach.downstream >= 0:  # a range without records: what is copied from there on follows on the target
            self._counting.append(CopiedRange(segment.truncated, self._reach.downstream, 0))

    def _take_packed(self, packed: PackedRanges, before: CopiedUpTo) -> None:
        known = self._reach.downstream
        if packed.downstream_end <= known:
            return
        started = packed.downstream < known  # ranges of this segment are known already
        if self._repeat is not None or self._reach.doubt or not packed.follows(before if started else self._reach):
            for copied in packed.ranges():
                self._take(copied)
            return
        if started:
            self._counting.cut(packed.upstream)
        self._counting.append_packed(packed)
        self._reach = CopiedUpTo(max(self._reach.upstream, packed.upstream_end), packed.downstream_end)

    def _take(self, copied: CopiedRange) -> None:
        known = max(0, self._reach.downstream - copied.downstream)
        if known == 0:
            self._add(copied)
        elif known < copied.records:  # it has grown
            self._add(CopiedRange(copied.upstream + known, copied.downstream + known, copied.records - known))

    def _add(self, copied: CopiedRange) -> None:
        again = copied.upstream < self._reach.upstream
        self._reach = self._reach.after(copied)
        if self._repeat is None:
            if not again and not self._reach.doubt:
                self._counting.append(copied)
                return
            self._repeat = RangeStore(self._window, self._limits)
        self._repeat.cut(copied.upstream)
        self._repeat.append(copied)
        if copied.upstream_end == self._reach.upstream and not self._reach.doubt:
            self._counting.replace_from(self._repeat)
            self._repeat = None
