"""The exact offset map while a partition is copied again: no record is missed, and no group moves back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.core.offsets.exact_offsets import Found
from tests.lab.examples import examples
from tests.property.test_exact_offsets import COPY, CRASH, GROW, WRITE, Limits, Reader, World, judge, with_limits

AGAIN = st.tuples(st.just("again"), st.integers(1, 60))
LIVES = st.lists(
    st.tuples(st.lists(st.one_of(COPY, COPY, WRITE, GROW), max_size=6), st.one_of(AGAIN, AGAIN, CRASH)),
    min_size=1,
    max_size=8,
).map(lambda lives: [event for life, end in lives for event in (*life, end)])


class RepeatingWorld(World):
    """A world in which an operator has the partition copied again: its lane drains, then the start is stored."""

    def again(self, back: int) -> None:
        """Start ``back`` source offsets before the stored position."""
        self.flush(0)
        self.stored = max(0, self.stored - back)
        self.start()

    def complete(self) -> None:
        """Copy everything."""
        while self.position < self.source_end:
            self.copy(6)
        self.flush(0)


@with_limits
@settings(max_examples=examples(150))
@given(events=LIVES, waiting=st.integers(1, 3))
def test_no_record_is_ever_missed(limits: Limits, events: list[tuple[str, int | list[bool]]], waiting: int) -> None:
    """By a reader that follows, and by one that starts."""
    world = RepeatingWorld(waiting, limits)
    running = Reader(world)
    for what, how in events:
        world.apply_event(what, how)
        judge(world, running.read(world))
        judge(world, Reader(world).read(world))


@with_limits
@settings(max_examples=examples(150))
@given(events=LIVES, group=st.integers(0, 40))
def test_the_position_of_a_group_never_decreases(
    limits: Limits, events: list[tuple[str, int | list[bool]]], group: int
) -> None:
    """A group that reads nothing keeps its position on the target, or moves to the second copy of its next record."""
    world = RepeatingWorld(32, limits)
    running, last = Reader(world), -1
    for what, how in (*events, ("complete", 0)):
        if what == "complete":
            world.complete()
        else:
            world.apply_event(what, how)
        found = running.read(world).look_up(group)
        now = found.offset if isinstance(found, Found) else found.least
        assert now is not None
        assert now >= last
        last = now


@with_limits
@settings(max_examples=examples(150))
@given(events=st.lists(st.one_of(COPY, COPY, WRITE, GROW, AGAIN), max_size=30), back=st.integers(1, 60))
def test_positions_translate_to_the_second_copy_afterwards(
    limits: Limits, events: list[tuple[str, int | list[bool]]], back: int
) -> None:
    """Without a crash: what a lost lane has possibly written counts only after as many further records."""
    world = RepeatingWorld(32, limits)
    for what, how in events:
        world.apply_event(what, how)
    world.complete()
    world.again(back)
    first = world.stored
    world.complete()
    running = Reader(world).read(world)
    copies = {offset: place for place, offset in enumerate(world.target) if offset is not None}
    for offset in sorted(world.records):
        if offset >= first:
            assert running.look_up(offset) == Found(copies[offset])
