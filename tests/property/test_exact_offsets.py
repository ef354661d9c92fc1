"""Exact offsets compared with what a reader of the target finds, after copying, crashes and other events."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import (
    SEGMENT_RANGES,
    ProducerEpoch,
    Segment,
    TopicIds,
    after_gap,
    decode_key,
    decode_segment,
)
from mm2.core.offsets.exact_offsets import Bounded, ExactOffsets, Found, MapLookup, combine
from mm2.core.offsets.offset_translation import NO_SYNC, NOT_READY, TooOld, Translated, Translation
from mm2.core.offsets.packed_ranges import LIMITS, PackingLimits
from mm2.core.offsets.segment_index import LoadedSegments, SegmentNotLoaded
from mm2.core.wire.formats import FormatError

TP = TopicPartition("orders", 3)
SMALL = st.integers(0, 12)
GROW = st.tuples(st.just("grow"), st.lists(st.booleans(), min_size=1, max_size=12))
GROW_FULL = st.tuples(st.just("grow"), st.integers(10, 40).map(lambda count: [True] * count))
COPY = st.tuples(st.just("copy"), st.integers(1, 6))
COMMIT = st.tuples(st.sampled_from(["flush", "write", "marker", "compact", "restart"]), st.just(0))
CRASH = st.tuples(st.just("crash"), st.integers(0, 6))
FAILURE = st.tuples(
    st.sampled_from(
        [
            "java",
            "somewhere",
            "somewhere",
            "rejected",
            "delete_records",
            "lose_target",
            "new_source",
            "truncate",
            "damage",
            "retain",
        ]
    ),
    SMALL,
)
WRITE = st.tuples(st.sampled_from(["flush", "write", "write", "marker"]), st.just(0))
LIFE = st.tuples(
    st.lists(st.one_of(COPY, COPY, WRITE, GROW), min_size=1, max_size=6), st.one_of(CRASH, FAILURE, COMMIT)
)
UNDISTURBED = st.lists(st.one_of(GROW, GROW_FULL, COPY, COPY, COMMIT), max_size=40)
DISTURBED = st.lists(LIFE, min_size=2, max_size=12).map(
    lambda lives: [event for life, end in lives for event in (*life, end)]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When ranges are packed."""

    segment_ranges: int = SEGMENT_RANGES
    packing: PackingLimits = LIMITS


