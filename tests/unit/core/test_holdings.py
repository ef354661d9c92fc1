"""Letters are the invariants of `Holdings`."""

from __future__ import annotations

from mm2.core.holdings import NEVER, Holdings
from mm2.core.tasks import TaskId, TaskKind

S0, S1 = (TaskId(TaskKind.SOURCE, number) for number in range(2))


def test_a_what_was_taken_is_held_until_it_has_ended() -> None:
    holdings = Holdings()
    assert holdings.epoch == NEVER
    assert holdings.take(1, [S0, S1])
    assert holdings.take(2, [S1])
    assert holdings.run == {S1}
    assert holdings.drain == {S0}
    assert holdings.holds == {S0, S1}
    assert holdings.let_go(S0)
    assert not holdings.drain
    assert holdings.holds == {S1}
    assert not holdings.let_go(S0)


def test_a_what_was_given_back_while_it_drained_starts_again_and_is_held_all_the_time() -> None:
    holdings = Holdings()
    holdings.take(1, [S0])
    holdings.take(2, [])
    holdings.take(3, [S0])
    assert not holdings.let_go(S0)
    assert holdings.run == holdings.holds == {S0}


def test_b_an_old_answer_changes_nothing() -> None:
    holdings = Holdings()
    holdings.take(2, [S0])
    assert not holdings.take(2, [])
    assert not holdings.take(1, [S1])
    assert holdings.run == {S0}


def test_who_is_no_member_any_more_ends_everything_and_hears_any_answer() -> None:
    holdings = Holdings()
    holdings.take(57, [S0])
    holdings.lost()
    assert not holdings.run
    assert holdings.drain == {S0}
    assert holdings.take(1, [S1])
    assert holdings.holds == {S0, S1}
