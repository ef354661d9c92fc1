"""Maps rebuilt by content: no position that they translate misses a copy, whatever was copied, repeated and lost."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.core.alignment.aligner import Alignment, SourceRecords, TargetAligner
from mm2.core.alignment.rebuilt_map import StoredMap, rebuilt_segments
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import UNKNOWN_IDS
from mm2.core.offsets.exact_offsets import Found
from tests.lab.exact_map import fold
from tests.lab.examples import examples

TP = TopicPartition("orders", 0)

KEYS = 17  # a record's key is the rest of its content by this
WRITE = st.tuples(st.just("write"), st.lists(st.integers(0, 40), min_size=1, max_size=8))
UNIQUE = st.tuples(st.just("unique"), st.integers(1, 12))
COUNTS = st.tuples(
    st.sampled_from(["copy", "copy", "restart", "marker", "target_marker", "drop", "foreign"]), st.integers(1, 6)
)
DELETE = st.tuples(st.sampled_from(["compact", "compact_target", "expire", "expire_target"]), st.integers(0, 30))
EVENTS = st.lists(st.one_of(WRITE, UNIQUE, UNIQUE, COUNTS, COUNTS, DELETE), max_size=40)


@dataclass
class World:
    """Two partitions. ``source`` and ``target`` have contents by offset; ``copies`` the source offsets of copies."""

    source: dict[int, int] = field(default_factory=dict)
    target: dict[int, int] = field(default_factory=dict)
    copies: dict[int, int] = field(default_factory=dict)
    source_end: int = 0
    target_end: int = 0
    position: int = 0
    unique: int = 1_000

    def apply(self, what: str, how: list[int] | int) -> None:
        getattr(self, what)(how)

    def write(self, contents: list[int]) -> None:
        """Contents can repeat."""
        for content in contents:
            self.source[self.source_end] = content
            self.source_end += 1

    def unique_records(self, count: int) -> None:
        self.write([self.unique * 7919 + number for number in range(count)])
        self.unique += count

    def copy(self, count: int) -> None:
        for _ in range(count * 2):
            if self.position < self.source_end:
                if self.position in self.source:
                    self.put(self.source[self.position], self.position)
                self.position += 1

    def put(self, content: int, source: int | None) -> None:
        self.target[self.target_end] = content
        if source is not None:
            self.copies[self.target_end] = source
        self.target_end += 1

    def restart(self, count: int) -> None:
        """Copy some records again."""
        self.position = max(0, self.position - count)

    def marker(self, count: int) -> None:
        self.source_end += count

    def target_marker(self, count: int) -> None:
        self.target_end += count

    def drop(self, count: int) -> None:
        """Leave out records, as an operator does who skips them."""
        self.position = min(self.source_end, self.position + count)

    def foreign(self, count: int) -> None:
        """Others write to the target, also what is on the source."""
        for number in range(count):
            self.put(number * 3, None)

    def compact(self, until: int) -> None:
        """Remove copied records of which a later one has the same key; other removed ones would never be copied."""
        newest = {content % KEYS: offset for offset, content in sorted(self.source.items())}
        for offset, content in list(self.source.items()):
            if offset < min(until, self.position) and newest[content % KEYS] > offset:
                del self.source[offset]

    def compact_target(self, step: int) -> None:
        for offset in [one for one in self.target if one % 5 == step % 5]:
            del self.target[offset]
            self.copies.pop(offset, None)

    def expire(self, until: int) -> None:
        for offset in [one for one in self.source if one < min(until, self.position)]:
            del self.source[offset]

    def expire_target(self, until: int) -> None:
        for offset in [one for one in self.target if one < until]:
            del self.target[offset]
            self.copies.pop(offset, None)

    def aligned(self, most_anchors: int) -> Alignment:
        known = SourceRecords(most_anchors=most_anchors)
        for offset, content in sorted(self.source.items()):
            known.add(offset, content)
        aligner = TargetAligner(known)
        for offset, content in sorted(self.target.items()):
            aligner.add(offset, content)
        return aligner.aligned()


def look_up(found: Alignment, source_end: int, position: int) -> tuple[int | None, bool]:
    """Return the target offset, and whether it is exact; None: nothing is known."""
    least = None
    for one in found.ranges:
        if position < one.upstream - one.hole:
            return least, False
        if position < one.upstream:
            return one.downstream, True
        if position < one.upstream_end:
            return one.downstream + position - one.upstream, True
        least = one.downstream_end
    return least, found.reaches_end and position <= source_end


def run(events: list[tuple[str, list[int] | int]]) -> World:
    world = World()
    for what, how in events:
        world.apply("unique_records" if what == "unique" else what, how)
    return world


@settings(max_examples=examples(400))
@given(EVENTS, st.sampled_from([4, 16, 10_000]))
def test_no_position_misses_a_copy(events: list[tuple[str, list[int] | int]], most_anchors: int) -> None:
    world = run(events)
    found = world.aligned(most_anchors)
    check_shape(found, world)
    for position in range(world.source_end + 1):
        offset, _ = look_up(found, world.source_end, position)
        if offset is None:
            continue
        for source, content in world.source.items():
            if source < position:
                continue
            copies = [at for at, of in world.copies.items() if of == source]
            same = [at for at, one in world.target.items() if one == content]
            assert not copies or max(same) >= offset, (position, offset, source, found)


@settings(max_examples=examples(150))
@given(EVENTS, st.sampled_from([4, 10_000]))
def test_the_map_that_readers_have_misses_no_copy(events: list[tuple[str, list[int] | int]], most_anchors: int) -> None:
    """It is built from segments, whose readers doubt what may be repeated."""
    world = run(events)
    found = world.aligned(most_anchors)
    stored = StoredMap(partition=TP)
    known = fold(rebuilt_segments(stored, found, UNKNOWN_IDS, source_end=world.source_end))
    for position in range(world.source_end + 1):
        answer = known.look_up(position)
        offset = answer.offset if isinstance(answer, Found) else answer.least
        simple, _ = look_up(found, world.source_end, position)
        assert offset is None or (simple is not None and offset <= simple)


def check_shape(found: Alignment, world: World) -> None:
    """Ranges increase on both sides, and hole and range say what the sides have."""
    upstream = downstream = 0
    for one in found.ranges:
        assert one.records > 0
        assert one.upstream - one.hole >= upstream
        assert one.downstream >= downstream
        assert not [at for at in range(one.upstream - one.hole, one.upstream) if at in world.source]
        for number in range(one.records):
            assert world.source[one.upstream + number] == world.target[one.downstream + number]
        upstream, downstream = one.upstream_end, one.downstream_end
    assert found.explained == sum(one.records for one in found.ranges)
    assert (found.source, found.target) == (len(world.source), len(world.target))
    assert found.explained + found.repeated + found.others == len(world.target)


ONCE = st.lists(
    st.one_of(UNIQUE, UNIQUE, st.tuples(st.sampled_from(["copy", "marker", "target_marker"]), st.integers(1, 6))),
    max_size=40,
)


@settings(max_examples=examples(200))
@given(ONCE)
def test_what_was_copied_once_is_exact(events: list[tuple[str, list[int] | int]]) -> None:
    """Records that differ, markers on both sides."""
    world = run(events)
    found = world.aligned(10_000)
    copied = {source: target for target, source in world.copies.items()}
    for source, target in copied.items():
        assert look_up(found, world.source_end, source) == (target, True)
    assert found.others == 0


@settings(max_examples=examples(200))
@given(ONCE, st.integers(1, 30), st.integers(1, 30))
def test_the_last_copies_count_when_they_have_caught_up(
    events: list[tuple[str, list[int] | int]], back: int, again: int
) -> None:
    world = run([*events, ("unique", 10), ("copy", 5), ("restart", back), ("copy", again), ("copy", 50), ("copy", 50)])
    found = world.aligned(10_000)
    copied: dict[int, int] = {}
    for target, source in world.copies.items():
        copied[source] = max(copied.get(source, 0), target)
    for source, target in copied.items():
        assert look_up(found, world.source_end, source) == (target, True)
