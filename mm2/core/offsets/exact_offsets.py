"""Exact offset translation from the target's acknowledgements (docs/adr/0003; the records: `exact_offset_records`).

Java keeps samples, the offset syncs. Here every acknowledged batch counts: a partition that is copied without
interruption is one range (source start, target start, count), and a position in it translates to exactly its record.

In memory are the bounds of all segments of a partition and the ranges of its newest one; a lookup in another one raises
SegmentNotLoaded until it is loaded. So the memory of a segment does not depend on its ranges.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, assert_never

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import NO_PROGRESS, CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, SegmentHead, SegmentKey, TopicIds, decode_head, decode_key
from mm2.core.offsets.offset_translation import NoSync, NotReady, TooOld, Translated, Translation
from mm2.core.offsets.packed_ranges import PackedRanges
from mm2.core.offsets.segment_index import (
    EncodedSegment,
    LoadedSegments,
    SegmentEntry,
    SegmentIndex,
    SegmentLost,
)
from mm2.core.wire.formats import FormatError


class FoundKind(Enum):
    """What a found target offset is."""

    RECORD = "the copy of the position's record"
    NEXT = "the first copy after a hole, in which the position is"
    END = "the end of the copies: no record from the position on was copied, and all before it are"


@dataclass(frozen=True, slots=True)
class Found:
    """The target offset of the source position's record, or of the first record after it."""

    offset: int
    kind: FoundKind = FoundKind.RECORD


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


_DEAD = 64  # as in `SegmentIndex`


class Part(NamedTuple):
    """Consecutive ranges of segment ``sequence`` whose source offsets increase, too, with holes between them.

    They are those whose copies are from ``downstream`` up to ``downstream_end``, as far as their source offsets are
    before ``upstream_end``. ``hole``: of the first one. ``cut``: later ones do not count any more. A part without
    offsets is the end of the target where the source was truncated.
    """

    sequence: int
    upstream: int
    downstream: int
    upstream_end: int
    downstream_end: int
    hole: int = 0
    cut: bool = False

    @property
    def is_empty(self) -> bool:
        return self.downstream == self.downstream_end

    def continues(self, last: Part) -> bool:
        """Return whether all source offsets between ``last`` and this part are a hole."""
        return self.upstream - self.hole <= last.upstream_end


_NOTHING: dict[int, Part] = {}  # of all partitions without such parts


