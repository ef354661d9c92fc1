from __future__ import annotations

from mm2.core.lanes.counters import ZERO, PartitionCounters


def test_values_and_counters_of_them() -> None:
    counters = PartitionCounters(records=3, bytes=300, latency_sum=0.5, latency_count=1, rows_dropped=2)
    assert PartitionCounters.of(counters.values) == counters
    assert len(counters.values) == len(ZERO)
    assert PartitionCounters.of(ZERO) == PartitionCounters()
