from __future__ import annotations

from mm2.core.coverage import Coverage, coverage
from mm2.core.names import TopicPartition

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def test_everything_once() -> None:
    found = coverage([P0, P1], {"slot 0": [P0], "slot 1": [P1]})
    assert found == Coverage(covered=2, doubled={}, stray={})


def test_what_is_on_its_way_is_no_trouble() -> None:
    found = coverage([P0, P1], {"slot 0": [P0]}, moving=[P1])
    assert found == Coverage(covered=1, moving=(P1,), doubled={}, stray={})


def test_what_nobody_runs_what_two_run_and_what_should_not_run_is_named() -> None:
    found = coverage([P0, P1], {"slot 1": [P0, P2], "slot 0": [P0]}, moving=[P0])
    assert (found.covered, found.uncovered) == (0, (P1,))
    assert found.doubled == {P0: ("slot 0", "slot 1")}
    assert found.stray == {P2: ("slot 1",)}
