"""Positions of a remote partition on the source, by all acknowledgements in the order of the target.

The map from source to target has one copy of each record, the one that counts. The way back needs all copies: a reader
of the target can be at one that does not count any more. So this view reads the segments themselves.

At a copy, the answer is the record that it is of, whether it is the first copy of it or not. Elsewhere it is the record
of the next copy. A reader that starts there skips no record whose first copy is at or after the position.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import NamedTuple

from mm2.core.offsets.copied_ranges import CopiedRange
from mm2.core.offsets.exact_offset_records import Segment
from mm2.core.offsets.leader_epochs import replaced_from
from mm2.core.offsets.packed_ranges import PackedRanges, decoded
from mm2.core.offsets.segment_index import LoadedSegments, SegmentEntry, SegmentIndex, SegmentLost
from mm2.core.positions.answer import PositionAnswer, Precision
from mm2.core.positions.source_to_target import UNKNOWN_EXTENT, Extent
from mm2.core.wire.formats import FormatError

COMPARED_SEGMENTS = 32
"""Segments of a repeat, and segments before it for each of them, that are read to see which of its records were copied
before. After a crash it is one or two. A repeat that an operator ordered can have thousands; then all of its records
count as copied for the first time."""

NO_COPY = "no copy there: a marker, or a record of others"

IN_DOUBT = "target offsets that the map does not explain: markers, records of others, or copies of a crash"

_REMEMBERED = 1_024  # results of such comparisons, of about 200 bytes


@dataclass(frozen=True, slots=True)
class _End:
    """Where copying was: the source and the target offset after a copy."""

    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a target offset is among the ranges of a segment: at the ``copy`` of this source offset, or after ``end``
    and before ``following``; None: the segment has no range there."""

    copy: int | None = None
    end: _End | None = None
    following: CopiedRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """The arguments of `TargetOrder.source_position`."""

    offset: int
    complete: bool
    foreign: Sequence[tuple[int, int]]
    source: Extent

    def read_since(self, end: _End) -> int:
        """Return the most records that a reader can have read since it was at ``end``."""
        return self.offset - end.downstream

    def has_no_copies_since(self, end: _End) -> bool:
        """Return whether the target offsets from ``end`` to the position are known to be no copies."""
        start = end.downstream
        for first, until in sorted(self.foreign):
            if first <= start:
                start = max(start, until)
        return start >= self.offset


class _Span(NamedTuple):
    """Source offsets from ``start`` to before ``end``; the copy of the first one is at target offset ``downstream``."""

    start: int
    end: int
    downstream: int

    @property
    def downstream_end(self) -> int:
        return self.downstream + self.end - self.start


class _LowestAfter:
    """The lowest source offset at which copying continued after each segment."""

    __slots__ = ("_lows", "_sequences")

    def __init__(self) -> None:
        self._sequences: list[int] = []  # both lists increase: a lower offset hides the ones before it
        self._lows: list[int] = []

    def add(self, sequence: int, low: int) -> None:
        """Add an offset of a segment after the last one, or of the last one again, which is not higher then."""
        while self._lows and self._lows[-1] >= low:
            self._sequences.pop()
            self._lows.pop()
        self._sequences.append(sequence)
        self._lows.append(low)

    def after(self, sequence: int) -> int | None:
        """Return the lowest offset of the segments after ``sequence``; None if there is none."""
        at = bisect_right(self._sequences, sequence)
        return self._lows[at] if at < len(self._lows) else None


