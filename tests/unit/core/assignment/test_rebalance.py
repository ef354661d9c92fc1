"""Letters refer to the invariants of `rebalance`; tests/property/test_placement.py has random failures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mm2.core.assignment.rebalance import rebalance
from mm2.core.assignment.task_placement import AWAY_MS, NO_MEMBER, MemberState, TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind

S0, S1, S2, S3 = TASKS = [TaskId(TaskKind.SOURCE, number) for number in range(4)]
EQUAL = dict.fromkeys(TASKS, 100)
NOW_MS = 1_000_000


def member(node: str, *holds: TaskId, capacity: int = 1, epoch: int = 1) -> MemberState:
    return MemberState(node=node, capacity=capacity, kinds=frozenset(TaskKind.ALL), holds=frozenset(holds), epoch=epoch)


def at(node: str, *tasks: TaskId, epoch: int = 1) -> dict[TaskId, TaskPlacement]:
    return {task: TaskPlacement(owner=f"m-{node}", node=node, since=epoch, home=node) for task in tasks}


def known(places: dict[TaskId, TaskPlacement], nodes: Iterable[str] = "ab", epoch: int = 1) -> TaskAssignments:
    return TaskAssignments(epoch=epoch, places=places, seen=dict.fromkeys(nodes, NOW_MS))


def owners(placement: TaskAssignments) -> dict[TaskId, str | None]:
    return {task: found.owner for task, found in placement.places.items()}


def coming(placement: TaskAssignments, member_id: str) -> tuple[TaskId, ...]:
    """Return the tasks that a member receives as soon as their owners have released them."""
    return tuple(task for task, found in placement.places.items() if found.next == member_id)


def test_first_assignment_is_immediate_and_even() -> None:
    placement = rebalance(
        EQUAL, {"m-a": member("a"), "m-b": member("b")}, before=TaskAssignments(), epoch=1, now_ms=NOW_MS
    )
    assert sorted(map(len, (placement.run("m-a"), placement.run("m-b")))) == [2, 2]
    assert placement.moving == ()


def test_capacity_is_respected() -> None:
    members = {"m-a": member("a", capacity=3), "m-b": member("b")}
    placement = rebalance(EQUAL, members, before=TaskAssignments(), epoch=1, now_ms=NOW_MS)
    assert (len(placement.run("m-a")), len(placement.run("m-b"))) == (3, 1)


def test_a_tasks_are_not_offered_to_a_member_that_cannot_run_their_kind() -> None:
    heartbeat = TaskId(TaskKind.HEARTBEAT, 0)
    tasks = EQUAL | {heartbeat: 1}
    able = member("a")
    unable = replace(member("b", capacity=8), kinds=frozenset({TaskKind.HEARTBEAT}))
    first = rebalance(tasks, {"m-a": able, "m-b": unable}, before=TaskAssignments(), epoch=1, now_ms=NOW_MS)
    assert set(TASKS) <= set(first.run("m-a"))
    alone = rebalance(tasks, {"m-b": unable}, before=TaskAssignments(), epoch=1, now_ms=NOW_MS)
    assert owners(alone) == {heartbeat: "m-b"}

    members = {"m-a": replace(able, holds=frozenset(first.run("m-a"))), "m-b": replace(unable, epoch=1)}
    again = rebalance(tasks, members, before=first, epoch=2, now_ms=NOW_MS)
    assert again.same_plan(first)  # F
    enabled = rebalance(tasks, members | {"m-b": member("b", capacity=8)}, before=again, epoch=3, now_ms=NOW_MS)
    assert set(coming(enabled, "m-b")) & set(TASKS)


def test_a_tasks_leave_a_member_that_can_no_longer_run_their_kind_also_as_their_home() -> None:
    before = known(at("a", S0, S1) | at("b", S2, S3))
    unable = replace(member("b", S2, S3), kinds=frozenset({TaskKind.HEARTBEAT}))
    members = {"m-a": member("a", S0, S1), "m-b": unable, "m-c": member("c")}
    moving = rebalance(EQUAL, members, before=before, epoch=2, now_ms=NOW_MS)
    assert set(coming(moving, "m-c")) >= {S2, S3}
    members["m-b"] = replace(unable, holds=frozenset(), epoch=2)
    moved = rebalance(EQUAL, members, before=moving, epoch=3, now_ms=NOW_MS)
    assert set(moved.run("m-c")) == {S2, S3}
    assert {place.home for place in moved.places.values()} == {"a", "c"}


def test_flows_start_on_different_nodes() -> None:
    members = {f"m-{node}": member(node) for node in "abcd"}
    first = {
        owners(rebalance({S0: 1}, members, before=TaskAssignments(), epoch=1, now_ms=NOW_MS, salt=f"A->{flow}"))[S0]
        for flow in range(20)
    }
    assert len(first) == 4


def test_a_tasks_are_revoked_before_they_are_assigned() -> None:
    before = known(at("a", *TASKS), "a")
    members = {"m-a": member("a", *TASKS), "m-b": member("b")}
    second = rebalance(EQUAL, members, before=before, epoch=2, now_ms=NOW_MS)
    assert len(second.run("m-a")) == 2
    assert (second.run("m-b"), len(coming(second, "m-b"))) == ((), 2)
    still = rebalance(EQUAL, members, before=second, epoch=3, now_ms=NOW_MS)
    assert still.same_plan(second)  # F
    kept = second.run("m-a")
    members["m-a"] = member("a", *kept, epoch=3)
    third = rebalance(EQUAL, members, before=still, epoch=4, now_ms=NOW_MS)
    assert third.run("m-a") == kept
    assert set(third.run("m-b")) == set(TASKS) - set(kept)


def test_a_unconfirmed_assignment_is_not_given_to_another_member() -> None:
    before = known(at("a", S0, epoch=5), epoch=5)
    members = {"m-a": member("a", capacity=0, epoch=4), "m-b": member("b", epoch=5)}
    unconfirmed = rebalance({S0: 1}, members, before=before, epoch=6, now_ms=NOW_MS)
    assert (unconfirmed.run("m-a"), unconfirmed.run("m-b")) == ((), ())
    members["m-a"] = member("a", capacity=0, epoch=6)
    assert rebalance({S0: 1}, members, before=unconfirmed, epoch=7, now_ms=NOW_MS).run("m-b") == (S0,)


def test_a_leader_without_history_keeps_running_tasks_in_place() -> None:
    members = {"m-a": member("a", S0, S1), "m-b": member("b", S2, S3)}
    placement = rebalance(EQUAL, members, before=TaskAssignments(epoch=99), epoch=9, now_ms=NOW_MS)
    assert owners(placement) == {S0: "m-a", S1: "m-a", S2: "m-b", S3: "m-b"}
    assert placement.moving == ()


def test_a_one_of_two_owners_keeps_the_task() -> None:
    members = {"m-a": member("a", S0, S1), "m-b": member("b", S0)}
    placement = rebalance({S0: 1, S1: 1}, members, before=known(at("b", S0) | at("a", S1)), epoch=2, now_ms=NOW_MS)
    assert owners(placement) == {S0: "m-b", S1: "m-a"}


def test_a_recreated_task_waits_for_its_previous_owner() -> None:
    members = {"m-a": member("a", S0), "m-b": member("b")}
    removed = rebalance({S1: 1}, members, before=known(at("a", S0) | at("b", S1)), epoch=2, now_ms=NOW_MS)
    assert removed.places[S0].next == NO_MEMBER
    assert S0 not in removed.run("m-a")
    back = rebalance({S0: 1, S1: 1}, members, before=removed, epoch=3, now_ms=NOW_MS)
    assert S0 in back.run("m-a")
    assert S0 not in rebalance({S1: 1}, {"m-b": member("b")}, before=removed, epoch=3, now_ms=NOW_MS).places


def test_b_leaving_member_keeps_its_tasks_while_it_is_alone() -> None:
    leaving = {"m-a": member("a", S0, S1, capacity=0)}
    placement = rebalance({S0: 1, S1: 1}, leaving, before=known(at("a", S0)), epoch=2, now_ms=NOW_MS)
    assert set(placement.run("m-a")) == {S0, S1}


def test_b_task_without_an_eligible_member_is_kept_without_an_owner() -> None:
    leaving_only = {"m-b": member("b", capacity=0)}
    placement = rebalance({S0: 1, S1: 1}, leaving_only, before=known(at("a", S0)), epoch=2, now_ms=NOW_MS)
    assert owners(placement) == {S0: None}
    assert rebalance({S0: 1}, {"m-a2": member("a")}, before=placement, epoch=3, now_ms=NOW_MS).run("m-a2") == (S0,)


def test_b_tasks_of_a_lost_node_wait_until_the_delay_ends() -> None:
    before, others = known(at("a", S0) | at("b", S1)), {"m-b": member("b", S1)}
    waiting = rebalance({S0: 1, S1: 1}, others, before=before, epoch=2, now_ms=NOW_MS, delay_ms=5_000)
    assert waiting.moving == (S0,)
    assert waiting.places[S0].until_ms == NOW_MS + 5_000
    back = {**others, "m-a2": member("a")}
    returned = rebalance({S0: 1, S1: 1}, back, before=waiting, epoch=3, now_ms=NOW_MS + 4_999, delay_ms=5_000)
    assert owners(returned) == {S0: "m-a2", S1: "m-b"}
    over = rebalance({S0: 1, S1: 1}, others, before=waiting, epoch=3, now_ms=NOW_MS + 5_000, delay_ms=5_000)
    assert owners(over) == {S0: "m-b", S1: "m-b"}
    shorter = rebalance({S0: 1, S1: 1}, others, before=waiting, epoch=3, now_ms=NOW_MS, delay_ms=10)
    assert shorter.places[S0].until_ms == NOW_MS + 10  # also after a clock that was set back


def test_c_task_returns_to_its_home_node_and_nothing_else_moves() -> None:
    before = known(at("a", S0) | at("b", S1))
    away = rebalance({S0: 1, S1: 1}, {"m-b": member("b", S1)}, before=before, epoch=2, now_ms=NOW_MS)
    assert (away.places[S0].owner, away.places[S0].home) == ("m-b", "a")
    members = {"m-b": member("b", S0, S1, epoch=2), "m-a2": member("a", epoch=2)}
    home = rebalance({S0: 1, S1: 1}, members, before=away, epoch=3, now_ms=NOW_MS)
    assert coming(home, "m-a2") == (S0,)
    assert home.run("m-b") == (S1,)


def test_c_home_node_is_forgotten_after_a_long_absence() -> None:
    before = known(at("a", S0) | at("b", S1))
    away = rebalance({S0: 1, S1: 1}, {"m-b": member("b", S1)}, before=before, epoch=2, now_ms=NOW_MS)
    members = {"m-b": member("b", S0, S1, epoch=2)}
    adopted = rebalance({S0: 1, S1: 1}, members, before=away, epoch=3, now_ms=NOW_MS + AWAY_MS)
    assert adopted.places[S0].home == "b"
    assert "a" not in adopted.seen


def test_c_joining_node_receives_the_tasks_of_an_absent_node() -> None:
    places = at("b", S0, S1) | {task: TaskPlacement(owner="m-b", node="b", since=1, home="a") for task in (S2, S3)}
    members = {"m-b": member("b", *TASKS), "m-c": member("c")}
    placement = rebalance(EQUAL, members, before=known(places), epoch=2, now_ms=NOW_MS)
    assert set(coming(placement, "m-c")) == {S2, S3}
    assert placement.places[S2].home == "c"


def test_c_joining_node_receives_a_task_even_if_its_share_is_smaller() -> None:
    members = {"m-a": member("a", S0, S1), "m-b": member("b")}
    placement = rebalance({S0: 100, S1: 100}, members, before=known(at("a", S0, S1), "a"), epoch=2, now_ms=NOW_MS)
    assert len(coming(placement, "m-b")) == 1
    crowd = {f"m-{node}": member(node, task) for node, task in zip("abc", TASKS, strict=False)} | {"m-d": member("d")}
    places = at("a", S0) | at("b", S1) | at("c", S2)
    one_each = rebalance(dict.fromkeys((S0, S1, S2), 1), crowd, before=known(places, "abc"), epoch=2, now_ms=NOW_MS)
    assert one_each.moving == ()


def test_c_at_most_a_tenth_moves_at_a_time() -> None:
    many = [TaskId(TaskKind.SOURCE, number) for number in range(40)]
    members = {"m-a": member("a", *many[:30]), "m-b": member("b", *many[30:])}
    placement = rebalance(
        dict.fromkeys(many, 100), members, before=known(at("a", *many[:30]) | at("b", *many[30:])), epoch=2, now_ms=0
    )
    assert len(coming(placement, "m-b")) == 4


def test_e_small_imbalance_or_gain_moves_nothing() -> None:
    members = {"m-a": member("a", S0, S1), "m-b": member("b", S2, S3)}
    before = known(at("a", S0, S1) | at("b", S2, S3))
    small_gap = rebalance({S0: 110, S1: 110, S2: 95, S3: 95}, members, before=before, epoch=2, now_ms=NOW_MS)
    assert small_gap.moving == ()
    small_gain = rebalance({S0: 1_000, S1: 1, S2: 300, S3: 300}, members, before=before, epoch=2, now_ms=NOW_MS)
    assert small_gain.moving == ()


def test_two_members_of_one_node_are_distinguished() -> None:
    members = {"m-1": member("a", S0), "m-2": member("a", S1)}
    placement = rebalance({S0: 1, S1: 1}, members, before=TaskAssignments(), epoch=2, now_ms=NOW_MS)
    assert owners(placement) == {S0: "m-1", S1: "m-2"}
    assert placement.moving == ()


def test_only_necessary_moves_with_many_tasks() -> None:
    many = {TaskId(TaskKind.SOURCE, number): 50 + 7 * number % 100 for number in range(1_000)}
    fresh = {f"m-{number}": member(f"n-{number}", capacity=4, epoch=0) for number in range(20)}
    first = rebalance(many, fresh, before=TaskAssignments(), epoch=1, now_ms=NOW_MS)
    members = {one: member(state.node, *first.run(one), capacity=4) for one, state in fresh.items() if one != "m-7"}
    second = rebalance(many, members, before=first, epoch=2, now_ms=NOW_MS)
    moved = {task for task in many if first.places[task].owner != second.places[task].owner}
    assert moved == set(first.run("m-7"))
    assert second.moving == ()


def test_c_joining_node_receives_only_its_share() -> None:
    many = {TaskId(TaskKind.SOURCE, number): 100 for number in range(1_000)}
    fresh = {f"m-{number}": member(f"n-{number}", epoch=0) for number in range(20)}
    first = rebalance(many, fresh, before=TaskAssignments(), epoch=1, now_ms=NOW_MS)
    members = {one: member(state.node, *first.run(one)) for one, state in fresh.items()} | {"m-new": member("n-new")}
    second = rebalance(many, members, before=first, epoch=2, now_ms=NOW_MS)
    assert second.moving == coming(second, "m-new")
    assert len(second.moving) == 1_000 // 21


def test_c_joining_node_receives_a_task_larger_than_its_share() -> None:
    members = {"m-a": member("a", S0, S1), "m-b": member("b", S2), "m-c": member("c")}
    before = known(at("a", S0, S1) | at("b", S2))
    placement = rebalance({S0: 100, S1: 100, S2: 10}, members, before=before, epoch=2, now_ms=NOW_MS)
    assert coming(placement, "m-c") == (S1,)


def test_b_task_without_an_owner_is_assigned_immediately() -> None:
    before = known({S0: TaskPlacement(owner=None, node="a", since=1, home="a")})
    placement = rebalance({S0: 1}, {"m-b": member("b")}, before=before, epoch=2, now_ms=NOW_MS, delay_ms=5_000)
    assert placement.run("m-b") == (S0,)


def test_report_from_before_a_withdrawn_revocation_is_not_a_release() -> None:
    """The owner was to hand the task over, and is then to keep it: what it reported in between is void."""
    only = {"m-b": member("b", epoch=0, capacity=0)}
    revoking = TaskAssignments(
        epoch=3, places={S0: TaskPlacement(owner="m-b", node="b", since=1, home="b", next="m-a")}, seen={}
    )
    kept = rebalance({S0: 1}, only, before=revoking, epoch=4, now_ms=NOW_MS)
    assert kept.run("m-b") == (S0,)

    released = {"m-b": member("b", epoch=3, capacity=0), "m-a2": member("a")}
    after = rebalance({S0: 1}, released, before=kept, epoch=5, now_ms=NOW_MS)
    assert after.places[S0].owner == "m-b"
