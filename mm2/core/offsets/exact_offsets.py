"""Exact offset translation from the target's acknowledgements (docs/adr/0003; the records: `exact_offset_records`).

Java keeps samples, the offset syncs. Here every acknowledged batch counts: a partition that is copied without
interruption is one range (source start, target start, count), and a position in it translates to exactly its record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_journal import SEGMENTS
from mm2.core.offsets.exact_offset_records import SEGMENT_RANGES, Segment
from mm2.core.offsets.offset_translation import NoSync, NotReady, TooOld, Translated, Translation
from mm2.core.offsets.packed_ranges import LIMITS, PackedRanges, PackingLimits
from mm2.core.offsets.range_store import Bounded, Found, MapLookup, RangeStore

WINDOW = SEGMENTS * SEGMENT_RANGES  # ranges


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
