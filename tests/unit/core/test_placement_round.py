"""Letters are the invariants of `place`; worlds that do what they like are in tests/property/test_placement.py."""

from __future__ import annotations

from collections.abc import Iterable

from mm2.core.placement import AWAY_MS, NOBODY, Member, Place, Placement
from mm2.core.placement_round import place
from mm2.core.tasks import TaskId, TaskKind

S0, S1, S2, S3 = TASKS = [TaskId(TaskKind.SOURCE, number) for number in range(4)]
EQUAL = dict.fromkeys(TASKS, 100)
NOW_MS = 1_000_000


def member(node: str, *holds: TaskId, capacity: int = 1, epoch: int = 1) -> Member:
    return Member(node=node, capacity=capacity, holds=frozenset(holds), epoch=epoch)


def at(node: str, *tasks: TaskId, epoch: int = 1) -> dict[TaskId, Place]:
    return {task: Place(owner=f"m-{node}", node=node, since=epoch, home=node) for task in tasks}


def known(places: dict[TaskId, Place], nodes: Iterable[str] = "ab", epoch: int = 1) -> Placement:
    return Placement(epoch=epoch, places=places, seen=dict.fromkeys(nodes, NOW_MS))


def owners(placement: Placement) -> dict[TaskId, str | None]:
    return {task: found.owner for task, found in placement.places.items()}


def coming(placement: Placement, member_id: str) -> tuple[TaskId, ...]:
    """What a member is given as soon as the owner has let go."""
    return tuple(task for task, found in placement.places.items() if found.next == member_id)


def test_from_nothing_everything_is_given_at_once_and_evenly() -> None:
    placement = place(EQUAL, {"m-a": member("a"), "m-b": member("b")}, before=Placement(), epoch=1, now_ms=NOW_MS)
    assert sorted(map(len, (placement.run("m-a"), placement.run("m-b")))) == [2, 2]
    assert placement.moving == ()


def test_capacity_counts() -> None:
    members = {"m-a": member("a", capacity=3), "m-b": member("b")}
    placement = place(EQUAL, members, before=Placement(), epoch=1, now_ms=NOW_MS)
    assert (len(placement.run("m-a")), len(placement.run("m-b"))) == (3, 1)


def test_flows_begin_on_different_nodes() -> None:
    members = {f"m-{node}": member(node) for node in "abcd"}
    first = {
        owners(place({S0: 1}, members, before=Placement(), epoch=1, now_ms=NOW_MS, salt=f"A->{flow}"))[S0]
        for flow in range(20)
    }
    assert len(first) == 4


def test_a_taken_first_given_when_the_owner_has_let_go() -> None:
    before = known(at("a", *TASKS), "a")
    members = {"m-a": member("a", *TASKS), "m-b": member("b")}
    second = place(EQUAL, members, before=before, epoch=2, now_ms=NOW_MS)
    assert len(second.run("m-a")) == 2
    assert (second.run("m-b"), len(coming(second, "m-b"))) == ((), 2)
    still = place(EQUAL, members, before=second, epoch=3, now_ms=NOW_MS)
    assert still.same_plan(second)  # F
    kept = second.run("m-a")
    members["m-a"] = member("a", *kept, epoch=3)
    third = place(EQUAL, members, before=still, epoch=4, now_ms=NOW_MS)
    assert third.run("m-a") == kept
    assert set(third.run("m-b")) == set(TASKS) - set(kept)


def test_a_what_was_given_but_may_not_have_been_heard_is_not_given_to_another() -> None:
    before = known(at("a", S0, epoch=5), epoch=5)
    members = {"m-a": member("a", capacity=0, epoch=4), "m-b": member("b", epoch=5)}
    unheard = place({S0: 1}, members, before=before, epoch=6, now_ms=NOW_MS)
    assert (unheard.run("m-a"), unheard.run("m-b")) == ((), ())
    members["m-a"] = member("a", capacity=0, epoch=6)
    assert place({S0: 1}, members, before=unheard, epoch=7, now_ms=NOW_MS).run("m-b") == (S0,)


def test_a_a_leader_without_memory_lets_everybody_keep_what_it_runs() -> None:
    members = {"m-a": member("a", S0, S1), "m-b": member("b", S2, S3)}
    placement = place(EQUAL, members, before=Placement(epoch=99), epoch=9, now_ms=NOW_MS)
    assert owners(placement) == {S0: "m-a", S1: "m-a", S2: "m-b", S3: "m-b"}
    assert placement.moving == ()


