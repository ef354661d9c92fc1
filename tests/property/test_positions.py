"""Positions in both directions, compared with which record each target offset has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.core.offsets.exact_offset_records import Segment
from mm2.core.offsets.exact_offsets import ExactOffsets
from mm2.core.offsets.segment_index import LoadedSegments, SegmentNotLoaded
from mm2.core.positions.answer import PositionAnswer, Precision
from mm2.core.positions.map_positions import MapPositions
from mm2.core.positions.source_to_target import Extent
from mm2.core.positions.target_to_source import COMPARED_SEGMENTS
from tests.lab.examples import examples
from tests.property.positions_world import FAILURES, REPEATS, TP, Record, World, stories


class Reader:
    """Reads the map of a world, and fetches segments when they are needed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._read = 0
        self._offsets = ExactOffsets(LoadedSegments(kept=COMPARED_SEGMENTS + 8))
        self._positions = MapPositions(self._offsets)
        self.source = Extent()
        self.target = Extent()

    def read(self) -> Reader:
        """Read what is in the topic now."""
        for place, one in enumerate(self._world.topic[self._read :], self._read):
            if isinstance(one, Segment):
                self._offsets.apply_record(one.key(), one.value(), place)
            else:
                self._offsets.apply_record(one.encode(), None, place)
        self._read = len(self._world.topic)
        return self

    def compacted(self) -> Reader:
        """Return a reader that starts now, when the topic has the last record of each segment only."""
        reader = Reader(self._world)
        for place, one in enumerate(self._world.topic):
            if isinstance(one, Segment) and self._world.segments.get(one.sequence) == one:
                reader._offsets.apply_record(one.key(), one.value(), place)
        reader._read = len(self._world.topic)
        return reader

    def on_source(self, offset: int) -> PositionAnswer:
        return self._ask(partial(self._positions.on_source, TP, offset, source=self.source))

    def on_target(self, offset: int) -> PositionAnswer:
        return self._ask(partial(self._positions.on_target, TP, offset, source=self.source, target=self.target))

    def _ask(self, ask: Callable[[], PositionAnswer]) -> PositionAnswer:
        while True:
            try:
                return ask()
            except SegmentNotLoaded as needed:
                segment = self._world.topic[needed.place]
                assert isinstance(segment, Segment)
                self._offsets.put(TP, needed.place, segment)


def judge_to_source(world: World, reader: Reader) -> None:
    copies = world.copies()
    live = sorted(copies)
    for offset in range(len(world.target) + 2):
        reader.source = Extent()
        known = reader.on_source(offset)
        reader.source = Extent(start=0, end=world.source_end)
        answer = reader.on_source(offset)
        assert known.offset in (answer.offset, None)
        start = answer.offset
        assert start is not None
        for record in live:
            if record.offset < start:
                assert not copies[record] or copies[record][0] < offset, f"A: {record} is skipped at {offset}: {answer}"
                assert copies[record] or record.offset < world.recorded, f"A: {record} is skipped at {offset}: {answer}"
        again = [
            one for one in live if start <= one.offset < world.position and copies[one] and copies[one][-1] < offset
        ]
        assert answer.read_again is not None
        assert len(again) <= answer.read_again, f"{again} are read again at {offset}: {answer}"
        here = world.target[offset] if offset < len(world.target) else None
        if answer.precision is Precision.EXACT:
            assert here == world.records.get(start, Record(start, -1)) or start not in world.records, f"B: {answer}"
            assert here is not None
            assert here.offset == start, f"B: {here} at {offset}: {answer}"


def judge_round_trip(world: World, reader: Reader) -> None:
    reader.source = reader.target = Extent()
    for upstream in range(world.source_end):
        answer = reader.on_target(upstream)
        if answer.exact:
            assert answer.offset is not None
            back = reader.on_source(answer.offset)
            assert (back.offset, back.precision) == (upstream, Precision.EXACT), f"{upstream} is at {answer.offset}"


def judge_to_target(world: World, reader: Reader) -> None:
    copies = world.copies()
    live = sorted(copies)
    reader.source, reader.target = Extent(start=0, end=world.source_end), Extent(start=0, end=len(world.target))
    for upstream in range(world.source_end + 3):
        answer = reader.on_target(upstream)
        start = answer.offset
        assert start is not None
        for record in live:
            if record.offset >= upstream and copies[record]:
                assert copies[record][-1] >= start, f"{record} is skipped at {upstream}: {answer}"
        again = [one for one in live if one.offset < upstream and copies[one] and copies[one][0] >= start]
        assert answer.read_again is not None
        assert len(again) <= answer.read_again or world.unreported, f"{again} are read again at {upstream}: {answer}"
        if answer.exact and upstream in world.records:
            assert world.target[start] == world.records[upstream], f"{upstream}: {answer}"


@given(story=stories(FAILURES))
@settings(max_examples=examples(600))
def test_no_record_is_skipped_in_either_direction(story: list[tuple[str, int | list[int]]]) -> None:
    world = World()
    reader = Reader(world)
    for what, how in story:
        world.apply(what, how)
        if what in ("flush", "write", "recreate", "truncate", "forget"):
            for one in (reader.read(), reader.compacted()):
                judge_to_source(world, one)
                judge_to_target(world, one)


@given(story=stories(REPEATS))
@settings(max_examples=examples(600))
def test_the_way_back_from_a_copy_that_counts_is_its_record(story: list[tuple[str, int | list[int]]]) -> None:
    world = World()
    reader = Reader(world)
    for what, how in story:
        world.apply(what, how)
        if what in ("flush", "write"):
            judge_round_trip(world, reader.read())
            judge_round_trip(world, reader.compacted())


@given(story=stories(st.one_of(FAILURES, st.tuples(st.just("query"), st.just(0)))))
@settings(max_examples=examples(300))
def test_records_that_are_copied_later_are_not_skipped(story: list[tuple[str, int | list[int]]]) -> None:
    world = World()
    reader = Reader(world)
    for what, how in story:
        world.apply(what, how)
        if what in ("flush", "query"):
            judge_to_source(world, reader.read())
