"""When a node offers its lanes. Letters refer to the invariants of `LaneReadiness`."""

from __future__ import annotations

from mm2.node.engine.lane_readiness import FIRST_PROBATION_S, LONGEST_PROBATION_S, STABLE_S, LaneReadiness


class Lanes:
    """Lanes that run or not, looked at once a second."""

    def __init__(self) -> None:
        self._readiness = LaneReadiness()
        self._now = 1_000.0

    def stand_still(self, seconds: float) -> None:
        self._now += seconds

    def run(self, seconds: float) -> list[bool]:
        return self._look(seconds, alive=True)

    def fail(self, seconds: float) -> list[bool]:
        return self._look(seconds, alive=False)

    def _look(self, seconds: float, *, alive: bool) -> list[bool]:
        found = []
        for _ in range(int(seconds)):
            self._now += 1
            self._readiness.observe(self._now, alive=alive)
            found.append(self._readiness.is_ready(self._now))
        return found

    def fail_until_ready(self) -> int:
        """Let them fail once, and return after how many seconds of running they are ready."""
        self.fail(30)
        return self.run(2 * LONGEST_PROBATION_S).index(True)


def test_lanes_that_have_never_run_are_not_ready() -> None:
    lanes = Lanes()
    assert not any(lanes.fail(30))
    assert all(lanes.run(30))


def test_a_lanes_that_return_soon_remain_ready() -> None:
    lanes = Lanes()
    lanes.run(30)
    assert all(lanes.fail(9) + lanes.run(1) + lanes.fail(9))


def test_b_lanes_are_ready_immediately_after_one_failure() -> None:
    lanes = Lanes()
    lanes.run(30)
    assert not lanes.fail(30)[-1]
    assert all(lanes.run(30))


def test_c_lanes_that_fail_every_minute_are_ready_twice_at_most() -> None:
    lanes = Lanes()
    seen = [any(lanes.run(40) + lanes.fail(20)) for _ in range(20)]
    assert seen == [True, True, *[False] * 18]


def test_c_lanes_have_to_run_for_longer_after_each_failure() -> None:
    lanes = Lanes()
    waits = []
    for _ in range(8):
        lanes.fail(30)
        waits.append(lanes.run(LONGEST_PROBATION_S - 1).count(False))
    assert waits[:5] == [0, 0, FIRST_PROBATION_S, 2 * FIRST_PROBATION_S, 4 * FIRST_PROBATION_S]
    assert waits[-1] == LONGEST_PROBATION_S - 1, "never ready within that time"


def test_b_lanes_that_ran_for_long_have_not_failed_before() -> None:
    lanes = Lanes()
    for _ in range(5):
        lanes.run(30)
        lanes.fail(30)
    lanes.run(STABLE_S + 1)
    assert lanes.fail_until_ready() == 0


def test_d_a_node_that_stands_still_repeatedly_has_not_failed() -> None:
    lanes = Lanes()
    lanes.run(30)
    for _ in range(5):
        lanes.stand_still(20)
        assert all(lanes.fail(5) + lanes.run(30)), "its lanes have to get their leases again"