class PartStore:
    """Parts of segments with increasing source and target offsets. ``through``: as in `Segment`.

    A part that is a complete segment is only the segment's sequence, as ``index`` has its bounds.
    """

    __slots__ = ("_codes", "_dead", "_index", "_next", "_other", "_start", "through")

    def __init__(self, index: SegmentIndex) -> None:
        self._index = index
        self._codes = array("q")  # of each part, its segment's sequence, or -1 - n for number n in ``_other``
        self._other = _NOTHING
        self._next = 0
        self._dead = 0  # parts removed from the start, as in `SegmentIndex`
        self._start = 0  # the first code from which on no source offset is missing
        self.through = -1

    def __len__(self) -> int:
        return len(self._codes) - self._dead

    def __getitem__(self, number: int) -> Part:
        return self._part(self._codes[number if number < 0 else self._dead + number])

    @property
    def exact_from(self) -> int | None:
        """The source offset from which on every position up to the last one is known; None if there are no parts."""
        if not len(self):
            return None
        first = self._part(self._codes[max(self._start, self._dead)])
        return first.upstream - first.hole

    def add_segment(self, sequence: int) -> None:
        """Append a complete segment, if it is not the last part."""
        if not self._codes or self._codes[-1] != sequence:
            self._add(sequence)

    def end_segment(self, known: SegmentEntry) -> None:
        """Turn the last part, if it is this complete segment, into the part that ends where ``known`` ends."""
        if self._codes and self._codes[-1] == known.sequence:
            self._codes[-1] = self._keep(_whole(known))

    def append(self, part: Part) -> None:
        """Append a part, which starts at or after the end of the last one, or extend that one."""
        last = self[-1] if len(self) else None
        self.through = part.upstream_end
        if (
            last is None
            or last.sequence != part.sequence
            or part.is_empty
            or last.is_empty
            or last.cut
            or not part.continues(last)
        ):
            self._add(self._keep(part))
        else:
            self._replace_last(last._replace(upstream_end=part.upstream_end, downstream_end=part.downstream_end))

    def cut(self, upstream: int) -> None:
        """Remove source offset ``upstream`` and all later ones."""
        kept = self._bisect(upstream, bisect_left)
        for code in self._codes[kept:]:
            self._other.pop(-1 - code, None)
        del self._codes[kept:]
        if len(self) and (last := self[-1]).upstream_end > upstream:
            self._replace_last(last._replace(upstream_end=upstream, cut=True))
        if self._start >= len(self._codes):
            self._find_start()
        self.through = min(self.through, upstream)

    def replace_from(self, other: PartStore) -> None:
        """Replace everything from the first offset of ``other`` on with ``other``, which may be empty."""
        if not len(other):
            return
        self.cut(other[0].upstream)
        for number in range(len(other)):
            self._add(self._keep(other[number]))
        self.through = other.through

    def drop(self, sequence: int) -> None:
        """Remove the parts of a segment: it was deleted."""
        start = bisect_left(self._codes, sequence, self._dead, key=self._sequence_of)
        end = bisect_right(self._codes, sequence, start, key=self._sequence_of)
        for code in self._codes[start:end]:
            self._other.pop(-1 - code, None)
        if start > self._dead:
            del self._codes[start:end]
            if start < end:
                self._start = max(self._start - (end - start), start)
            if self._start >= len(self._codes):
                self._find_start()
            return
        self._dead = end
        if self._dead > _DEAD and 2 * self._dead > len(self._codes):
            del self._codes[: self._dead]
            self._start = max(0, self._start - self._dead)
            self._dead = 0

    def look_up(self, upstream: int, loaded: LoadedSegments) -> MapLookup:
        """Return the target offset of source offset ``upstream``, or its bounds. Raises SegmentNotLoaded."""
        at = self._bisect(upstream, bisect_right) - 1
        following = self._part(self._codes[at + 1]) if at + 1 < len(self._codes) else None
        first = None if following is None else _start_of(following)
        if at < self._dead:
            return self._between(upstream, None, first)
        code = self._codes[at]
        part = self._part(code)
        end = CopiedRange(part.upstream_end, part.downstream_end, 0)
        if upstream >= part.upstream_end and not part.cut:
            return self._between(upstream, end, first)
        place = self._index.by_sequence(part.sequence)
        assert place is not None
        try:
            found = _look_up(loaded.get(place.place), part, upstream, complete=code >= 0)
        except (SegmentLost, FormatError):
            return Bounded(part.downstream, part.downstream_end, upstream - part.upstream)
        return found if isinstance(found, Found | Bounded) else self._between(upstream, found, first)

    def _between(self, upstream: int, end: CopiedRange | None, following: CopiedRange | None) -> MapLookup:
        if following is None:
            least, behind = (None, 0) if end is None else (end.downstream, upstream - end.upstream)
            if least is None or upstream > self.through:
                return Bounded(least, None, behind)
            return Found(least, FoundKind.END)
        return _between(upstream, end, following)

    def _bisect(self, upstream: int, bisect: Callable[..., int]) -> int:
        return bisect(self._codes, upstream, self._dead, key=self._upstream_of)

    def _upstream_of(self, code: int) -> int:
        return self._index.upstream_of(code) if code >= 0 else self._other[-1 - code].upstream

    def _sequence_of(self, code: int) -> int:
        return code if code >= 0 else self._other[-1 - code].sequence

    def _part(self, code: int) -> Part:
        if code < 0:
            return self._other[-1 - code]
        entry = self._index.by_sequence(code)
        assert entry is not None
        return _whole(entry)

    def _keep(self, part: Part) -> int:
        if self._other is _NOTHING:
            self._other = {}
        self._other[self._next] = part
        self._next += 1
        return -self._next

    def _add(self, code: int) -> None:
        if len(self) and not self._part(code).continues(self[-1]):
            self._start = len(self._codes)
        self._codes.append(code)

    def _replace_last(self, part: Part) -> None:
        self._other.pop(-1 - self._codes[-1], None)
        self._codes[-1] = self._keep(part)

    def _find_start(self) -> None:
        self._start = max(self._dead, len(self._codes) - 1)
        while self._start > self._dead:
            part, earlier = self._part(self._codes[self._start]), self._part(self._codes[self._start - 1])
            if not part.continues(earlier):
                break
            self._start -= 1


