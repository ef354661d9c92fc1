"""A source partition, its remote partition, and the programs that copy between them, for positions in both directions.

The world knows which record each target offset has. It is judged by that, and not by what the map says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from hypothesis import strategies as st

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import Segment, SegmentKey, TopicIds
from mm2.core.offsets.leader_epochs import EpochStart, EpochStarts, appended
from mm2.core.offsets.packed_ranges import PackingLimits

TP = TopicPartition("orders", 3)

PACKED = PackingLimits(tokens=6, alike=3, journal_kept=2, unpacked=3, kept=1)
"""So low that the few ranges of an example are packed and fill segments."""


class Record(NamedTuple):
    """A record of the source: no two are equal, also if one takes the offset of another that was lost."""

    offset: int
    number: int


@dataclass
class World:
    """``target`` has a record for each copy, and None for markers and records of others. ``topic`` is that of the map,
    with a key where a segment is deleted, and ``segments`` those that remain, by their sequence."""

    segment_ranges: int = 4
    records: dict[int, Record] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    source_end: int = 0
    target: list[Record | None] = field(default_factory=list)
    segments: dict[int, Segment] = field(default_factory=dict)
    topic: list[Segment | SegmentKey] = field(default_factory=list)
    sources: int = 1
    numbers: int = 0
    stored: int = 0
    position: int = 0
    recorded: int = 0
    unreported: bool = False
    epochs: EpochStarts = (EpochStart(0, 0),)
    journal: ExactOffsetJournal = field(init=False)

    def __post_init__(self) -> None:
        self.restart()
        self.grow([1])
        self.copy(1)
        self.flush(0)

    def apply(self, what: str, how: int | list[int]) -> None:
        getattr(self, what)(how)

    def restart(self) -> None:
        """Start a program, which knows the stored offset and the newest segment only."""
        newest = self.segments[max(self.segments)] if self.segments else None
        ids = TopicIds(UUID(int=self.sources), UUID(int=1))
        self.journal = ExactOffsetJournal(
            TP, topic_ids=ids, last=newest, segment_ranges=self.segment_ranges, limits=PACKED
        )
        self.journal.set_epochs(self.epochs)
        self.position = self.stored

    def grow(self, kinds: list[int]) -> None:
        """Append offsets to the source: 0 is a marker or an aborted record, 1 a record, 2 one that a query drops."""
        for kind in kinds:
            if kind:
                self.numbers += 1
                self.records[self.source_end] = Record(self.source_end, self.numbers)
                if kind == 2:
                    self.dropped.add(self.source_end)
            self.source_end += 1

    def _append(self, count: int) -> tuple[list[tuple[int, int]], int]:
        base, runs = len(self.target), list[tuple[int, int]]()
        until = min(self.position + count, self.source_end)
        for offset in range(self.position, until):
            if offset in self.records and offset not in self.dropped:
                self.target.append(self.records[offset])
                if runs and sum(runs[-1]) == offset:
                    runs[-1] = runs[-1][0], runs[-1][1] + 1
                else:
                    runs.append((offset, 1))
        self.position = until
        return runs, base

    def copy(self, count: int) -> None:
        since = self.position
        runs, base = self._append(count)
        self.journal.acked(runs, base, since=since, until=self.position)

    def somewhere(self, count: int) -> None:
        """Copy without being told where."""
        since = self.position
        if self._append(count)[0]:
            self.journal.acked_somewhere(until=self.position)
            self.unreported = True
        else:
            self.journal.passed(since, self.position)

    def write(self, _: int) -> None:
        for segment in self.journal.unwritten():
            self.segments[segment.sequence] = segment
            self.topic.append(segment)
            self.journal.written(segment)
        self.recorded = max(self.recorded, self.position)

    def flush(self, _: int) -> None:
        self.write(0)
        self.stored = self.position

    def kill(self, unknown: int) -> None:
        """Kill the program when the target has up to ``unknown`` more copies than anybody recorded."""
        self._append(unknown)
        self.restart()

    def others(self, count: int) -> None:
        """Write records of others, or markers, to the target."""
        self.target += [None] * count

    def delete(self, which: int) -> None:
        """Delete records of the source, as compaction does."""
        for offset in sorted(self.records)[which::5]:
            del self.records[offset]

    def truncate(self, count: int) -> None:
        """Lose the last offsets of the source. The program goes back, and stores that before it writes segments.

        It has no sign of it if it is before that offset, so nothing is lost while it repeats what it has recorded.
        """
        end = max(1, self.source_end - count)
        if self.position <= end < self.recorded:
            return
        self.source_end = end
        self.records = {offset: one for offset, one in self.records.items() if offset < end}
        self.dropped = {offset for offset in self.dropped if offset < end}
        self.epochs = appended(self.epochs, self.epochs[-1].epoch + 1, end)
        if self.position > end:
            self.position = self.stored = self.recorded = end
            self.journal.truncated(end)
            self.journal.set_epochs(self.epochs)
            self.write(0)
        self.journal.set_epochs(self.epochs)

    def recreate(self, _: int) -> None:
        """Recreate the source topic: it is copied from its start."""
        self.records.clear()
        self.dropped.clear()
        self.source_end = self.stored = self.recorded = 0
        self.epochs = (EpochStart(0, 0),)
        self.sources += 1
        self.restart()
        self.write(0)
        self.grow([1])
        self.copy(1)
        self.flush(0)

    def query(self, _: int) -> None:
        """Copy what a query has dropped, too, from the start: an operator ordered it."""
        self.flush(0)
        self.dropped.clear()
        self.position = 0
        self.copy(self.source_end)
        self.flush(0)

    def forget(self, count: int) -> None:
        """Delete the oldest segments, but never the newest one."""
        for sequence in sorted(self.segments)[: min(count, len(self.segments) - 1)]:
            deleted = self.segments.pop(sequence)
            self.topic.append(SegmentKey(TP, deleted.era, sequence))

    def copies(self) -> dict[Record, list[int]]:
        """Return where the copies are of each record that the source still has."""
        found: dict[Record, list[int]] = {one: [] for one in self.records.values() if one.offset not in self.dropped}
        for at, record in enumerate(self.target):
            if record in found:
                found[record].append(at)
        return found


SMALL = st.integers(0, 9)
GROW = st.tuples(st.just("grow"), st.lists(st.sampled_from([0, 1, 1, 1, 2]), min_size=1, max_size=12))
COPY = st.tuples(st.just("copy"), st.integers(1, 6))
WRITE = st.tuples(st.sampled_from(["flush", "flush", "write"]), st.just(0))
OTHERS = st.tuples(st.just("others"), st.integers(1, 3))
LIFE = st.lists(st.one_of(COPY, COPY, WRITE, GROW, OTHERS), min_size=1, max_size=7)
REPEATS = st.tuples(st.sampled_from(["kill", "kill", "delete", "truncate"]), SMALL)
FAILURES = st.one_of(REPEATS, st.tuples(st.sampled_from(["somewhere", "recreate", "forget"]), SMALL))


def stories(ends: st.SearchStrategy[tuple[str, int]]) -> st.SearchStrategy[list[tuple[str, int | list[int]]]]:
    """Return a strategy of events in which each of some lives ends in one of ``ends``."""
    return st.lists(st.tuples(LIFE, ends), min_size=1, max_size=10).map(
        lambda lives: [event for life, end in lives for event in (*life, end)]
    )
