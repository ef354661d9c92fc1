"""Finds by content which records of a remote partition are copies of which source records.

Copying keeps the order: whatever a source task copies, it copies the source's records one after the other, and after
an error or a crash it starts again at an earlier one. So the target has *runs* of copies, with records of others and
copies of deleted records in between. Which copy belongs to which of several equal records is clear only if they stand
between two others.

*Anchors* are source records whose content occurs once on the source. All of them are looked up in the target; of a
large partition only some, chosen by the fingerprint, so that memory is limited. What is between two anchors belongs
together if source and target have the same sequence of records there. Everything else stays unexplained, and positions
there are translated conservatively.

Two things are assumed: what the target has before the first run was copied without a repeat, as in the map that lanes
write; and of records with equal content the source has deleted the earlier ones, as retention and compaction do.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

from mm2.core.alignment.fingerprints import Sequence61, part
from mm2.core.offsets.copied_ranges import CopiedRange

MOST_ANCHORS = 1 << 19
"""Anchors in memory, of 150 bytes each. A partition with more records has one in every two, four, … records."""

TAIL = 4_096
"""Records at the end of both sides that are compared one by one, although they are no anchors."""

_AMBIGUOUS = -1
_UNREADABLE_SOURCE, _UNREADABLE_TARGET = 1, 2  # fingerprints that only make sequences differ


class RecordOffsets:
    """The offsets of the records of a partition by their numbers, which count from 0: 16 bytes for each gap."""

    __slots__ = ("_end", "_first", "_starts", "count")

    def __init__(self) -> None:
        self._starts = array("q")  # offset and number of the first record after each gap
        self._first = array("q")
        self._end = -1  # the offset after the last record
        self.count = 0

    def add(self, offset: int) -> None:
        """Add the next record. Raises ValueError if its offset is not higher than that of the last one."""
        if offset != self._end:
            if offset < self._end:
                raise ValueError(f"offset {offset} after {self._end - 1}")
            self._starts.append(offset)
            self._first.append(self.count)
        self._end = offset + 1
        self.count += 1

    def pieces(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Yield (offset, records) of the records number ``first`` to ``first + count - 1``, without gaps in each."""
        at = bisect_right(self._first, first) - 1
        while count:
            until = self._first[at + 1] if at + 1 < len(self._first) else self.count
            records = min(count, until - first)
            yield self._starts[at] + first - self._first[at], records
            first, count, at = first + records, count - records, at + 1


class SourceRecords:
    """The records of a source partition, in the order of their offsets, as far as the aligner has to know them.

    A. A fingerprint is an anchor only if no other record on the source has it.
    B. At most ``most_anchors`` are kept: those whose fingerprint is a multiple of ``every``, a power of two.

    ``tail``: the fingerprints of the last records.
    """

    def __init__(self, *, most_anchors: int = MOST_ANCHORS) -> None:
        self._most = most_anchors
        self.tail: deque[int] = deque(maxlen=TAIL)
        self._sequence = Sequence61()
        self._numbers: dict[int, int] = {}  # by fingerprint, the number of the record, or _AMBIGUOUS
        self._before: dict[int, int] = {}  # by number of an anchor, the fingerprint of all records up to it
        self.every = 1
        self.offsets = RecordOffsets()

    def add(self, offset: int, record: int) -> None:
        """Add the next record with its fingerprint. Raises ValueError if offsets do not increase."""
        number = self.offsets.count
        self.offsets.add(offset)
        self._sequence.add(record)
        self.tail.append(record)
        if record & (self.every - 1):
            return
        if record in self._numbers:
            self._before.pop(self._numbers[record], None)
            self._numbers[record] = _AMBIGUOUS
        else:
            self._numbers[record] = number
            self._before[number] = self._sequence.value
            if len(self._numbers) > self._most:
                self._thin_out()

    def add_unreadable(self, offset: int) -> None:
        """Add a record, or a batch, whose content cannot be read."""
        self.offsets.add(offset)
        self._sequence.add(_UNREADABLE_SOURCE)
        self.tail.append(_UNREADABLE_SOURCE)

    def _thin_out(self) -> None:
        self.every *= 2
        for record in [one for one in self._numbers if one & (self.every - 1)]:
            self._before.pop(self._numbers.pop(record), None)

    def anchors(self) -> array[int]:
        """Return the numbers of all anchors, in order."""
        return array("q", sorted(self._before))

    def sequence_at(self, number: int) -> int:
        """Return the fingerprint of all records up to the anchor with this number."""
        return self._before[number]

    def anchor(self, record: int) -> tuple[int, int] | None:
        """Return the number of the source record with this fingerprint, and the fingerprint of all up to it.

        None: there is none, or it is not known which one.
        """
        number = self._numbers.get(record, _AMBIGUOUS)
        return None if number == _AMBIGUOUS else (number, self._before[number])


@dataclass(slots=True)
class _Run:
    """``count`` consecutive source records from number ``source`` on are on the target from record ``target`` on."""

    source: int
    target: int
    count: int

    @property
    def source_end(self) -> int:
        return self.source + self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """What was found. ``ranges``: the copies that count, increasing on both sides; their holes are source offsets for
    which neither side has a record. ``reaches_end``: behind them, neither side has a record.

    ``explained``: source records in ``ranges``, of ``source`` records. ``repeated``: target records that are copies,
    but of which others count; ``others``: those that are no copy of a known source record, of ``target`` records.
    """

    ranges: tuple[CopiedRange, ...]
    reaches_end: bool
    source: int
    target: int
    explained: int
    repeated: int
    others: int


