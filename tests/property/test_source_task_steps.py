"""A source task is written by one lane at a time, and never stands still.

Letters refer to the invariants of `mm2.core.lanes.source_task_steps`.
"""

from __future__ import annotations

import asyncio
import itertools

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mm2.core.lanes.source_task_steps import TRANSITIONS, LaneView, SourceTaskState, SourceTaskView, StepKind, next_step
from tests.lab.examples import examples
from tests.property.lease_world import LANES, World

OFTEN = ["tick", "acquired", "start", "apply", "report", "time", "progress"]
RARE = ["assign", "assign", "revoke", "revoke", "list", "list", "fail", "die", "restart", "lose", "stored"]
EVENTS = st.sampled_from(
    [*OFTEN, *OFTEN, *RARE, "leader", "leader", "late", "stick", "stick", "unlist", *(["progress"] * 4)]
)
NUMBERS = st.integers(0, 1_000)


def happen(world: World, what: str, number: int) -> None:
    holds = [one for one in world.nodes if one.task is not None]
    node = world.nodes[number % 2] if number % 3 == 0 or not holds else holds[number % len(holds)]
    lane = number // 6 % LANES
    match what:
        case "tick":
            node.tick()
        case "acquired":
            node.acquired()
        case "start":
            node.start(lane, answers=number % 5 > 0)
        case "apply":
            node.apply(lane)
        case "report":
            node.report(lane)
        case "fail":
            node.fail(lane)
        case "die":
            node.die(lane)
        case "stick":
            node.stick()
        case "progress":
            node.progress()
        case "time":
            world.now += 1.0
        case "late":
            world.now += 6.0
        case "assign":
            world.assign(number % 2)
        case "revoke":
            world.revoke()
        case "lose":
            world.lose_membership(number % 2)
        case "list":
            world.listed = (world.listed or 0) + 1
        case "unlist":
            world.listed = None
        case "leader":
            world.leader_fences = number % 3 == 0
        case "stored":
            world.store_releases()
        case "restart" if node.task is not None:
            node.task.restarts.request("by an operator")


NOT_STOPPED_YET = [(what, 0) for what in ("progress",) * 4 + ("stick", "revoke", "late", "tick", "tick")]
"""It was released while its lane, which was told to stop it, was still writing."""


@given(events=st.lists(st.tuples(EVENTS, NUMBERS), min_size=100, max_size=200))
@example(events=NOT_STOPPED_YET)
@settings(max_examples=examples(300))
def test_one_lane_writes_at_a_time_and_every_state_is_left(events: list[tuple[str, int]]) -> None:
    loop = asyncio.new_event_loop()
    try:
        world = World(loop)
        world.listed = 1
        world.assign(0)
        for what, number in events:
            happen(world, what, number)
            world.check()  # A, B, C
        world.listed = (world.listed or 0) + 1
        if world.owner is None:
            world.settle()
            world.assign(1)
        world.settle()
        assert world.owner is not None
        owner = world.nodes[world.owner]
        assert owner.task is not None
        assert (owner.task.state, owner.task.why(), len(owner.writers)) == (SourceTaskState.RUNNING, None, 1)  # E
        assert [one.task for one in world.nodes if one is not owner] == [None]
        world.revoke()
        world.settle()
        assert [one.task for one in world.nodes] == [None, None]  # E
    finally:
        loop.close()


BOTH = (False, True)


def test_every_combination_of_facts_has_a_step_that_the_table_permits() -> None:
    """Those that cannot occur are included. A source task that waits says for what."""
    views = [
        SourceTaskView(
            state=state,
            since=0.0,
            is_listed=is_listed,
            is_leased=state not in (SourceTaskState.ASSIGNED, SourceTaskState.FENCING) or is_leased,
            is_due=is_due,
            restarts=restarts,
            awaits_leader=awaits_leader,
            has_producer=has_producer,
            is_used=is_used,
            stores_release=True,
            release_stored=stored,
        )
        for state in set(SourceTaskState) - {SourceTaskState.RELEASED}
        for is_leased in (BOTH if state is SourceTaskState.FENCING else (False,))
        for is_listed, is_due, restarts, awaits_leader, has_producer, is_used in itertools.product(BOTH, repeat=6)
        for stored in (None, False, True)
    ]
    lanes = [
        LaneView(
            has_orders=has_orders,
            is_started=is_started,
            is_reported=is_reported,
            is_current=is_current,
            has_drained=has_drained,
            is_idle=is_idle,
            may_run=may_run,
        )
        for has_orders, is_started, is_reported, is_current, has_drained, is_idle, may_run in itertools.product(
            BOTH, repeat=7
        )
        if (has_orders or not is_started) and (is_started or not is_reported)
    ]
    for task in views:
        for lane in lanes:
            for now in (0.0, 10.0):
                step = next_step(task, lane, now, drain_within_s=5.0)
                assert step.state in (task.state, *TRANSITIONS[task.state])
                assert (step.reason is None) == (step.state in (SourceTaskState.RUNNING, SourceTaskState.RELEASED))
                if step.kind is StepKind.GRANT and not task.is_leased:
                    assert task.has_producer  # A
                    assert not task.awaits_leader  # A
                    assert not lane.may_run  # B