class TargetOrder:
    """The copies of one source partition in the order of the target.

    Invariants:
    A. No record whose first copy is at or after a target offset is before the answer for that offset, as long as the
       source had it when it was copied last. What others copied without the map is assumed to be in order.
    B. The answer at a copy is its record, unless A forbids it: because the source has lost the record, or because
       records that had been left out were copied later, or copied before at target offsets that were not reported.
    C. An entry is examined once, and again while its segment grows, and only if it is irregular. If copying continued
       in order after the offset, a lookup takes two bisections, over the entries and over the ranges of one segment.

    Not safe for use by two threads.
    """

    def __init__(self, loaded: LoadedSegments) -> None:
        """``loaded`` keeps at least `COMPARED_SEGMENTS` segments and some more, which one lookup can need at once."""
        self._loaded = loaded
        self._era = -1
        self._start_over(-1)

    def _start_over(self, era: int) -> None:
        self._era = era
        self._seen = (-1, -1)  # sequence and place of the last entry that was examined
        self._truncations = _LowestAfter()
        self._lowest_repeats = _LowestAfter()
        self._repeats: list[tuple[int, int]] = []  # sequence and lowest source offset
        self._first_copies: dict[int, tuple[int, tuple[_Span, ...]]] = {}  # with the place, by sequence

    def source_position(
        self,
        entries: SegmentIndex,
        offset: int,
        *,
        complete: bool = True,
        foreign: Sequence[tuple[int, int]] = (),
        source: Extent = UNKNOWN_EXTENT,
        target: Extent = UNKNOWN_EXTENT,
    ) -> PositionAnswer:
        """Return the position on the source of the target offset ``offset``.

        ``entries``: the partition's segments of the current era, in order. ``foreign``: target offsets (first, until)
        that are known to have no copies, but markers or records of others. ``complete``: the newest part of the map can
        be read. ``source`` and ``target``: as read after the map. Raises SegmentNotLoaded.
        """
        if target.end is not None and offset > target.end:
            answer = self.source_position(entries, target.end, complete=complete, foreign=foreign, source=source)
            reason = f"after the end of the remote topic, {target.end}"
            return replace(answer, precision=Precision.AHEAD, reason=reason, missing=offset - target.end)
        if not entries:
            return _within(_conservative(source.start, None, "the map does not have the partition"), source)
        self._catch_up(entries)
        at = bisect_right(entries, offset, key=_start) - 1
        if at < 0:
            answer = _before_the_map(entries[0], offset, source)
        else:
            asked = _Question(offset=offset, complete=complete, foreign=foreign, source=source)
            answer = self._lowered(self._answer(entries, at, asked), entries, at, offset)
        return _within(answer, source)

    def _catch_up(self, entries: SegmentIndex) -> None:
        """Examine the entries since the last lookup."""
        last = entries[-1]
        if last.era != self._era or last.sequence < self._seen[0]:
            self._start_over(last.era)
        if self._seen != (last.sequence, last.place):
            for entry in entries.irregular(self._seen[0]):
                self._examine(entry)
            self._seen = last.sequence, last.place

    def _examine(self, entry: SegmentEntry) -> None:
        if entry.truncated >= 0:
            self._truncations.add(entry.sequence, entry.truncated)
        if 0 <= entry.upstream < entry.before.upstream:
            if self._repeats and self._repeats[-1][0] == entry.sequence:
                self._repeats.pop()
            self._repeats.append((entry.sequence, entry.upstream))
            self._lowest_repeats.add(entry.sequence, entry.upstream)

    def _answer(self, entries: Sequence[SegmentEntry], at: int, asked: _Question) -> PositionAnswer:
        """Answer by the segment in which the offset is, as if copying had continued in order after it."""
        entry = entries[at]
        following: CopiedRange | None = None
        if entry.downstream >= 0:
            try:
                segment = self._segment(entry)
            except SegmentLost:
                return _conservative(entry.upstream, entry.upstream_end - entry.upstream, "the map is damaged there")
            place = _find(segment, asked.offset)
            if place.copy is not None:
                return PositionAnswer(offset=place.copy, precision=Precision.EXACT)
            following = place.following
            if place.end is not None and following is not None:
                return _between(place.end, following, asked)
            if place.end is not None:
                if at + 1 < len(entries):
                    return self._in_gap(entries, at + 1, asked)
                return _at_end(place.end, max(place.end.upstream, segment.through), asked)
        return self._before_ranges(entries, at, following, asked)

    def _before_ranges(
        self, entries: Sequence[SegmentEntry], at: int, following: CopiedRange | None, asked: _Question
    ) -> PositionAnswer:
        """Answer for an offset after segment ``at`` began and before ``following``, its first range, if it has one."""
        entry = entries[at]
        if entry.before.downstream < 0:
            return _before_the_era(entry, following, asked.source)
        end = self._end_before(entries, at)
        if end is None:
            return _before_the_map(entry, asked.offset, asked.source)
        if not _is_next(entries, at):
            return self._in_gap(entries, at, asked)
        if following is not None:
            return _between(end, following, asked)
        if at + 1 < len(entries):
            return self._in_gap(entries, at + 1, asked)
        return _after_empty(entry, end, asked)

    def _in_gap(self, entries: Sequence[SegmentEntry], at: int, asked: _Question) -> PositionAnswer:
        """Answer for an offset before entry ``at`` and after the one before it, with segments missing in between."""
        earlier, entry = entries[at - 1], entries[at]
        end = self._end_before(entries, at)
        assert end is not None  # callers have an earlier segment with ranges
        read = asked.offset - (earlier.before.downstream if earlier.downstream < 0 else earlier.downstream_end)
        least = end.upstream if entry.upstream < 0 else min(end.upstream, entry.upstream)
        return _conservative(least, read + end.upstream - least, "segments of the map are missing there")

    def _end_before(self, entries: Sequence[SegmentEntry], at: int) -> _End | None:
        """Return where copying was before entry ``at``: after the last range, or where the source was truncated.

        None: it is not known, since no earlier segment has ranges. If one is missing, what it had was copied later.
        """
        downstream = entries[at].before.downstream
        truncated = [entries[at].truncated]
        for number in range(at - 1, -1, -1):
            earlier = entries[number]
            if earlier.downstream >= 0:
                if max(truncated) < 0:
                    return _End(self._end_of(earlier), downstream)
                reached = max(earlier.upstream_end, earlier.before.upstream)
                return _End(min(reached, *(one for one in truncated if one >= 0)), downstream)
            truncated.append(earlier.truncated)
        return None

    def _end_of(self, entry: SegmentEntry) -> int:
        """Return the source offset after the last range of a segment; if it is lost, the lowest of all its ranges."""
        if entry.clean:
            return entry.upstream_end
        try:
            return self._segment(entry).ranges[-1].upstream_end
        except SegmentLost:
            return entry.upstream

    def _lowered(self, answer: PositionAnswer, entries: Sequence[SegmentEntry], at: int, offset: int) -> PositionAnswer:
        """Return the answer, or a lower one if records before it were copied for the first time after ``offset``."""
        if answer.offset is None:
            return answer
        truncated = self._truncated_after(entries, at)
        is_lost = truncated == answer.offset and answer.exact
        if truncated is not None and (truncated < answer.offset or is_lost):
            reason = f"the source has lost its records from {truncated} on, and the copies stayed on the target"
            precision = answer.precision if answer.precision is Precision.CONSERVATIVE else Precision.NEXT
            answer = PositionAnswer(offset=truncated, precision=precision, reason=reason, read_again=answer.read_again)
        first = self._first_copy_after(entries, at, offset, answer.offset or 0)
        if first is None or answer.offset is None:
            return answer
        read_again = None if answer.read_again is None else answer.read_again + answer.offset - first
        reason = f"records from {first} on were copied again after the position, and not all of them are before it"
        return _conservative(first, read_again, reason)

    def _truncated_after(self, entries: Sequence[SegmentEntry], at: int) -> int | None:
        """Return the lowest offset at which the source was truncated after segment ``at``.

        The segment that says it can be missing. So the leader epochs are compared, too, with those of the last segment.
        """
        found = [self._truncations.after(entries[at].sequence)]
        if at + 1 < len(entries):
            try:
                earlier, now = self._segment(entries[at]), self._segment(entries[-1])
            except SegmentLost:
                pass
            else:
                found.append(replaced_from(earlier.epochs, now.epochs, 0, earlier.end))
        return min((one for one in found if one is not None), default=None)

    def _first_copy_after(self, entries: Sequence[SegmentEntry], at: int, offset: int, limit: int) -> int | None:
        """Return the lowest source offset before ``limit`` whose first copy may be after ``offset``; None: none is."""
        sequence = entries[at].sequence
        lowest = self._lowest_repeats.after(sequence)
        numbers = [at]
        if lowest is not None and lowest < limit:
            later = self._repeats[bisect_right(self._repeats, sequence, key=_first) :]
            sequences = [one for one, low in later if low < limit]
            if len(sequences) > COMPARED_SEGMENTS:
                return lowest
            numbers += [bisect_left(entries, one, key=_sequence) for one in sequences]
        spans = [span for number in numbers for span in self._copied_first(entries, number)]
        found = [span.start + max(0, offset - span.downstream) for span in spans if offset < span.downstream_end]
        return min((one for one in found if one < limit), default=None)

    def _copied_first(self, entries: Sequence[SegmentEntry], at: int) -> tuple[_Span, ...]:
        """Return the records of a segment that are before the end of all earlier copies, and may not be in them."""
        entry = entries[at]
        if entry.clean or entry.downstream < 0:
            return ()
        place, spans = self._first_copies.get(entry.sequence, (-1, ()))
        if place != entry.place:
            spans = self._compare(entries, at)
            if len(self._first_copies) >= _REMEMBERED:
                self._first_copies.clear()
            self._first_copies[entry.sequence] = entry.place, spans
        return spans

    def _compare(self, entries: Sequence[SegmentEntry], at: int) -> tuple[_Span, ...]:
        entry = entries[at]
        reach = entry.before.upstream
        try:
            segment = self._segment(entry)
        except SegmentLost:
            return (_Span(entry.upstream, max(reach, entry.upstream_end), entry.downstream),)
        known: list[CopiedRange] = []
        again: list[_Span] = []
        if segment.packed is not None:
            reach = max(reach, segment.packed.upstream_end)
        for copied in segment.ranges:
            if copied.upstream < reach:
                span = _Span(copied.upstream, min(copied.upstream_end, reach), copied.downstream)
                again += _without([span], [*_packed_within(segment.packed, [span]), *known])
            known.append(copied)
            reach = max(reach, copied.upstream_end)
        return tuple(self._not_before(entries, at, again))

    def _not_before(self, entries: Sequence[SegmentEntry], at: int, again: list[_Span]) -> list[_Span]:
        """Return what of ``again`` may not be in the segments before ``at``. Copies of lost records do not count."""
        found: list[_Span] = []
        compared = 0
        while again:
            entry = entries[at]
            if entry.truncated >= 0:
                found += _without(again, [CopiedRange(0, 0, entry.truncated)])
                again = _before(again, entry.truncated)
            if at == 0 or not _is_next(entries, at) or all(span.start >= entry.before.upstream for span in again):
                break
            at -= 1
            earlier = entries[at]
            if any(span.start < earlier.upstream_end and earlier.upstream < span.end for span in again):
                if compared == COMPARED_SEGMENTS:
                    break
                compared += 1
                try:
                    segment = self._segment(earlier)
                except SegmentLost:
                    continue
                again = _without(again, [*_packed_within(segment.packed, again), *segment.ranges])
        return found + again

    def _segment(self, entry: SegmentEntry) -> Segment:
        """Return a segment whose packed ranges can be decoded. Raises SegmentNotLoaded and SegmentLost."""
        segment = self._loaded.get(entry.place)
        if segment.packed is not None:
            try:
                decoded(segment.packed)
            except FormatError:
                raise SegmentLost from None
        return segment


