"""The two steps in which a partition changes its slot, in worlds where messages are late and leaders are replaced."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.slot_world import SLOTS, SlotWorld

OFTEN = ["want", "decide", "publish", "round", "answer", "read", "stop", "report", "hear", "let go"]
STEPS = st.sampled_from([*OFTEN, *OFTEN, *OFTEN, "decide", "publish", "round", "answer", "lead", "die", "join"])
NUMBERS = st.integers(0, 1_000)


def step(world: SlotWorld, what: str, number: int) -> None:
    members = sorted(world.nodes)
    node = world.nodes[members[number % len(members)]] if members else None
    match what:
        case "want":
            world.want(number)
        case "decide":
            world.decide()
        case "publish":
            world.publish()
        case "round":
            world.round(number % (SLOTS + 1))
        case "answer":
            world.answer(number)
        case "hear":
            world.hear(1 + number % 4)
        case "let go":
            world.let_go(number % SLOTS)
        case "lead":
            world.lead(number)
        case "die":
            world.die(number)
        case "join":
            world.join()
        case "read" if node is not None:
            world.read(node, 1 + number % 4)
        case "stop" if node is not None:
            world.stop(node)
        case "report" if node is not None:
            world.report(node)


@given(steps=st.lists(st.tuples(STEPS, NUMBERS), min_size=30, max_size=90))
@settings(max_examples=60)
def test_never_in_two_slots_and_in_the_end_each_in_its_list(steps: list[tuple[str, int]]) -> None:
    world = SlotWorld()
    world.want(1)
    world.settle()
    for what, number in steps:
        step(world, what, number)
        world.check_never_two()  # A
    world.plan.want(world.wanted, {})  # a new leader has discovered them by then
    world.settle()
    world.check_each_in_one_list()  # B
