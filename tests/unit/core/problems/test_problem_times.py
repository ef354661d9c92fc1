"""Times of problems. The letters are those of `mm2.core.problems.problem_times`."""

from __future__ import annotations

from collections.abc import Iterable

from mm2.core.problems.problem_times import ProblemTimes

EPOCH = 1_700_000_000.0


def after(seconds: Iterable[tuple[float, tuple[str, ...]]], limit_s: float = 30.0) -> ProblemTimes:
    """Return the times after these observations of A->B."""
    times = ProblemTimes(limit_s=limit_s)
    for now, places in seconds:
        times = times.observed({"A->B": places}, now=now, time=EPOCH + now)
    return times


def test_a_flow_that_never_ran_is_down() -> None:
    """A."""
    assert ProblemTimes().is_down("A->B")
    assert after([(0, ("",)), (1, ("",))]).is_down("A->B")


def test_a_problem_takes_the_flow_down_after_the_limit() -> None:
    """B."""
    ran = [(float(second), ()) for second in range(3)]
    problem = [(second + 3.0, ("",)) for second in range(31)]
    assert not after([*ran, *problem[:1]]).is_down("A->B")
    assert not after([*ran, *problem[:30]]).is_down("A->B")
    assert after([*ran, *problem]).is_down("A->B")
    assert after([*ran, *problem[:3]], limit_s=2).is_down("A->B")


def test_a_problem_that_comes_and_goes_is_not_hidden() -> None:
    """B: five seconds of each ten."""
    down_at = None
    times = after([(0, ())])
    for second in range(1, 120):
        places = ("topic orders partition 0",) if second % 10 < 5 else ()
        times = times.observed({"A->B": places}, now=second, time=EPOCH + second)
        if places and times.is_down("A->B"):
            down_at = second
            break
    assert down_at is not None
    assert 60 <= down_at <= 80, "after 30 seconds of problems"


def test_problems_at_several_places_add_up() -> None:
    """B: each partition fails for ten seconds, one after the other."""
    observations = [(0.0, ())] + [(1.0 + second, (f"partition {second // 10}",)) for second in range(31)]
    assert after(observations).is_down("A->B")


def test_the_count_starts_again_after_the_limit_without_problems() -> None:
    """B."""
    first = [(0.0, ()), (1.0, ("",)), (21.0, ("",))]
    assert after([*first, (22.0, ()), (42.0, ("",)), (53.0, ("",))]).is_down("A->B"), "it returned after 21 s"
    healed = [*first, (22.0, ()), (51.0, ())]
    assert not after([*healed, (52.0, ("",)), (63.0, ("",))]).is_down("A->B")


def test_since_is_the_first_occurrence() -> None:
    times = after([(0, ()), (1, ("a",)), (2, ("a", "b")), (10, ()), (20, ("b",))])
    assert times.since("A->B", ("b",)) == EPOCH + 2
    assert times.since("A->B", ("a", "b")) == EPOCH + 1
    assert times.since("A->B", ("c",)) is None
    assert times.since("B->A", ("a",)) is None
    assert after([(1, ("a",)), (2, ()), (32, ("a",))]).since("A->B", ("a",)) == EPOCH + 32


def test_a_removed_flow_is_forgotten() -> None:
    times = after([(0, ()), (1, ("",))]).observed({}, now=2, time=EPOCH + 2)
    assert times.flows == {}
    assert times.is_down("A->B"), "it has not run since it was added again"