_start = attrgetter("before.downstream")
_sequence = attrgetter("sequence")
_downstream = attrgetter("downstream")
_first = itemgetter(0)


def _is_next(entries: Sequence[SegmentEntry], at: int) -> bool:
    """Return whether no segment is missing before entry ``at``, which is not the first one."""
    return entries[at - 1].sequence + 1 == entries[at].sequence


def _find(segment: Segment, offset: int) -> _Place:
    """Find a target offset in a segment that has ranges."""
    end: _End | None = None
    packed = segment.packed
    if packed is not None:
        if offset < packed.downstream:
            return _Place(following=CopiedRange(packed.upstream, packed.downstream, 0, packed.hole))
        if offset < packed.downstream_end:
            return _find_packed(packed, offset)
        end = _End(packed.upstream_end, packed.downstream_end)
    at = bisect_right(segment.ranges, offset, key=_downstream) - 1
    if at >= 0:
        copied = segment.ranges[at]
        if offset < copied.downstream_end:
            return _Place(copy=copied.upstream + offset - copied.downstream)
        end = _End(copied.upstream_end, copied.downstream_end)
    return _Place(end=end, following=segment.ranges[at + 1] if at + 1 < len(segment.ranges) else None)


def _find_packed(packed: PackedRanges, offset: int) -> _Place:
    """Find a target offset from the first to before the end of the last range."""
    known = decoded(packed)
    at = bisect_right(known.downstream, offset) - 1
    step, hole, ahead, records, _ = known.tokens[at]
    earlier, into = divmod(offset - known.downstream[at], ahead + records)
    end = _End(known.upstream[at] + earlier * (step + records), known.downstream[at] + earlier * (ahead + records))
    if into >= ahead:
        return _Place(copy=end.upstream + step + into - ahead)
    return _Place(end=end, following=CopiedRange(end.upstream + step, end.downstream + ahead, records, hole))


