"""Letters are the invariants of `PartitionLoads`."""

from __future__ import annotations

import pytest

from mm2.core.assignment import WEIGHT
from mm2.core.names import TopicPartition
from mm2.core.partition_load import CATCH_UP_S, HALF_LIFE_S, RECORD_BYTES, PartitionLoads, Reading, weights_of

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def reading(
    at_s: float, *, end: int, position: int | None = None, records: int = 0, size: int = 100, run: str = "r"
) -> Reading:
    return Reading(
        at_s=at_s,
        run=run,
        position=end if position is None else position,
        end_offset=end,
        records_total=records,
        bytes_total=records * size,
    )


def test_demand_is_what_arrives() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=1_000))
    assert loads.demands() == {}
    loads.take(P0, reading(10, end=1_500, records=500))
    assert loads.demands() == {P0: pytest.approx(50 * 100)}


def test_and_what_is_behind() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=30_000, position=0))
    loads.take(P0, reading(10, end=30_000, position=0, records=1))
    assert loads.demands() == {P0: pytest.approx(30_000 / CATCH_UP_S * 100)}


def test_a_partition_nothing_was_copied_of_has_records_like_the_others() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=0))
    loads.take(P0, reading(1, end=10))
    assert loads.demands() == {P0: pytest.approx(10 * RECORD_BYTES)}
    loads.take(P1, reading(0, end=0))
    loads.take(P1, reading(1, end=10, records=10, size=300))
    assert loads.demands()[P0] == pytest.approx(10 * 300)


def test_a_position_that_is_not_known_is_no_lag() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=100, position=-1))
    loads.take(P0, reading(1, end=100, position=-1))
    assert loads.demands() == {P0: 0}


def test_bursts_count_by_half_after_the_half_life() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=0))
    loads.take(P0, reading(1, end=100))
    loads.take(P0, reading(1 + HALF_LIFE_S, end=100))
    assert loads.demands() == {P0: pytest.approx(50 * RECORD_BYTES)}


def test_a_late_or_repeated_readings_change_nothing() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=0))
    loads.take(P0, reading(10, end=100))
    before = loads.demands()
    loads.take(P0, reading(10, end=100))
    loads.take(P0, reading(5, end=999))
    assert loads.demands() == before


def test_b_a_topic_made_anew_and_a_new_run_are_new_starts() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=-1))
    loads.take(P0, reading(1, end=1_000_000))
    assert loads.demands() == {}
    loads.take(P0, reading(2, end=1_000_010, records=10))
    before = loads.demands()
    loads.take(P0, reading(3, end=5, position=5, records=20, size=1, run="another"))
    assert loads.demands() == before


def test_what_is_no_longer_replicated_is_forgotten() -> None:
    loads = PartitionLoads()
    for partition in (P0, P1):
        loads.take(partition, reading(0, end=0))
        loads.take(partition, reading(1, end=1))
    loads.keep([P1])
    assert set(loads.demands()) == {P1}


def test_weights_are_half_presence_half_demand() -> None:
    assert weights_of({P0: 0.0, P1: 1e6, P2: 2e6}) == {P0: 50, P1: 100, P2: 150}
    assert weights_of({}) == {}


def test_little_demand_is_no_reason_to_move_anything() -> None:
    weights = weights_of({P0: 0.0, P1: 10.0, P2: 2_000.0})
    assert max(weights.values()) - min(weights.values()) <= WEIGHT * 0.1


def test_weights_come_from_demands() -> None:
    loads = PartitionLoads()
    for partition, rate in ((P0, 0), (P1, 1_000), (P2, 2_000)):
        loads.take(partition, reading(0, end=0))
        loads.take(partition, reading(1, end=rate))
    assert loads.weights() == {P0: 50, P1: 100, P2: 150}
