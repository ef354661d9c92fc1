"""Invariants of `place` by letter, in worlds where nodes and messages do what they like."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.core.placement import AWAY_MS
from mm2.core.tasks import TaskId, TaskKind
from tests.property.placement_world import Rounds, Store, World

NODES = [f"node-{number}" for number in range(5)]
CAPACITIES = st.integers(1, 4)
WEIGHTS = st.one_of(st.just(100), st.integers(1, 1_000))
LIFE = ["join", "die", "leave", "gone", "end", "end", "end", "time", "task", "task", "weight"]
ROUNDS = st.sampled_from([*LIFE, "round", "round", "round", "round with one missing"])
STORE = st.sampled_from([*LIFE, *["lead"] * 4, *["hear"] * 5, *["tell"] * 5, "forget"])
NUMBERS = st.integers(0, 1_000)
DELAYS = st.sampled_from([0, 0, 20_000])


@st.composite
def some_tasks(draw: st.DrawFn, most: int = 12) -> Mapping[TaskId, int]:
    slots = {TaskId(TaskKind.SOURCE, number): draw(WEIGHTS) for number in range(draw(st.integers(1, most)))}
    return {**slots, TaskId(TaskKind.CHECKPOINT, 0): draw(WEIGHTS), TaskId(TaskKind.HEARTBEAT, 0): 1}


def live(world: World, step: str, number: int) -> None:
    """What happens to nodes and tasks in either world."""
    members = sorted(world.nodes)
    node = world.nodes[members[number % len(members)]] if members else None
    if step == "die" and node is not None and number % 2:
        del world.nodes[node.member]
    elif step == "leave" and node is not None:
        node.capacity = 0
    elif step == "gone" and node is not None and node.capacity == 0 and not node.holdings.holds:
        del world.nodes[node.member]
    elif step == "end" and node is not None:
        node.drain(sorted(node.holdings.drain)[:1])
    elif step == "time":
        world.now_ms += number * 100
    elif step == "task":
        task = TaskId(TaskKind.SOURCE, number % 5)
        if task in world.tasks:
            del world.tasks[task]
        else:
            world.tasks[task] = 1 + number
    elif step == "weight":
        task = sorted(world.tasks)[number % len(world.tasks)]
        world.tasks[task] = 1 + number


def check_at_rest(world: Rounds | Store) -> None:
    world.settle()
    world.now_ms += world.delay_ms
    world.settle()
    world.check_each_once()
    world.now_ms += AWAY_MS
    world.settle()
    world.check_each_once()
    world.check_balance()
    before = {task: place.node for task, place in world.placement.places.items()}
    world.settle()
    assert {task: place.node for task, place in world.placement.places.items()} == before  # F


@given(
    tasks=some_tasks(),
    steps=st.lists(st.tuples(ROUNDS, NUMBERS), min_size=20, max_size=60),
    capacities=st.lists(CAPACITIES, min_size=5, max_size=5),
    delay_ms=DELAYS,
)
def test_in_rounds_never_two_and_in_the_end_each_once(
    tasks: Mapping[TaskId, int], steps: list[tuple[str, int]], capacities: list[int], delay_ms: int
) -> None:
    world = Rounds(tasks, delay_ms)
    for node in (0, 1):
        world.join(NODES[node], capacities[node])
    for step, number in steps:
        if step == "join":
            world.join(NODES[number % 5], capacities[number % 5])
        elif step == "round":
            world.round(leader=number)
        elif step == "round with one missing":
            world.round(leader=number, missing={number % 5})
        else:
            live(world, step, number)
        world.check_never_two()  # A
    check_at_rest(world)  # B, E, F


@given(
    tasks=some_tasks(most=3),
    steps=st.lists(st.tuples(STORE, NUMBERS), min_size=40, max_size=100),
    capacities=st.lists(CAPACITIES, min_size=5, max_size=5),
    delay_ms=DELAYS,
)
@settings(max_examples=150)
def test_with_words_late_lost_and_out_of_order_never_two_and_in_the_end_each_once(
    tasks: Mapping[TaskId, int], steps: list[tuple[str, int]], capacities: list[int], delay_ms: int
) -> None:
    world = Store(tasks, delay_ms)
    for node in (0, 1, 2):
        world.enter(NODES[node], capacities[node])
    for step, number in steps:
        if step == "join":
            world.enter(NODES[number % 5], capacities[number % 5])
        elif step == "lead":
            world.expire()
            world.lead()
        elif step == "hear" and world.reports:
            world.hear(world.reports.pop(number % len(world.reports)))
        elif step == "tell" and world.answers:
            world.tell(world.answers.pop(number % len(world.answers)))
        elif step == "forget" and world.answers:
            world.answers.pop(number % len(world.answers))
        else:
            live(world, step, number)
            for one in world.nodes.values():
                world.report(one)
        world.check_never_two()  # A
    world.reports.reverse()
    world.answers.reverse()
    check_at_rest(world)  # B, E, F


@given(
    data=st.data(),
    tasks=some_tasks(most=25),
    capacities=st.lists(CAPACITIES, min_size=2, max_size=6),
    delay_ms=DELAYS,
)
def test_d_a_rolling_restart_moves_each_task_twice_at_most(
    data: st.DataObject, tasks: Mapping[TaskId, int], capacities: list[int], delay_ms: int
) -> None:
    world = Rounds(tasks, delay_ms)
    for number, capacity in enumerate(capacities):
        world.join(f"node-{number}", capacity)
    world.settle()
    before = dict(world.given)
    world.moves.clear()
    for number in data.draw(st.permutations(range(len(capacities)))):
        node = next(node for node in world.nodes.values() if node.id == f"node-{number}")
        if data.draw(st.booleans()):  # with a word before, or all at once
            node.capacity = 0
            world.settle()
        del world.nodes[node.member]
        if data.draw(st.booleans()):  # the others meet while it is away
            world.settle()
        world.join(f"node-{number}", capacities[number])
        world.settle()
    assert max(world.moves.values(), default=0) <= 2
    assert world.given == before


@given(tasks=some_tasks(), capacities=st.lists(CAPACITIES, min_size=1, max_size=4), joins=CAPACITIES)
def test_c_a_node_that_joins_gets_work_and_nothing_moves_between_the_others(
    tasks: Mapping[TaskId, int], capacities: list[int], joins: int
) -> None:
    world = Rounds(tasks)
    for number, capacity in enumerate(capacities):
        world.join(f"node-{number}", capacity)
    world.settle()
    before = dict(world.given)
    world.join("node-new", joins)
    world.round()
    moving = {task: place for task, place in world.placement.places.items() if place.next is not None}
    to_others = [task for task, place in moving.items() if place.next is not None and "node-new" not in place.next]
    assert len(to_others) <= max(1, len(tasks) // 10)
    world.settle()
    world.check_each_once()
    got = [task for task, node in world.given.items() if node == "node-new"]
    most = max(list(before.values()).count(node) for node in before.values())
    assert got or most == 1
    world.check_balance()


@given(tasks=some_tasks(), capacities=st.lists(CAPACITIES, min_size=2, max_size=5), delay_ms=st.integers(1, 60_000))
def test_b_what_vanished_with_its_node_waits_for_it_and_no_longer(
    tasks: Mapping[TaskId, int], capacities: list[int], delay_ms: int
) -> None:
    world = Rounds(tasks, delay_ms)
    for number, capacity in enumerate(capacities):
        world.join(f"node-{number}", capacity)
    world.settle()
    before = dict(world.given)
    node = next(iter(world.nodes.values()))
    lost = set(node.running)
    del world.nodes[node.member]
    world.round()
    for task in world.tasks:
        assert bool(world.runners(task)) == (task not in lost)
    waits = {place.until_ms for place in world.placement.places.values()} - {None}
    assert waits == ({world.now_ms + delay_ms} if lost else set())
    world.now_ms += delay_ms - 1
    world.join(node.id, node.capacity)
    world.settle()
    assert world.given == before