def test_a_of_two_that_run_the_same_one_goes_on() -> None:
    members = {"m-a": member("a", S0, S1), "m-b": member("b", S0)}
    placement = place({S0: 1, S1: 1}, members, before=known(at("b", S0) | at("a", S1)), epoch=2, now_ms=NOW_MS)
    assert owners(placement) == {S0: "m-b", S1: "m-a"}


def test_a_a_task_that_is_gone_and_back_is_not_given_before_its_owner_has_let_go() -> None:
    members = {"m-a": member("a", S0), "m-b": member("b")}
    gone = place({S1: 1}, members, before=known(at("a", S0) | at("b", S1)), epoch=2, now_ms=NOW_MS)
    assert gone.places[S0].next == NOBODY
    assert S0 not in gone.run("m-a")
    back = place({S0: 1, S1: 1}, members, before=gone, epoch=3, now_ms=NOW_MS)
    assert S0 in back.run("m-a")
    assert S0 not in place({S1: 1}, {"m-b": member("b")}, before=gone, epoch=3, now_ms=NOW_MS).places


def test_b_who_leaves_keeps_its_tasks_while_nobody_else_is_there() -> None:
    leaving = {"m-a": member("a", S0, S1, capacity=0)}
    placement = place({S0: 1, S1: 1}, leaving, before=known(at("a", S0)), epoch=2, now_ms=NOW_MS)
    assert set(placement.run("m-a")) == {S0, S1}


def test_b_a_task_nobody_can_take_is_remembered_without_an_owner() -> None:
    nobody = {"m-b": member("b", capacity=0)}
    placement = place({S0: 1, S1: 1}, nobody, before=known(at("a", S0)), epoch=2, now_ms=NOW_MS)
    assert owners(placement) == {S0: None}
    assert place({S0: 1}, {"m-a2": member("a")}, before=placement, epoch=3, now_ms=NOW_MS).run("m-a2") == (S0,)


def test_b_tasks_wait_for_a_node_that_vanished_with_them_and_no_longer_than_asked() -> None:
    before, others = known(at("a", S0) | at("b", S1)), {"m-b": member("b", S1)}
    waiting = place({S0: 1, S1: 1}, others, before=before, epoch=2, now_ms=NOW_MS, delay_ms=5_000)
    assert waiting.moving == (S0,)
    assert waiting.places[S0].until_ms == NOW_MS + 5_000
    back = {**others, "m-a2": member("a")}
    returned = place({S0: 1, S1: 1}, back, before=waiting, epoch=3, now_ms=NOW_MS + 4_999, delay_ms=5_000)
    assert owners(returned) == {S0: "m-a2", S1: "m-b"}
    over = place({S0: 1, S1: 1}, others, before=waiting, epoch=3, now_ms=NOW_MS + 5_000, delay_ms=5_000)
    assert owners(over) == {S0: "m-b", S1: "m-b"}
    shorter = place({S0: 1, S1: 1}, others, before=waiting, epoch=3, now_ms=NOW_MS, delay_ms=10)
    assert shorter.places[S0].until_ms == NOW_MS + 10  # also what a clock that was set back leads to


def test_c_a_guest_goes_home_and_nothing_else_moves() -> None:
    before = known(at("a", S0) | at("b", S1))
    away = place({S0: 1, S1: 1}, {"m-b": member("b", S1)}, before=before, epoch=2, now_ms=NOW_MS)
    assert (away.places[S0].owner, away.places[S0].home) == ("m-b", "a")
    members = {"m-b": member("b", S0, S1, epoch=2), "m-a2": member("a", epoch=2)}
    home = place({S0: 1, S1: 1}, members, before=away, epoch=3, now_ms=NOW_MS)
    assert coming(home, "m-a2") == (S0,)
    assert home.run("m-b") == (S1,)


def test_c_a_home_away_for_long_is_given_up() -> None:
    before = known(at("a", S0) | at("b", S1))
    away = place({S0: 1, S1: 1}, {"m-b": member("b", S1)}, before=before, epoch=2, now_ms=NOW_MS)
    members = {"m-b": member("b", S0, S1, epoch=2)}
    adopted = place({S0: 1, S1: 1}, members, before=away, epoch=3, now_ms=NOW_MS + AWAY_MS)
    assert adopted.places[S0].home == "b"
    assert "a" not in adopted.seen


def test_c_a_new_node_is_given_the_guests_of_one_that_is_away() -> None:
    places = at("b", S0, S1) | {task: Place(owner="m-b", node="b", since=1, home="a") for task in (S2, S3)}
    members = {"m-b": member("b", *TASKS), "m-c": member("c")}
    placement = place(EQUAL, members, before=known(places), epoch=2, now_ms=NOW_MS)
    assert set(coming(placement, "m-c")) == {S2, S3}
    assert placement.places[S2].home == "c"