def _whole(entry: SegmentEntry) -> Part:
    return Part(entry.sequence, entry.upstream, entry.downstream, entry.upstream_end, entry.downstream_end, entry.hole)


def _start_of(part: Part) -> CopiedRange:
    return CopiedRange(part.upstream, part.downstream, 0, part.hole)


def _look_up(segment: Segment, part: Part, upstream: int, *, complete: bool) -> MapLookup | CopiedRange:
    """Return what the ranges of ``part`` say about an offset of it, or where they end, if that is before the offset.

    ``complete``: the part is the complete segment. Raises FormatError.
    """
    end: CopiedRange | None = None
    packed = segment.packed
    if packed is not None and part.downstream < packed.downstream_end and packed.upstream < part.upstream_end:
        if part.upstream_end < packed.upstream_end:
            packed = _packed_before(packed, part.upstream_end)
        if packed.upstream <= upstream < packed.upstream_end:
            place = packed.find(upstream)
            if place.most >= part.downstream_end:  # the segment was written again, and is another one
                return Bounded(part.downstream, part.downstream_end, upstream - part.upstream)
            if not place.exact:
                return Bounded(place.least, place.most, place.behind)
            return Found(place.most, FoundKind.NEXT if place.hole else FoundKind.RECORD)
        end = CopiedRange(packed.upstream_end, packed.downstream_end, 0)
    ranges = segment.ranges if complete else tuple(_clipped(segment.ranges, part))
    at = bisect_right(ranges, upstream, key=_upstream) - 1
    if at >= 0:
        copied = ranges[at]
        if upstream < copied.upstream_end:
            return Found(copied.downstream + upstream - copied.upstream)
        end = CopiedRange(copied.upstream_end, copied.downstream_end, 0)
    if at + 1 < len(ranges):
        return _between(upstream, end, ranges[at + 1])
    return CopiedRange(part.upstream, part.downstream, 0) if end is None else end


def _between(upstream: int, end: CopiedRange | None, following: CopiedRange) -> MapLookup:
    """Look up an offset from ``end`` on, where a range ends, and before ``following``, the next range."""
    least, behind = (None, 0) if end is None else (end.downstream, upstream - end.upstream)
    if upstream >= following.upstream - following.hole:
        return Found(following.downstream, FoundKind.NEXT)
    return Bounded(least, following.downstream, behind)


def _clipped(ranges: Iterable[CopiedRange], part: Part) -> Iterator[CopiedRange]:
    """Yield what is in ``part`` of ranges in the order of their target offsets."""
    for copied in ranges:
        skipped = max(0, part.downstream - copied.downstream)
        most = min(part.downstream_end - copied.downstream, part.upstream_end - copied.upstream, copied.records)
        if skipped < most:
            hole = 0 if skipped else copied.hole
            yield CopiedRange(copied.upstream + skipped, copied.downstream + skipped, most - skipped, hole)


@lru_cache(32)
def _packed_before(packed: PackedRanges, upstream: int) -> PackedRanges:
    return packed.before(upstream)


_upstream = attrgetter("upstream")


class Place(NamedTuple):
    """Where the record of a segment is in the topic: its offset, and its size in bytes."""

    offset: int
    size: int


