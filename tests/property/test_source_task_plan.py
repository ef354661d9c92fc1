"""A partition changes its source task in two steps, while messages are delayed and leaders are replaced."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.source_task_world import SOURCE_TASKS, SourceTaskWorld

OFTEN = ["want", "decide", "publish", "round", "deliver", "read", "stop", "report", "receive", "release"]
STEPS = st.sampled_from([*OFTEN, *OFTEN, *OFTEN, "decide", "publish", "round", "deliver", "lead", "crash", "join"])
NUMBERS = st.integers(0, 1_000)


def step(world: SourceTaskWorld, what: str, number: int) -> None:
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
            world.round(number % (len(SOURCE_TASKS) + 1))
        case "deliver":
            world.deliver_assignment(number)
        case "receive":
            world.receive_reports(1 + number % 4)
        case "release":
            world.release(SOURCE_TASKS[number % len(SOURCE_TASKS)])
        case "lead":
            world.lead(number)
        case "crash":
            world.crash(number)
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
def test_partitions_run_in_at_most_one_source_task_and_finally_in_their_own(steps: list[tuple[str, int]]) -> None:
    world = SourceTaskWorld()
    world.want(1)
    world.settle()
    for what, number in steps:
        step(world, what, number)
        world.check_at_most_once()  # A
    world.plan.want(world.wanted, {})  # a new leader has discovered the partitions
    world.settle()
    world.check_each_in_one_list()  # B