def test_c_a_node_that_joins_is_given_something_even_where_shares_are_smaller_than_tasks() -> None:
    members = {"m-a": member("a", S0, S1), "m-b": member("b")}
    placement = place({S0: 100, S1: 100}, members, before=known(at("a", S0, S1), "a"), epoch=2, now_ms=NOW_MS)
    assert len(coming(placement, "m-b")) == 1
    crowd = {f"m-{node}": member(node, task) for node, task in zip("abc", TASKS, strict=False)} | {"m-d": member("d")}
    places = at("a", S0) | at("b", S1) | at("c", S2)
    one_each = place(dict.fromkeys((S0, S1, S2), 1), crowd, before=known(places, "abc"), epoch=2, now_ms=NOW_MS)
    assert one_each.moving == ()


def test_c_only_a_tenth_moves_at_a_time_to_even_out_load() -> None:
    many = [TaskId(TaskKind.SOURCE, number) for number in range(40)]
    members = {"m-a": member("a", *many[:30]), "m-b": member("b", *many[30:])}
    placement = place(
        dict.fromkeys(many, 100), members, before=known(at("a", *many[:30]) | at("b", *many[30:])), epoch=2, now_ms=0
    )
    assert len(coming(placement, "m-b")) == 4


def test_e_a_small_gap_is_not_worth_a_move_nor_is_a_small_gain() -> None:
    members = {"m-a": member("a", S0, S1), "m-b": member("b", S2, S3)}
    before = known(at("a", S0, S1) | at("b", S2, S3))
    small_gap = place({S0: 110, S1: 110, S2: 95, S3: 95}, members, before=before, epoch=2, now_ms=NOW_MS)
    assert small_gap.moving == ()
    small_gain = place({S0: 1_000, S1: 1, S2: 300, S3: 300}, members, before=before, epoch=2, now_ms=NOW_MS)
    assert small_gain.moving == ()


def test_two_members_of_one_node_are_told_apart() -> None:
    members = {"m-1": member("a", S0), "m-2": member("a", S1)}
    placement = place({S0: 1, S1: 1}, members, before=Placement(), epoch=2, now_ms=NOW_MS)
    assert owners(placement) == {S0: "m-1", S1: "m-2"}
    assert placement.moving == ()


def test_the_work_of_a_round_does_not_move_what_needs_not_move() -> None:
    many = {TaskId(TaskKind.SOURCE, number): 50 + 7 * number % 100 for number in range(1_000)}
    fresh = {f"m-{number}": member(f"n-{number}", capacity=4, epoch=0) for number in range(20)}
    first = place(many, fresh, before=Placement(), epoch=1, now_ms=NOW_MS)
    members = {one: member(said.node, *first.run(one), capacity=4) for one, said in fresh.items() if one != "m-7"}
    second = place(many, members, before=first, epoch=2, now_ms=NOW_MS)
    moved = {task for task in many if first.places[task].owner != second.places[task].owner}
    assert moved == set(first.run("m-7"))
    assert second.moving == ()


def test_c_a_node_that_joins_takes_no_more_tasks_than_its_share_needs() -> None:
    many = {TaskId(TaskKind.SOURCE, number): 100 for number in range(1_000)}
    fresh = {f"m-{number}": member(f"n-{number}", epoch=0) for number in range(20)}
    first = place(many, fresh, before=Placement(), epoch=1, now_ms=NOW_MS)
    members = {one: member(said.node, *first.run(one)) for one, said in fresh.items()} | {"m-new": member("n-new")}
    second = place(many, members, before=first, epoch=2, now_ms=NOW_MS)
    assert second.moving == coming(second, "m-new")
    assert len(second.moving) == 1_000 // 21


def test_c_a_share_smaller_than_any_task_is_no_reason_to_get_nothing() -> None:
    members = {"m-a": member("a", S0, S1), "m-b": member("b", S2), "m-c": member("c")}
    before = known(at("a", S0, S1) | at("b", S2))
    placement = place({S0: 100, S1: 100, S2: 10}, members, before=before, epoch=2, now_ms=NOW_MS)
    assert coming(placement, "m-c") == (S1,)


def test_b_a_task_that_had_no_owner_waits_for_nobody() -> None:
    before = known({S0: Place(owner=None, node="a", since=1, home="a")})
    placement = place({S0: 1}, {"m-b": member("b")}, before=before, epoch=2, now_ms=NOW_MS, delay_ms=5_000)
    assert placement.run("m-b") == (S0,)
