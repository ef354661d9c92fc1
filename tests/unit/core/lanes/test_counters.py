"""Totals of partitions and source tasks, and histograms."""

from __future__ import annotations

import pytest

from mm2.core.lanes.counters import (
    BUCKETS,
    ZERO,
    Histogram,
    HistogramTotals,
    PartitionCounters,
    SourceTaskCounters,
)
from mm2.core.lanes.partition_steps import Wait


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0.0, 0), (0.005, 0), (0.006, 1), (1.0, 6), (599.0, 10), (600.0, 10), (601.0, 11)],
)
def test_a_bucket_contains_its_upper_bound(seconds: float, bucket: int) -> None:
    histogram = Histogram()
    histogram.observe(seconds)
    totals = histogram.totals
    assert [count for count in range(len(BUCKETS) + 1) if totals.counts[count]] == [bucket]
    assert totals.sum == seconds


def test_totals_are_copies() -> None:
    histogram = Histogram()
    before = histogram.totals
    histogram.observe(1.0)
    assert before == HistogramTotals()


def test_at_most_twelve_buckets_from_five_milliseconds_to_ten_minutes() -> None:
    assert len(HistogramTotals().counts) <= 12
    assert (BUCKETS[0], BUCKETS[-1]) == (0.005, 600.0)
    assert list(BUCKETS) == sorted(BUCKETS)


def test_values_of_source_task_counters() -> None:
    histogram = Histogram()
    histogram.observe(0.02)
    counters = SourceTaskCounters(
        waits=(Wait(on="query", seconds=2.5), Wait(on="of a later release", seconds=1.0)),
        source_throttled=1.5,
        target_throttled=0.5,
        ages=histogram.totals,
    )
    found = SourceTaskCounters.of(counters.values)
    assert [one for one in found.waits if one.seconds] == [Wait(on="query", seconds=2.5)]
    assert (found.source_throttled, found.target_throttled) == (1.5, 0.5)
    assert (found.ages, found.latencies) == (histogram.totals, HistogramTotals())
    assert SourceTaskCounters.of(found.values) == found


def test_a_lane_of_another_release_with_other_buckets() -> None:
    """Its histograms do not count, the rest does."""
    counters = SourceTaskCounters(source_throttled=1.5, ages=HistogramTotals(counts=(1, 2), sum=3.0))
    assert len(counters.values) == len(SourceTaskCounters().values)
    assert SourceTaskCounters.of(counters.values) == SourceTaskCounters.of(
        SourceTaskCounters(source_throttled=1.5).values
    )


def test_values_and_counters_of_them() -> None:
    counters = PartitionCounters(records=3, bytes=300, latency_sum=0.5, latency_count=1, rows_dropped=2)
    assert PartitionCounters.of(counters.values) == counters
    assert len(counters.values) == len(ZERO)
    assert PartitionCounters.of(ZERO) == PartitionCounters()