@dataclass
class World:
    """A source partition, its remote partition, and the programs that copy between them.

    Target entries are source offsets, or None for other records; ``records`` are the source offsets that have a record.
    """

    waiting: int
    limits: Limits
    records: set[int] = field(default_factory=set)
    source_end: int = 0
    target: list[int | None] = field(default_factory=list)
    topic: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    ids: int = 1
    stored: int = 0
    position: int = 0
    in_order: bool = False
    journal: ExactOffsetJournal = field(init=False)

    def __post_init__(self) -> None:
        self.start()
        self.first_segment()
        self.apply_event("grow", [True] * 20)

    def first_segment(self) -> None:
        """Write the first segment. Everything written to the target before it is assumed to be complete."""
        self.apply_event("grow", [True])
        self.copy(self.source_end - self.position)
        self.flush(0)

    def start(self) -> None:
        """Start the program again: it knows the stored offset and the last segment only."""
        self.in_order = False
        last: Segment | None = None
        for key, value in sorted(self.topic, key=lambda record: decode_key(record[0]).sequence):
            if last is None or decode_key(key).sequence >= last.sequence:
                try:
                    last = decode_segment(key, value) or last
                except FormatError:
                    last = after_gap(decode_key(key), last)
        ids = TopicIds(UUID(int=self.ids), UUID(int=self.ids))
        self.journal = ExactOffsetJournal(
            TP,
            topic_ids=ids,
            last=last,
            waiting=self.waiting,
            segment_ranges=self.limits.segment_ranges,
            limits=self.limits.packing,
        )
        self.position = self.stored

    def append(self, count: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """Copy the next offsets and return the runs and their base offset."""
        base = len(self.target)
        runs: list[tuple[int, int]] = []
        until = min(self.position + count, self.source_end)
        for offset in range(self.position, until):
            if offset in self.records:
                self.target.append(offset)
                if runs and sum(runs[-1]) == offset:
                    runs[-1] = (runs[-1][0], runs[-1][1] + 1)
                else:
                    runs.append((offset, 1))
        self.position = until
        return tuple(runs), base

    def apply_event(self, what: str, how: int | list[bool]) -> None:
        if isinstance(how, list):
            self.records |= {self.source_end + step for step, carries in enumerate(how) if carries}
            self.source_end += len(how)
        else:
            getattr(self, what)(how)

    def copy(self, count: int) -> None:
        since = self.position
        runs, base = self.append(count)
        self.journal.acked(runs, base, since=since, until=self.position)

    def somewhere(self, count: int) -> None:
        since = self.position
        if self.append(count)[0]:
            self.journal.acked_somewhere(until=self.position)
        else:
            self.journal.passed(since, self.position)

    def write(self, _: int) -> None:
        for segment in self.journal.unwritten():
            self.topic.append((segment.key(), segment.value()))
            self.journal.written(segment)
        self.in_order = False

    def rejected(self, _: int) -> None:
        """Reject the segments while source offsets are still committed.

        The program then has to stop in order, because its successor cannot know that something is missing.
        """
        if self.journal.unwritten():
            self.journal.refused()
            self.in_order = True
        self.stored = self.position

    def flush(self, _: int) -> None:
        self.write(0)
        self.stored = self.position

    def crash(self, unknown: int) -> None:
        """End the program; after rejected segments it stops in order.

        The successor takes the offsets that no segment records for those of others, as after Java: it would be wrong
        about them if it crashed before its own first segment, too.
        """
        if self.in_order:
            self.stored = self.position
            self.start()
            self.first_segment()
        else:
            self.append(unknown)
            self.start()

    def restart(self, _: int) -> None:
        self.flush(0)
        self.start()

    def java(self, count: int) -> None:
        """Copy for a while with Java and stop in order."""
        self.position = self.stored
        self.append(3 * count)
        self.stored = self.position
        self.start()
        self.first_segment()

    def marker(self, _: int) -> None:
        self.target.append(None)

    def delete_records(self, which: int) -> None:
        self.records -= set(sorted(self.records)[which::5])

    def compact(self, _: int) -> None:
        self.topic = [(key, value) for key, value in dict(self.topic).items() if value is not None]
        self.topic.sort(key=lambda record: decode_key(record[0]).sequence)

    def retain(self, count: int) -> None:
        """Delete all but the last segments."""
        keys = sorted({key for key, _ in self.topic}, key=lambda key: decode_key(key).sequence)
        self.topic += [(key, None) for key in keys[: -1 - count] if dict(self.topic)[key] is not None]

    def damage(self, _: int) -> None:
        """Replace the newest segment by one that cannot be read. The one before it tells how far copying had come."""
        key, value = self.topic[-1]
        earlier = [decode_key(other) for other, known in self.topic if known is not None and _is_readable(known)]
        newest = decode_key(key)
        if value is not None and any(one.era == newest.era and one.sequence == newest.sequence - 1 for one in earlier):
            self.topic.append((key, UNREADABLE))
            self.start()

    def lose_target(self, _: int) -> None:
        """Recreate the remote topic; nothing is copied twice for that."""
        self.target.clear()
        self.ids += 1
        self.restart(0)
        self.write(0)
        self.first_segment()

    def truncate(self, count: int) -> None:
        """Lose the last offsets of the source. The program goes back and stores that before it writes segments."""
        self.source_end = max(0, self.source_end - count)
        self.records = {offset for offset in self.records if offset < self.source_end}
        self.target = [None if offset is None or offset >= self.source_end else offset for offset in self.target]
        if self.position > self.source_end:
            self.position = self.stored = self.source_end
            self.journal.truncated(self.source_end)

    def new_source(self, _: int) -> None:
        self.records.clear()
        self.source_end = self.stored = 0
        self.target = [None] * len(self.target)
        self.ids += 1
        self.start()
        self.write(0)
        self.first_segment()

    def safe_offsets(self) -> list[int]:
        """Return, for each source position, the last target offset from which no record is missed."""
        last_copies = {offset: at for at, offset in enumerate(self.target) if offset is not None}
        latest = [len(self.target)] * (self.source_end + 2)
        for offset in range(self.source_end - 1, -1, -1):
            copy = last_copies.get(offset, latest[offset]) if offset in self.records else latest[offset]
            latest[offset] = min(latest[offset + 1], copy)
        return latest


UNREADABLE = b"\0\7"  # a version that does not exist yet


def _is_readable(value: bytes) -> bool:
    return value != UNREADABLE


class Reader:
    """Reads the map and fetches segments by their place, few of which stay loaded."""

    def __init__(self, world: World) -> None:
        self.offsets = ExactOffsets(LoadedSegments(kept=2))
        self._topic = world.topic
        self._read = 0

    def read(self, world: World) -> Reader:
        if world.topic is not self._topic:  # compacted
            self.__init__(world)  # type: ignore[misc]
        for key, value in world.topic[self._read :]:
            place, self._read = self._read, self._read + 1
            with suppress(FormatError):
                self.offsets.apply_record(key, value, place)
        return self

    def look_up(self, upstream: int) -> MapLookup:
        while True:
            try:
                return self.offsets.look_up(TP, upstream) or Bounded()
            except SegmentNotLoaded as missing:
                self.offsets.put(TP, missing.place, decode_segment(*self._topic[missing.place]))


def judge(world: World, partition: Reader) -> None:
    lowest = -1
    for upstream, safe in enumerate(world.safe_offsets()):
        place = partition.look_up(upstream)
        if isinstance(place, Found):
            least = most = place.offset
        else:
            least = lowest if place.least is None else place.least
            most = least if place.most is None else place.most
        assert lowest <= least <= most, "D"
        assert least <= safe, "B"
        assert least <= len(world.target), "C"
        lowest = least


PACKED = Limits(segment_ranges=4, packing=PackingLimits(tokens=6, alike=3, journal_kept=2))
"""So low that the few ranges of an example are packed and fill segments."""

with_limits = pytest.mark.parametrize("limits", [Limits(), PACKED], ids=["", "packed"])


@with_limits
@given(events=DISTURBED, waiting=st.integers(1, 3))
def test_no_record_is_ever_missed(limits: Limits, events: list[tuple[str, int | list[bool]]], waiting: int) -> None:
    world = World(waiting, limits)
    running = Reader(world)
    for what, how in events:
        world.apply_event(what, how)
        judge(world, running.read(world))
        judge(world, Reader(world).read(world))


@with_limits
@given(events=UNDISTURBED)
def test_every_position_is_exact_without_failures(limits: Limits, events: list[tuple[str, int | list[bool]]]) -> None:
    world = World(waiting=32, limits=limits)
    for what, how in events:
        if what != "marker" or world.target[-1] is not None:  # more of them could hide records after a crash
            world.apply_event(what, how)
    world.flush(0)
    partition = Reader(world).read(world)
    copied = [offset for offset in world.target if offset is not None]
    for upstream in range(world.position + 1 if copied else 0):
        place = partition.look_up(upstream)
        assert isinstance(place, Found)
        following = [at for at, offset in enumerate(world.target) if offset is not None and offset >= upstream]
        last_record = world.target.index(copied[-1])
        assert place.offset == (following[0] if following else last_record + 1)


RANGES = st.lists(
    st.tuples(st.integers(-(2**40), 2**40), st.integers(0, 2**33), st.integers(1, 2**40), st.integers(0, 2**20)),
    max_size=40,
)


@given(
    numbers=st.tuples(*[st.integers(-1, 2**62)] * 5),
    ids=st.tuples(*[st.one_of(st.none(), st.integers(1, 2**128 - 1))] * 2),
    steps=RANGES,
    topic=st.text(max_size=20),
)
def test_records_round_trip(
    numbers: tuple[int, ...], ids: tuple[int | None, ...], steps: list[tuple[int, int, int, int]], topic: str
) -> None:
    upstream, downstream, ranges = 2**50, 0, []
    for step, ahead, records, hole in steps:
        upstream, downstream = max(hole, upstream + step), downstream + ahead
        ranges.append(CopiedRange(upstream, downstream, records, hole))
        upstream, downstream = ranges[-1].upstream_end, ranges[-1].downstream_end
    segment = Segment(
        topic_partition=TopicPartition(topic.encode(errors="replace").decode(), 7),
        sequence=numbers[0],
        era=3,
        topic_ids=TopicIds(*(None if number is None else UUID(int=number) for number in ids)),
        before=CopiedUpTo(*numbers[1:4]),
        through=numbers[4],
        ranges=tuple(ranges),
        producers=tuple(ProducerEpoch(number, number % 7) for number in numbers if number >= 0),
    )
    assert decode_segment(segment.key(), segment.value()) == segment


ANSWERS = st.one_of(
    st.sampled_from([NO_SYNC, NOT_READY, TooOld(first=7)]),
    st.builds(Translated, offset=st.integers(0, 20), behind=st.integers(0, 9)),
)
BOUNDS = st.tuples(st.one_of(st.none(), st.integers(0, 20)), st.one_of(st.none(), st.integers(0, 20)))


@given(bounds=BOUNDS, by_syncs=ANSWERS)
def test_javas_translation_is_kept_within_the_known_bounds(
    bounds: tuple[int | None, int | None], by_syncs: Translation
) -> None:
    least, most = (min(bounds), max(bounds)) if None not in bounds else bounds  # type: ignore[type-var]
    answer = combine(Bounded(least, most, 4), by_syncs)
    if isinstance(by_syncs, Translated):
        assert isinstance(answer, Translated)
        assert answer.offset == min(max(by_syncs.offset, least or 0), 99 if most is None else most)
    elif by_syncs is NOT_READY or least is None:
        assert answer == by_syncs
    else:
        assert answer == Translated(offset=least, behind=4)


@with_limits
@settings(max_examples=20)
@given(events=UNDISTURBED)
def test_partitions_do_not_mix(limits: Limits, events: list[tuple[str, int | list[bool]]]) -> None:
    world = World(waiting=2, limits=limits)
    for what, how in events:
        world.apply_event(what, how)
    world.flush(0)
    flow = ExactOffsets(LoadedSegments(kept=1_000))
    for at, (key, value) in enumerate(world.topic):
        flow.apply_record(key, value, at)
    alone = Reader(world).read(world)
    for upstream in range(world.source_end + 2):
        place = alone.look_up(upstream)
        expected = Translated(offset=place.offset, behind=0) if isinstance(place, Found) else combine(place, NO_SYNC)
        with suppress(SegmentNotLoaded):
            assert flow.translate(TP, upstream, lambda *_: NO_SYNC) == expected
        assert flow.translate(TopicPartition("orders", 4), upstream, lambda *_: TooOld(first=3)) == TooOld(first=3)
