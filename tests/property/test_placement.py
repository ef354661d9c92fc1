"""Invariants of `rebalance` by letter, with arbitrary failures of nodes and messages."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.core.assignment.task_placement import AWAY_MS
from mm2.core.assignment.tasks import TaskId, TaskKind
from tests.property.placement_world import Rounds, Store, World

NODES = [f"node-{number}" for number in range(5)]
CAPACITIES = st.integers(1, 4)
WEIGHTS = st.one_of(st.just(100), st.integers(1, 1_000))
LIFE = ["join", "crash", "leave", "left", "end", "end", "end", "time", "task", "task", "weight"]
ROUNDS = st.sampled_from([*LIFE, "round", "round", "round", "round with one missing", "lose"])
STORE = st.sampled_from([*LIFE, *["lead"] * 4, *["receive"] * 5, *["deliver"] * 5, "forget"])
NUMBERS = st.integers(0, 1_000)
DELAYS = st.sampled_from([0, 0, 20_000])


@st.composite
def some_tasks(draw: st.DrawFn, most: int = 12) -> Mapping[TaskId, int]:
    source_tasks = {TaskId(TaskKind.SOURCE, number): draw(WEIGHTS) for number in range(draw(st.integers(1, most)))}
    return {**source_tasks, TaskId(TaskKind.CHECKPOINT, 0): draw(WEIGHTS), TaskId(TaskKind.HEARTBEAT, 0): 1}


def live(world: World, step: str, number: int) -> None:
    """Apply a step to nodes and tasks, common to both kinds of election."""
    members = sorted(world.nodes)
    node = world.nodes[members[number % len(members)]] if members else None
    if step == "crash" and node is not None and number % 2:
        del world.nodes[node.member]
    elif step == "leave" and node is not None:
        node.capacity = 0
    elif step == "left" and node is not None and node.capacity == 0 and not node.holdings.holds:
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
def test_group_rounds_run_each_task_at_most_once_and_finally_once(
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
        elif step == "lose" and world.nodes:
            world.nodes[sorted(world.nodes)[number % len(world.nodes)]].lose()
        else:
            live(world, step, number)
        world.check_at_most_once()  # A
    check_at_rest(world)  # B, E, F


@given(
    tasks=some_tasks(most=3),
    steps=st.lists(st.tuples(STORE, NUMBERS), min_size=40, max_size=100),
    capacities=st.lists(CAPACITIES, min_size=5, max_size=5),
    delay_ms=DELAYS,
)
@settings(max_examples=150)
def test_delayed_lost_and_reordered_messages_run_each_task_at_most_once_and_finally_once(
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
        elif step == "receive" and world.reports:
            world.receive(world.reports.pop(number % len(world.reports)))
        elif step == "deliver" and world.assignments:
            world.deliver(world.assignments.pop(number % len(world.assignments)))
        elif step == "forget" and world.assignments:
            world.assignments.pop(number % len(world.assignments))
        else:
            live(world, step, number)
            for one in world.nodes.values():
                world.report(one)
        world.check_at_most_once()  # A
    world.reports.reverse()
    world.assignments.reverse()
    check_at_rest(world)  # B, E, F


@given(
    data=st.data(),
    tasks=some_tasks(most=25),
    capacities=st.lists(CAPACITIES, min_size=2, max_size=6),
    delay_ms=DELAYS,
)
def test_d_rolling_restart_moves_each_task_at_most_twice(
    data: st.DataObject, tasks: Mapping[TaskId, int], capacities: list[int], delay_ms: int
) -> None:
    world = Rounds(tasks, delay_ms)
    for number, capacity in enumerate(capacities):
        world.join(f"node-{number}", capacity)
    world.settle()
    before = dict(world.last_node)
    world.moves.clear()
    for number in data.draw(st.permutations(range(len(capacities)))):
        node = next(node for node in world.nodes.values() if node.id == f"node-{number}")
        if data.draw(st.booleans()):  # announced or not
            node.capacity = 0
            world.settle()
        del world.nodes[node.member]
        if data.draw(st.booleans()):  # the others run a round while it is away
            world.settle()
        world.join(f"node-{number}", capacities[number])
        world.settle()
    assert max(world.moves.values(), default=0) <= 2
    assert world.last_node == before


@given(tasks=some_tasks(), capacities=st.lists(CAPACITIES, min_size=1, max_size=4), joins=CAPACITIES)
def test_c_joining_node_gets_tasks_and_nothing_moves_between_the_others(
    tasks: Mapping[TaskId, int], capacities: list[int], joins: int
) -> None:
    world = Rounds(tasks)
    for number, capacity in enumerate(capacities):
        world.join(f"node-{number}", capacity)
    world.settle()
    before = dict(world.last_node)
    world.join("node-new", joins)
    world.round()
    moving = {task: place for task, place in world.placement.places.items() if place.next is not None}
    to_others = [task for task, place in moving.items() if place.next is not None and "node-new" not in place.next]
    assert len(to_others) <= max(1, len(tasks) // 10)
    world.settle()
    world.check_each_once()
    got = [task for task, node in world.last_node.items() if node == "node-new"]
    most = max(list(before.values()).count(node) for node in before.values())
    assert got or most == 1
    world.check_balance()


@given(tasks=some_tasks(), capacities=st.lists(CAPACITIES, min_size=2, max_size=5), delay_ms=st.integers(1, 60_000))
def test_b_tasks_of_a_lost_node_wait_until_the_delay_ends(
    tasks: Mapping[TaskId, int], capacities: list[int], delay_ms: int
) -> None:
    world = Rounds(tasks, delay_ms)
    for number, capacity in enumerate(capacities):
        world.join(f"node-{number}", capacity)
    world.settle()
    before = dict(world.last_node)
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
    assert world.last_node == before