def _packed_within(packed: PackedRanges | None, spans: Sequence[_Span]) -> Iterator[CopiedRange]:
    """Yield the packed ranges, which are in order, between the lowest and the highest source offset of ``spans``."""
    if packed is None:
        return
    start, end = min(span.start for span in spans), max(span.end for span in spans)
    known = decoded(packed)
    for at in range(max(0, bisect_right(known.upstream, start) - 1), len(known.tokens)):
        step, hole, ahead, records, times = known.tokens[at]
        upstream, downstream = known.upstream[at], known.downstream[at]
        if upstream >= end:
            return
        for _ in range(times):
            yield CopiedRange(upstream + step, downstream + ahead, records, hole)
            upstream += step + records
            downstream += ahead + records


def _without(spans: Iterable[_Span], ranges: Iterable[CopiedRange]) -> list[_Span]:
    """Return what of the spans is in none of the ranges."""
    left = list(spans)
    for copied in ranges:
        if any(span.start < copied.upstream_end and copied.upstream < span.end for span in left):
            left = [
                part for span in left for part in (*_before([span], copied.upstream), *_from(span, copied.upstream_end))
            ]
    return left


def _before(spans: Iterable[_Span], upstream: int) -> list[_Span]:
    return [span._replace(end=min(span.end, upstream)) for span in spans if span.start < upstream]


