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
from mm2.core.offsets.exact_offset_journal import SEGMENTS
from mm2.core.offsets.exact_offset_records import SEGMENT_RANGES, CopiedRange, CopiedUpTo, Segment
from mm2.core.offsets.offset_translation import NoSync, NotReady, TooOld, Translated, Translation

WINDOW = SEGMENTS * SEGMENT_RANGES  # ranges


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


class ExactOffsets:
    """The exact offset map of one flow, built from the records of the topic in order.

    A range takes 32 bytes, and each partition about 800 more; a partition that is copied in order is one range.
    """

    def __init__(self, *, window: int = WINDOW) -> None:
        """``window``: ranges kept per partition; the oldest are dropped first."""
        self._window = window
        self._partitions: dict[TopicPartition, PartitionOffsets] = {}

    def apply(self, segment: Segment) -> None:
        """Apply the next record."""
        partition = self._partitions.get(segment.topic_partition)
        if partition is None:
            partition = self._partitions[segment.topic_partition] = PartitionOffsets(window=self._window)
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
    E. At most ``window`` ranges count, and as many wait in a repeat.
    """

    __slots__ = ("_counting", "_era", "_reach", "_repeat", "_sequence", "_truncations", "_window")

    def __init__(self, *, window: int = WINDOW) -> None:
        self._window = window
        self._era = self._sequence = -1
        self._truncations = -1  # the sequence of the last segment that begins with a truncation
        self._counting = _Ranges()
        self._repeat: _Ranges | None = None
        self._reach = CopiedUpTo()

    def apply(self, segment: Segment) -> None:
        """Apply the next record of this partition; ranges repeated from earlier records change nothing."""
        if segment.era < self._era:
            return
        if segment.era > self._era:
            self._era = segment.era
            self._counting = _Ranges()
            self._repeat = None
            self._reach = segment.before
        elif segment.sequence > self._sequence + 1:  # compaction removed those in between
            self._repeat = None
            self._reach = segment.before
        if segment.truncated >= 0 and segment.sequence > self._truncations:
            self._truncate(segment)
        self._sequence = max(self._sequence, segment.sequence)
        self._reach = self._reach._replace(upstream=max(self._reach.upstream, segment.before.upstream))
        for copied in segment.ranges:
            known = max(0, self._reach.downstream - copied.downstream)
            if known == 0:
                self._add(copied)
            elif known < copied.records:  # it has grown
                self._add(CopiedRange(copied.upstream + known, copied.downstream + known, copied.records - known))
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
            self._counting.replace_from(self._repeat, self._window)
            self._repeat = None
        self._counting.cut(segment.truncated)
        self._reach = segment.before
        if self._reach.downstream >= 0:  # a range without records: what is copied from there on follows on the target
            self._counting.append(CopiedRange(segment.truncated, self._reach.downstream, 0), self._window)

    def _add(self, copied: CopiedRange) -> None:
        again = copied.upstream < self._reach.upstream
        self._reach = self._reach.after(copied)
        if self._repeat is None:
            if not again and not self._reach.doubt:
                self._counting.append(copied, self._window)
                return
            self._repeat = _Ranges()
        self._repeat.cut(copied.upstream)
        self._repeat.append(copied, self._window)
        if copied.upstream_end == self._reach.upstream and not self._reach.doubt:
            self._counting.replace_from(self._repeat, self._window)
            self._repeat = None


class _Ranges:
    """Ranges with increasing source and target offsets, in four columns. ``through``: as in `Segment`."""

    __slots__ = ("_downstream", "_hole", "_records", "_upstream", "through")

    def __init__(self) -> None:
        self._upstream = array("q")
        self._downstream = array("q")
        self._records = array("q")
        self._hole = array("q")
        self.through = -1

    def append(self, copied: CopiedRange, window: int) -> None:
        last = len(self._upstream) - 1
        if (
            last >= 0
            and copied.upstream == self._upstream[last] + self._records[last]
            and copied.downstream == self._downstream[last] + self._records[last]
        ):
            self._records[last] += copied.records
        else:
            self._upstream.append(copied.upstream)
            self._downstream.append(copied.downstream)
            self._records.append(copied.records)
            self._hole.append(copied.hole)
            self._keep(window)
        self.through = copied.upstream_end

    def cut(self, upstream: int) -> None:
        """Remove source offset ``upstream`` and all later ones."""
        kept = bisect_left(self._upstream, upstream)
        for column in (self._upstream, self._downstream, self._records, self._hole):
            del column[kept:]
        if kept:
            self._records[-1] = min(self._records[-1], upstream - self._upstream[-1])
        self.through = min(self.through, upstream)

    def replace_from(self, other: _Ranges, window: int) -> None:
        """Replace everything from the first offset of ``other`` on with ``other``, which may be empty."""
        if not other._upstream:
            return
        self.cut(other._upstream[0])
        self._upstream += other._upstream
        self._downstream += other._downstream
        self._records += other._records
        self._hole += other._hole
        self._keep(window)
        self.through = other.through

    def look_up(self, upstream: int) -> MapLookup:
        at = bisect_right(self._upstream, upstream) - 1
        least = None
        behind = 0
        if at >= 0:
            into = upstream - self._upstream[at]
            if into < self._records[at]:
                return Found(self._downstream[at] + into)
            least = self._downstream[at] + self._records[at]
            behind = into - self._records[at]
        if at + 1 < len(self._upstream):
            most = self._downstream[at + 1]
            if upstream >= self._upstream[at + 1] - self._hole[at + 1]:
                return Found(most)
            return Bounded(least, most, behind)
        if least is not None and upstream <= self.through:
            return Found(least)
        return Bounded(least, None, behind)

    def _keep(self, window: int) -> None:
        if len(self._upstream) > window:
            for column in (self._upstream, self._downstream, self._records, self._hole):
                del column[:-window]