class ExactOffsets:
    """The exact offset map of one flow, built from the records of the topic in order.

    A partition takes about 1 KB, and 90 bytes for each segment but the last one. ``loaded``: the segments in memory.
    """

    def __init__(self, loaded: LoadedSegments | None = None) -> None:
        self.loaded = LoadedSegments() if loaded is None else loaded
        self._partitions: dict[TopicPartition, PartitionOffsets] = {}
        self._ids: dict[TopicIds, TopicIds] = {}  # one object for all partitions of a topic

    def apply_record(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        """Apply the next record, which is at ``offset`` of the topic.

        Raises FormatError if it cannot be read. If its partition is known, it is a gap.
        """
        segment = decode_key(key)
        assert key is not None
        if value is None:
            partition = self._partitions.get(segment.topic_partition)
            if partition is not None:
                partition.remove(segment)
            return
        partition = self._of(segment.topic_partition)
        try:
            head = decode_head(key, value)
            head = head._replace(topic_ids=self._ids.setdefault(head.topic_ids, head.topic_ids))
            partition.apply_head(segment, head, EncodedSegment(key, value), Place(offset, len(key) + len(value)))
        except FormatError:
            partition.gap(segment)
            raise

    def apply(self, segment: Segment, offset: int) -> None:
        """Apply the next record, decoded, which is at ``offset`` of the topic."""
        self._of(segment.topic_partition).apply(segment, offset)

    def look_up(self, topic_partition: TopicPartition, upstream: int) -> MapLookup | None:
        """Return the target offset of a source position, or its bounds; None if the partition is not in the map.

        Raises SegmentNotLoaded.
        """
        partition = self._partitions.get(topic_partition)
        return None if partition is None else partition.look_up(upstream)

    @property
    def partitions(self) -> Mapping[TopicPartition, PartitionOffsets]:
        """The partitions in the map, also those of which nothing can be read."""
        return self._partitions

    def entries(self, topic_partition: TopicPartition) -> SegmentIndex:
        """Return the segments of a partition's last era, in the order of their target offsets."""
        partition = self._partitions.get(topic_partition)
        return SegmentIndex() if partition is None else partition.entries

    def put(self, topic_partition: TopicPartition, place: int, segment: Segment | None) -> None:
        """Load the segment that was fetched at ``place`` for this partition. None, or another one: it is lost."""
        entry = None
        if segment is not None and segment.topic_partition == topic_partition:
            entry = self._of(topic_partition).entry(segment.era, segment.sequence)
        self.loaded.put(place, None if entry is None or entry.place != place else segment)

    def translate(
        self,
        topic_partition: TopicPartition,
        upstream_offset: int,
        by_syncs: Callable[[TopicPartition, int], Translation],
    ) -> Translation:
        """Translate the position ``upstream_offset``; ``by_syncs`` translates as Java, for positions not in the map.

        Raises SegmentNotLoaded.
        """
        found = self.look_up(topic_partition, upstream_offset)
        if isinstance(found, Found):
            return Translated(offset=found.offset, behind=0)
        translated = by_syncs(topic_partition, upstream_offset)
        return translated if found is None else combine(found, translated)

    def latest(self, topic_partition: TopicPartition, upstream_offset: int) -> int | None:
        """Return the last target offset from which the position ``upstream_offset`` misses nothing; None: unknown.

        Raises SegmentNotLoaded.
        """
        found = self.look_up(topic_partition, upstream_offset)
        if found is None:
            return None
        return found.offset if isinstance(found, Found) else found.most

    def _of(self, topic_partition: TopicPartition) -> PartitionOffsets:
        partition = self._partitions.get(topic_partition)
        if partition is None:
            partition = self._partitions[topic_partition] = PartitionOffsets(self.loaded)
        return partition


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
    E. Only the ranges of the newest segment are in memory, or in ``loaded``. A segment whose ranges all count in their
       order takes 90 bytes, any other one as much again for each of its parts.
    F. A segment is taken as a whole, by its head, if it is clean and continues what is known: its ranges are in the
       order of acknowledgements, so a thousand of them cost as much as one.
    G. Between segments of which one is missing or cannot be read, nothing is known.
    """

    __slots__ = (
        "_counting",
        "_era",
        "_gap_sequence",
        "_has_gap",
        "_index",
        "_loaded",
        "_reach",
        "_repeat",
        "_truncations",
        "_whole",
    )

    def __init__(self, loaded: LoadedSegments | None = None) -> None:
        self._loaded = LoadedSegments() if loaded is None else loaded
        self._era = -1
        self._truncations = -1  # the sequence of the last segment that begins with a truncation
        self._index = SegmentIndex()
        self._counting = PartStore(self._index)
        self._repeat: PartStore | None = None
        self._reach = NO_PROGRESS
        self._has_gap = False  # a record since the newest segment could not be read: that of this sequence
        self._gap_sequence = -1
        self._whole = False  # the newest segment is a part of those that count, as a whole

    @property
    def entries(self) -> SegmentIndex:
        """The segments of the last era, in the order of their target offsets."""
        return self._index

    @property
    def size(self) -> int:
        """The bytes of these segments in the topic."""
        return self._index.size

    @property
    def exact_from(self) -> int | None:
        """The source offset from which on every position up to the last one is exact; None: there is none."""
        return self._counting.exact_from

    def entry(self, era: int, sequence: int) -> SegmentEntry | None:
        """Return a segment; None if it is not in the map."""
        return self._index.by_sequence(sequence) if era == self._era else None

    def apply(self, segment: Segment, offset: int) -> None:
        """Apply the next record, decoded; ranges repeated from earlier records change nothing."""
        key = SegmentKey(segment.topic_partition, segment.era, segment.sequence)
        self.apply_head(key, segment.head, segment, Place(offset, 0))

    def apply_head(self, key: SegmentKey, head: SegmentHead, content: Segment | EncodedSegment, place: Place) -> None:
        """Apply the next record of this partition, by its head. Raises FormatError if it cannot be read."""
        if key.era < self._era:
            return
        if key.era > self._era:
            self._start_era(key.era)
        last = self._index.last
        if last is not None and key.sequence < last.sequence:  # it was written again, after a failure or by a reader
            earlier = self._index.move(key.sequence, place=place.offset, size=place.size)
            if earlier is not None and earlier != place.offset:
                self._loaded.discard(earlier)
            return
        if last is None or key.sequence > last.sequence + 1 or (self._has_gap and key.sequence > last.sequence):
            self._pass_gap(head)
        known = last if last is not None and last.sequence == key.sequence else None
        if key.sequence >= self._gap_sequence:
            self._has_gap = False
        self._pin(last, known, content, place)
        if known is None:
            self._begin(key, head)
        if self._reach.upstream < head.before.upstream:
            self._reach = self._reach._replace(upstream=head.before.upstream)
        whole = self._whole and head.clean
        if not whole and known is not None:
            self._counting.end_segment(known)
        self._index.add(SegmentEntry.of(key, head, place=place.offset, size=place.size))
        self._whole = whole
        if whole:
            self._take_whole(key, head)
        else:
            self._take_ranges(key, head, place)
        if head.downstream >= 0 and head.downstream_end == self._reach.downstream:
            latest = self._counting if self._repeat is None else self._repeat
            latest.through = max(latest.through, head.through)

    def gap(self, key: SegmentKey) -> None:
        """A record of this partition cannot be read."""
        if key.era > self._era:
            self._start_era(key.era)
        last = self._index.last
        if key.era == self._era and (last is None or key.sequence >= last.sequence):
            self._has_gap, self._gap_sequence = True, key.sequence
            for store in (self._counting, self._repeat):
                if store is not None:
                    store.through = -1  # what follows is unknown

    def remove(self, key: SegmentKey) -> None:
        """A segment was deleted; the newest one is kept."""
        if key.era != self._era:
            return
        entry = self._index.remove(key.sequence)
        if entry is not None:
            self._loaded.discard(entry.place)
            for store in (self._counting, self._repeat):
                if store is not None:
                    store.drop(key.sequence)

    def look_up(self, upstream: int) -> MapLookup:
        """Return the target offset of the source position ``upstream``, or its bounds. Raises SegmentNotLoaded."""
        return self._counting.look_up(upstream, self._loaded)

    @property
    def progress(self) -> CopiedUpTo:
        """The end of all copies, also of those in a repeat that do not count yet, and of what carries no record."""
        through = self._counting.through if self._repeat is None else self._repeat.through
        return self._reach._replace(upstream=max(self._reach.upstream, self._counting.through, through))

    @property
    def has_gap(self) -> bool:
        """Whether a record since the newest segment could not be read, so that ``progress`` can be out of date."""
        return self._has_gap

    def _start_era(self, era: int) -> None:
        for entry in self._index:
            self._loaded.discard(entry.place)
        self._era = era
        self._index = SegmentIndex()
        self._counting = PartStore(self._index)
        self._repeat = None
        self._reach = NO_PROGRESS
        self._has_gap = False
        self._gap_sequence = -1

    def _pin(
        self, last: SegmentEntry | None, known: SegmentEntry | None, content: Segment | EncodedSegment, place: Place
    ) -> None:
        """Pin the newest segment instead of the last one, or of ``known``, its record before."""
        if known is not None and known.place != place.offset:
            self._loaded.discard(known.place)
        elif last is not None and known is None:
            self._loaded.unpin(last.place)
        self._loaded.pin(place.offset, content)

    def _pass_gap(self, head: SegmentHead) -> None:
        """Continue after segments that were deleted, or cannot be read, perhaps not by the next one's writer either."""
        self._repeat = None
        if not (head.after_gap and head.before.downstream < 0 <= self._reach.downstream):
            self._reach = head.before

    def _begin(self, key: SegmentKey, head: SegmentHead) -> None:
        """Begin the newest segment."""
        if head.truncated >= 0 and key.sequence > self._truncations:
            self._truncate(key, head)
        reach = self._reach._replace(upstream=max(self._reach.upstream, head.before.upstream))
        self._whole = self._repeat is None and reach == head.before and reach.doubt == 0

    def _truncate(self, key: SegmentKey, head: SegmentHead) -> None:
        """End all ranges where the source's log was truncated. A repeat has reached that offset, so it counts now."""
        self._truncations = key.sequence
        if self._repeat is not None:
            self._repeat.cut(head.truncated)
            self._counting.replace_from(self._repeat)
            self._repeat = None
        self._counting.cut(head.truncated)
        self._reach = head.before
        if (end := self._reach.downstream) >= 0:  # what is copied from there on follows on the target
            self._counting.append(Part(key.sequence, head.truncated, end, head.truncated, end))

    def _take_whole(self, key: SegmentKey, head: SegmentHead) -> None:
        if head.downstream < 0:
            return
        self._counting.add_segment(key.sequence)
        upstream, downstream, _ = self._reach
        self._reach = CopiedUpTo(max(upstream, head.upstream_end), max(downstream, head.downstream_end))
        self._counting.through = head.upstream_end

    def _take_ranges(self, key: SegmentKey, head: SegmentHead, place: Place) -> None:
        if head.downstream < 0:
            return
        try:
            segment = self._loaded.get(place.offset)
        except SegmentLost:
            raise FormatError("cannot read exact offsets value: it is damaged") from None
        if segment.packed is not None:
            self._take_packed(key.sequence, segment.packed, head.before)
        for copied in segment.ranges:
            self._take(key.sequence, copied)

    def _take_packed(self, sequence: int, packed: PackedRanges, before: CopiedUpTo) -> None:
        known = self._reach.downstream
        if packed.downstream_end <= known:
            return
        started = packed.downstream < known  # ranges of this segment are known already
        if self._repeat is not None or self._reach.doubt or not packed.follows(before if started else self._reach):
            for copied in packed.ranges():
                self._take(sequence, copied)
            return
        upstream, downstream = packed.upstream, packed.downstream
        if started:
            self._counting.cut(upstream)
        self._counting.append(
            Part(sequence, upstream, downstream, packed.upstream_end, packed.downstream_end, packed.hole)
        )
        self._reach = CopiedUpTo(max(self._reach.upstream, packed.upstream_end), packed.downstream_end)

    def _take(self, sequence: int, copied: CopiedRange) -> None:
        known = max(0, self._reach.downstream - copied.downstream)
        if known == 0:
            self._add(sequence, copied)
        elif known < copied.records:  # it has grown
            self._add(sequence, CopiedRange(copied.upstream + known, copied.downstream + known, copied.records - known))

    def _add(self, sequence: int, copied: CopiedRange) -> None:
        again = copied.upstream < self._reach.upstream
        self._reach = self._reach.after(copied)
        part = Part(
            sequence, copied.upstream, copied.downstream, copied.upstream_end, copied.downstream_end, copied.hole
        )
        if self._repeat is None:
            if not again and not self._reach.doubt:
                self._counting.append(part)
                return
            self._repeat = PartStore(self._index)
        self._repeat.cut(copied.upstream)
        self._repeat.append(part)
        if copied.upstream_end == self._reach.upstream and not self._reach.doubt:
            self._counting.replace_from(self._repeat)
            self._repeat = None
