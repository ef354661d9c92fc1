"""Exact offset translation from what the target acknowledged (docs/adr/0003; the records: `exact_offset_records`).

Java keeps samples, the offset syncs. Here every acknowledged batch counts: while copying goes on without interruption a
partition is one range (source start, target start, count), and a position inside it translates to the very record.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from mm2.core.exact_offset_journal import SLOTS
from mm2.core.exact_offset_records import SEGMENT_RANGES, CopiedRange, Reach, Segment
from mm2.core.names import TopicPartition
from mm2.core.offset_translation import NoSync, NotReady, TooOld, Translated, Translation

WINDOW = SLOTS * SEGMENT_RANGES  # ranges


@dataclass(frozen=True, slots=True)
class Found:
    """The target offset where the source position's record is, or the first one after it."""

    offset: int


@dataclass(frozen=True, slots=True)
class Bounded:
    """Not covered. Reading from ``least`` on is early enough; later than ``most`` may be too late; None: not known.

    ``behind``: records of at most so many source offsets before the position are read again from ``least`` on.
    """

    least: int | None = None
    most: int | None = None
    behind: int = 0


Place = Found | Bounded


class ExactOffsets:
    """What is known of one flow's offsets, folded from the records of the topic in its order.

    A range takes 32 bytes here, and a partition about 800 besides; one that is copied in order is one range.
    """

    def __init__(self, *, window: int = WINDOW) -> None:
        """``window``: ranges kept of each partition; the oldest go first."""
        self._window = window
        self._partitions: dict[TopicPartition, PartitionOffsets] = {}

    def apply(self, segment: Segment) -> None:
        """Take in the next record."""
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
        """Translate the position ``upstream_offset``; ``by_syncs`` gives Java's answer, for where the map has none."""
        partition = self._partitions.get(topic_partition)
        if partition is None:
            return by_syncs(topic_partition, upstream_offset)
        place = partition.look_up(upstream_offset)
        if isinstance(place, Found):
            return Translated(offset=place.offset, behind=0)
        return combine(place, by_syncs(topic_partition, upstream_offset))

    def latest(self, topic_partition: TopicPartition, upstream_offset: int) -> int | None:
        """The last target offset from which the position ``upstream_offset`` misses nothing; None: not known."""
        partition = self._partitions.get(topic_partition)
        if partition is None:
            return None
        place = partition.look_up(upstream_offset)
        return place.offset if isinstance(place, Found) else place.most


def combine(place: Bounded, by_syncs: Translation) -> Translation:
    """Java's answer kept within what is known.

    An offset sync can tell less than the map (``least``), or tell of a remote topic that is gone (``most``).
    """
    match by_syncs:
        case Translated(offset=offset, behind=behind):
            if place.most is not None and offset > place.most:
                return Translated(offset=place.most, behind=max(1, behind))
            if place.least is not None and offset <= place.least:
                return Translated(offset=place.least, behind=place.behind)
            return by_syncs
        case TooOld() | NoSync():
            return by_syncs if place.least is None else Translated(offset=place.least, behind=place.behind)
        case NotReady():
            return by_syncs
    assert_never(by_syncs)


class PartitionOffsets:
    """One source partition's ranges.

    Copying that begins again at an earlier offset, or goes on behind target offsets of which nothing is written down,
    repeats records. Until the repeat has caught up, records after its end are on the target only before its start:
    should the source be lost now, whoever was sent into the repeat would miss them. So the older ranges go on to count
    until then.

    Invariants:
    A. Of the ranges that count, source and target offsets both rise, without overlap.
    B. A found offset misses nothing: every record at or after the position that the target has, and that the source
       still had when it was copied last, is in the target at or after that offset. The same holds of ``least``. What
       others copied, and what came before an era's first segment, is taken to have been copied without a repeat.
    C. No answer lies beyond the end of what the target acknowledged.
    D. Positions that rise never fall on the target, at any one time.
    E. At most ``window`` ranges count, and as many wait in a repeat.
    """

    __slots__ = ("_counting", "_era", "_reach", "_repeat", "_sequence", "_window")

    def __init__(self, *, window: int = WINDOW) -> None:
        self._window = window
        self._era = self._sequence = -1
        self._counting = _Ranges()
        self._repeat: _Ranges | None = None
        self._reach = Reach()

    def apply(self, segment: Segment) -> None:
        """Take in the next record of this partition; what it repeats of earlier ones changes nothing."""
        if segment.era < self._era:
            return
        if segment.era > self._era:
            self._era = segment.era
            self._counting = _Ranges()
            self._repeat = None
            self._reach = segment.before
        elif segment.sequence > self._sequence + 1:  # those in between are not there any more
            self._repeat = None
            self._reach = segment.before
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

    def look_up(self, upstream: int) -> Place:
        """Where the source position ``upstream`` is on the target."""
        return self._counting.look_up(upstream)

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
    """Ranges that rise on both sides, as four columns. ``through``: as in `Segment`, of the last range."""

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
        """Forget source offset ``upstream`` and all after it."""
        kept = bisect_left(self._upstream, upstream)
        for column in (self._upstream, self._downstream, self._records, self._hole):
            del column[kept:]
        if kept:
            self._records[-1] = min(self._records[-1], upstream - self._upstream[-1])

    def replace_from(self, other: _Ranges, window: int) -> None:
        """Let ``other`` count from where it begins."""
        self.cut(other._upstream[0])
        self._upstream += other._upstream
        self._downstream += other._downstream
        self._records += other._records
        self._hole += other._hole
        self._keep(window)
        self.through = other.through

    def look_up(self, upstream: int) -> Place:
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