def _from(span: _Span, upstream: int) -> list[_Span]:
    start = max(span.start, upstream)
    return [_Span(start, span.end, span.downstream + start - span.start)] if start < span.end else []


def _between(end: _End, following: CopiedRange, asked: _Question) -> PositionAnswer:
    """Answer for an offset after a copy ended and before the next one starts, with or without copies in between."""
    first_hole = following.upstream - following.hole
    if first_hole > end.upstream:
        read_again = min(asked.read_since(end), first_hole - end.upstream)
        return _conservative(end.upstream, read_again, "other programs copied there")
    if asked.has_no_copies_since(end):
        return PositionAnswer(offset=following.upstream, precision=Precision.NEXT, reason=NO_COPY)
    return _conservative(following.upstream, asked.read_since(end), IN_DOUBT)


def _at_end(end: _End, upstream: int, asked: _Question) -> PositionAnswer:
    if not asked.complete:
        return _conservative(upstream, asked.read_since(end), "the newest part of the map cannot be read")
    if asked.has_no_copies_since(end):
        return PositionAnswer(offset=upstream, precision=Precision.END, reason="caught up")
    return _conservative(upstream, asked.read_since(end), "after the last copy that the map has")


def _after_empty(entry: SegmentEntry, end: _End, asked: _Question) -> PositionAnswer:
    """Answer for an offset after the last segment began, which has no ranges yet."""
    if entry.truncated == end.upstream:
        return _at_end(end, end.upstream, asked)
    reason = "the next copies are at target offsets that were not reported"
    return _conservative(end.upstream, asked.read_since(end), reason)


def _before_the_map(entry: SegmentEntry, offset: int, source: Extent) -> PositionAnswer:
    """Answer for an offset before the first range of the oldest segment."""
    read = entry.before.upstream + max(0, offset - entry.before.downstream)
    read_again = None if source.start is None else max(0, read - source.start)
    return _conservative(source.start, read_again, "before the first offset that the map has")


def _before_the_era(entry: SegmentEntry, following: CopiedRange | None, source: Extent) -> PositionAnswer:
    """Answer for an offset before the first copy of an era: of Java, of a former source topic, or none at all."""
    first = source.start or 0
    if following is not None and following.upstream - following.hole <= first:
        if entry.era == 0:
            return PositionAnswer(offset=following.upstream, precision=Precision.NEXT, reason=NO_COPY)
        return _conservative(following.upstream, 0, "before the first copy since a topic was recreated or truncated")
    read_again = None if source.start is None or following is None else following.upstream - first
    return _conservative(source.start, read_again, "before the first copy that the map has")


def _within(answer: PositionAnswer, source: Extent) -> PositionAnswer:
    """Return an answer within the offsets of the source partition, whose start misses nothing."""
    if answer.offset is None:
        return replace(answer, read_again=None)
    if source.end is not None and answer.offset > source.end:
        reason = f"the source ends at {source.end}, before the records in the map: truncated or recreated"
        return _conservative(source.start, None, reason)
    if source.start is not None and answer.offset < source.start:
        precision = Precision.NEXT if answer.exact else answer.precision
        reason = f"the source now starts at {source.start}"
        return replace(answer, offset=source.start, precision=precision, reason=reason)
    return answer


def _conservative(offset: int | None, read_again: int | None, reason: str) -> PositionAnswer:
    return PositionAnswer(offset=offset, precision=Precision.CONSERVATIVE, reason=reason, read_again=read_again)
