"""Positions in both directions, compared with which record each target offset has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.core.offsets.exact_offset_records import Segment
from mm2.core.offsets.exact_offsets import Found, FoundKind, PartitionOffsets
from mm2.core.offsets.segment_index import LoadedSegments, SegmentEntry, SegmentNotLoaded
from mm2.core.positions.answer import PositionAnswer, Precision
from mm2.core.positions.source_to_target import Extent, target_position
from mm2.core.positions.target_to_source import TargetOrder

NOSHRINK = (Phase.explicit, Phase.generate, Phase.shrink)
from tests.lab.examples import examples
from tests.lab.positions import entry_of
from tests.property.positions_world import FAILURES, REPEATS, Record, World, stories


@dataclass
class Reader:
    """Reads the map of a world, and fetches segments when they are needed."""

    world: World
    order: TargetOrder
    loaded: LoadedSegments
    entries: Sequence[SegmentEntry] = ()

    @classmethod
    def of(cls, world: World) -> Reader:
        loaded = LoadedSegments(kept=3)
        return cls(world, TargetOrder(loaded), loaded)

    def read(self) -> None:
        """Read what is in the topic now. A segment that has changed is at another place."""
        self.entries = [entry_of(one, place=hash(one) & 0xFFFF_FFFF) for one in self.world.in_order()]
        self.segments = {entry.place: one for entry, one in zip(self.entries, self.world.in_order(), strict=True)}

    def to_source(self, offset: int, source: Extent) -> PositionAnswer:
        while True:
            try:
                return self.order.source_position(self.entries, offset, source=source)
            except SegmentNotLoaded as needed:
                self.loaded.put(needed.place, self.segments[needed.place])

    def reading(self) -> Reader:
        self.read()
        return self

    def forward(self) -> PartitionOffsets:
        partition = PartitionOffsets()
        for segment in self.world.in_order():
            partition.apply(segment)
        return partition


def judge_to_source(world: World, reader: Reader) -> None:
    copies = world.copies()
    live = sorted(copies)
    source = Extent(start=0, end=world.source_end)
    for offset in range(len(world.target) + 2):
        answer = reader.to_source(offset, source)
        known = reader.to_source(offset, Extent())
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
    partition = reader.forward()
    for upstream in range(world.source_end):
        found = partition.look_up(upstream)
        if isinstance(found, Found) and found.kind is FoundKind.RECORD:
            back = reader.to_source(found.offset, Extent())
            assert (back.offset, back.precision) == (upstream, Precision.EXACT), f"{upstream} is at {found.offset}"


def judge_to_target(world: World, segments: Sequence[Segment], partition: PartitionOffsets) -> None:
    copies = world.copies()
    live = sorted(copies)
    for upstream in range(world.source_end + 3):
        answer = target_position(
            upstream,
            partition.look_up(upstream) if segments else None,
            partition.progress,
            source=Extent(start=0, end=world.source_end),
            target=Extent(start=0, end=len(world.target)),
        )
        start = answer.offset
        assert start is not None
        for record in live:
            if record.offset >= upstream and copies[record]:
                assert copies[record][-1] >= start, f"{record} is skipped at {upstream}: {answer}"
        again = [one for one in live if one.offset < upstream and copies[one] and copies[one][0] >= start]
        assert answer.read_again is not None
        assert len(again) <= answer.read_again or world.unreported, f"{again} are read again at {upstream}: {answer}"
        if answer.precision is Precision.EXACT and upstream in world.records:
            assert world.target[start] == world.records[upstream], f"{upstream}: {answer}"


@given(story=stories(FAILURES))
@settings(max_examples=examples(600))
def test_no_record_is_skipped_in_either_direction(story: list[tuple[str, int | list[int]]]) -> None:
    world = World()
    reader = Reader.of(world)
    for what, how in story:
        world.apply(what, how)
        if what in ("flush", "write", "recreate", "truncate", "forget"):
            reader.read()
            judge_to_source(world, reader)
            judge_to_target(world, world.in_order(), reader.forward())


@given(story=stories(REPEATS))
@settings(max_examples=examples(600))
def test_the_way_back_from_a_copy_that_counts_is_its_record(story: list[tuple[str, int | list[int]]]) -> None:
    world = World()
    reader = Reader.of(world)
    for what, how in story:
        world.apply(what, how)
        if what in ("flush", "write"):
            reader.read()
            judge_round_trip(world, reader)
            judge_round_trip(world, Reader.of(world).reading())


@given(story=stories(st.one_of(FAILURES, st.tuples(st.just("query"), st.just(0)))))
@settings(max_examples=examples(300))
def test_records_that_are_copied_later_are_not_skipped(story: list[tuple[str, int | list[int]]]) -> None:
    world = World()
    reader = Reader.of(world)
    for what, how in story:
        world.apply(what, how)
        if what in ("flush", "query"):
            reader.read()
            judge_to_source(world, reader)
