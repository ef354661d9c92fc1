"""Letters refer to the invariants of `PartitionLoads`."""

from __future__ import annotations

import pytest

from mm2.core.assignment.partition_assignment import WEIGHT
from mm2.core.assignment.partition_load import (
    CATCH_UP_S,
    HALF_LIFE_S,
    RECORD_BYTES,
    LoadSample,
    PartitionLoads,
    weights_of,
)
from mm2.core.naming.names import TopicPartition

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def reading(
    at_s: float, *, end: int, position: int | None = None, records: int = 0, size: int = 100, run: str = "r"
) -> LoadSample:
    return LoadSample(
        at_s=at_s,
        run=run,
        position=end if position is None else position,
        end_offset=end,
        records_total=records,
        bytes_total=records * size,
    )


def test_demand_is_the_arrival_rate() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=1_000))
    assert loads.demands() == {}
    loads.take(P0, reading(10, end=1_500, records=500))
    assert loads.demands() == {P0: pytest.approx(50 * 100)}


def test_demand_includes_the_lag() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=30_000, position=0))
    loads.take(P0, reading(10, end=30_000, position=0, records=1))
    assert loads.demands() == {P0: pytest.approx(30_000 / CATCH_UP_S * 100)}


def test_average_record_size_is_used_before_the_first_copy() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=0))
    loads.take(P0, reading(1, end=10))
    assert loads.demands() == {P0: pytest.approx(10 * RECORD_BYTES)}
    loads.take(P1, reading(0, end=0))
    loads.take(P1, reading(1, end=10, records=10, size=300))
    assert loads.demands()[P0] == pytest.approx(10 * 300)


def test_unknown_position_is_not_lag() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=100, position=-1))
    loads.take(P0, reading(1, end=100, position=-1))
    assert loads.demands() == {P0: 0}


def test_bursts_decay_by_half_after_the_half_life() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=0))
    loads.take(P0, reading(1, end=100))
    loads.take(P0, reading(1 + HALF_LIFE_S, end=100))
    assert loads.demands() == {P0: pytest.approx(50 * RECORD_BYTES)}


def test_a_late_or_repeated_readings_are_ignored() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=0))
    loads.take(P0, reading(10, end=100))
    before = loads.demands()
    loads.take(P0, reading(10, end=100))
    loads.take(P0, reading(5, end=999))
    assert loads.demands() == before


def test_b_recreated_topic_and_new_run_reset_the_reading() -> None:
    loads = PartitionLoads()
    loads.take(P0, reading(0, end=-1))
    loads.take(P0, reading(1, end=1_000_000))
    assert loads.demands() == {}
    loads.take(P0, reading(2, end=1_000_010, records=10))
    before = loads.demands()
    loads.take(P0, reading(3, end=5, position=5, records=20, size=1, run="another"))
    assert loads.demands() == before


def test_partitions_that_are_no_longer_replicated_are_removed() -> None:
    loads = PartitionLoads()
    for partition in (P0, P1):
        loads.take(partition, reading(0, end=0))
        loads.take(partition, reading(1, end=1))
    loads.keep([P1])
    assert set(loads.demands()) == {P1}


def test_weight_is_half_constant_and_half_demand() -> None:
    assert weights_of({P0: 0.0, P1: 1e6, P2: 2e6}) == {P0: 50, P1: 100, P2: 150}
    assert weights_of({}) == {}


def test_low_demand_barely_affects_weights() -> None:
    weights = weights_of({P0: 0.0, P1: 10.0, P2: 2_000.0})
    assert max(weights.values()) - min(weights.values()) <= WEIGHT * 0.1


def test_weights_of_demands() -> None:
    loads = PartitionLoads()
    for partition, rate in ((P0, 0), (P1, 1_000), (P2, 2_000)):
        loads.take(partition, reading(0, end=0))
        loads.take(partition, reading(1, end=rate))
    assert weights_of(loads.demands()) == {P0: 50, P1: 100, P2: 150}
