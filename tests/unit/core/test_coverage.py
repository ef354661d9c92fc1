from __future__ import annotations

from mm2.core.coverage import coverage
from mm2.core.names import TopicPartition

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def test_everything_once_is_sound() -> None:
    found = coverage([P0, P1], {"slot 0": [P0], "slot 1": [P1]})
    assert found.sound
    assert found.covered == 2
    assert found.sentences() == ()


def test_what_is_on_its_way_is_no_trouble() -> None:
    found = coverage([P0, P1], {"slot 0": [P0]}, moving=[P1])
    assert found.sound
    assert (found.covered, found.moving) == (1, (P1,))


def test_what_nobody_runs_what_two_run_and_what_should_not_run_is_named() -> None:
    found = coverage([P0, P1], {"slot 1": [P0, P2], "slot 0": [P0]}, moving=[P0])
    assert not found.sound
    assert (found.covered, found.uncovered) == (0, (P1,))
    assert found.doubled == {P0: ("slot 0", "slot 1")}
    assert found.stray == {P2: ("slot 1",)}
    assert found.sentences() == (
        "run by nobody: t-1",
        "run by more than one: t-0 (slot 0, slot 1)",
        "run though they should not be: t-2 (slot 1)",
    )


def test_many_are_counted() -> None:
    found = coverage([TopicPartition("t", number) for number in range(7)], {})
    assert found.sentences() == ("run by nobody: t-0, t-1, t-2, t-3, t-4 and 2 more",)
