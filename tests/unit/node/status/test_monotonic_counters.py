from __future__ import annotations

from mm2.node.status.monotonic_counters import MonotonicCounters


def test_totals_grow_over_runs() -> None:
    totals: MonotonicCounters[str] = MonotonicCounters()
    assert totals.fold("orders", "run 1", (10, 1.5)) == (10, 1.5)
    assert totals.fold("orders", "run 1", (15, 2.0)) == (15, 2.0)
    assert totals.fold("orders", "run 2", (1, 0.5)) == (16, 2.5)
    assert totals.get("orders", (0, 0)) == (16, 2.5)


def test_a_counter_that_decreased_within_a_run_was_restarted() -> None:
    totals: MonotonicCounters[str] = MonotonicCounters()
    totals.fold("orders", "run", (10,))
    assert totals.fold("orders", "run", (3,)) == (13,)


def test_an_unknown_key_is_zero() -> None:
    assert MonotonicCounters[str]().get("never seen", (0, 0, 0)) == (0, 0, 0)