class TargetAligner:
    """Takes the records of the remote partition in the order of their offsets, and aligns them with the source's.

    Invariants:
    A. Every record in a run is a copy of the record in its place on the source, or has the same content.
    B. Of several copies of a record the later one counts only if it belongs to a repeat that has every source record
       from its start up to the furthest one that was copied before. So every source record behind a position that has a
       range has a copy behind the position's target offset, or none that was found.
    C. Equal records whose copies are not clear, and records that the target does not have, are in no range and no hole.
    """

    def __init__(self, source: SourceRecords) -> None:
        """``source`` is complete."""
        self._source = source
        self._offsets = RecordOffsets()
        self._sequence = Sequence61()
        self._tail: deque[int] = deque(maxlen=TAIL)
        self._anchors = source.anchors()
        self._last: tuple[int, int, int] | None = None  # the last anchor: its numbers, and the target up to it
        self._run: _Run | None = None
        self._run_end = 0  # of the last run, on the target
        self._chosen: list[_Run] = []
        self._repeat: list[_Run] = []
        self._hidden = 0  # unexplained target records since the last run that counted, perhaps copies of what follows
        self._explained = 0

    def add(self, offset: int, record: int) -> None:
        """Add the next record with its fingerprint. Raises ValueError if offsets do not increase."""
        number = self._offsets.count
        self._offsets.add(offset)
        self._sequence.add(record)
        self._tail.append(record)
        anchor = self._source.anchor(record)
        if anchor is not None:
            self._take(*anchor, number)

    def add_unreadable(self, offset: int) -> None:
        """Add a record, or a batch, whose content cannot be read."""
        self._offsets.add(offset)
        self._sequence.add(_UNREADABLE_TARGET)
        self._tail.append(_UNREADABLE_TARGET)

    def _take(self, source: int, source_sequence: int, target: int) -> None:
        """Take an anchor: it continues the run if everything since the last one is the same on both sides."""
        last, self._last = self._last, (source, target, self._sequence.value)
        if last is not None and self._run is not None:
            last_source, last_target, last_sequence = last
            between = source - last_source
            if between == target - last_target and between > 0:
                start = self._source.sequence_at(last_source)
                if between == 1 or (
                    part(start, source_sequence, between) == part(last_sequence, self._sequence.value, between)
                ):
                    self._run.count += between
                    return
        self._end_run()
        self._run = _Run(source, target, 1)

    def _end_run(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        self._explained += run.count
        self._hidden += run.target - self._run_end
        self._run_end = run.target + run.count
        end = self._chosen[-1].source_end if self._chosen else 0
        if run.source >= end:
            self._chosen.append(run)
            self._count_from_here()
            return
        if self._repeat and self._repeat[0].source < run.source <= self._repeat[-1].source_end:
            _cut(self._repeat, run.source)
        else:
            self._repeat.clear()
        self._repeat.append(run)
        if run.source_end >= (self._next_anchor(end) if self._hidden else end):
            _cut(self._chosen, self._repeat[0].source)
            self._chosen += self._repeat
            self._count_from_here()

    def _count_from_here(self) -> None:
        self._repeat.clear()
        self._hidden = 0

    def _next_anchor(self, source: int) -> int:
        """Return the first anchor from this source record on: copies that are not explained are copies of records
        before it, as the anchor would have been found."""
        at = bisect_left(self._anchors, source)
        return self._anchors[at] if at < len(self._anchors) else self._source.offsets.count

    def _extend(self) -> None:
        """Extend the last run to the end of one of the sides, as long as both have the same records, each once."""
        run, source = self._run, self._source
        if run is None:
            return
        on_source, on_target = list(source.tail), list(self._tail)
        at = run.source_end - (source.offsets.count - len(on_source))
        target_at = run.target + run.count - (self._offsets.count - len(on_target))
        if at < 0 or target_at < 0:
            return
        counts = Counter(on_source)
        for record, copy in zip(on_source[at:], on_target[target_at:], strict=False):
            if record != copy or counts[record] > 1:
                return
            run.count += 1

    def aligned(self) -> Alignment:
        """Return what was found, when all records were added."""
        self._extend()
        self._end_run()
        source, target = self._source.offsets, self._offsets
        counting = sum(run.count for run in self._chosen)
        last = self._chosen[-1] if self._chosen else None
        return Alignment(
            ranges=tuple(self._ranges()),
            reaches_end=last is not None
            and (last.source_end, last.target + last.count) == (source.count, target.count),
            source=source.count,
            target=target.count,
            explained=counting,
            repeated=self._explained - counting,
            others=target.count - self._explained,
        )

    def _ranges(self) -> Iterator[CopiedRange]:
        for run in self._chosen:
            end = None  # of the piece before
            for upstream, downstream, records in self._pieces(run):
                yield CopiedRange(upstream, downstream, records, 0 if end is None else upstream - end)
                end = upstream + records

    def _pieces(self, run: _Run) -> Iterator[tuple[int, int, int]]:
        """Yield source offset, target offset and records, without gaps on either side."""
        target = self._offsets.pieces(run.target, run.count)
        downstream, left = next(target)
        for first, count in self._source.offsets.pieces(run.source, run.count):
            upstream, due = first, count
            while due:
                records = min(due, left)
                yield upstream, downstream, records
                upstream, downstream, due, left = (
                    upstream + records,
                    downstream + records,
                    due - records,
                    left - records,
                )
                if not left:
                    downstream, left = next(target, (downstream, 0))


def _cut(runs: list[_Run], source: int) -> None:
    """Remove source record ``source`` and all later ones. ``runs`` increase on both sides."""
    while runs and runs[-1].source >= source:
        runs.pop()
    if runs and runs[-1].source_end > source:
        last = runs.pop()
        runs.append(_Run(last.source, last.target, source - last.source))
