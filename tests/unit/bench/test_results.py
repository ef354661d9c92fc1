"""Figures computed from two samples."""

from __future__ import annotations

import pytest

from tests.bench.log_files import Stored
from tests.bench.results import Copy, Moment, percentile

FIRST = Moment(seconds=10.0, records=200_000, tool_cpu=20.0, brokers_cpu=5.0, others_cpu=100.0)
LAST = Moment(seconds=18.0, records=1_000_000, tool_cpu=24.0, brokers_cpu=9.0, others_cpu=100.8)
COPY = Copy(
    workload="large",
    tool="ours",
    value_bytes=1_000_000_000,
    source=Stored(bytes=500_000_000, batches=2_000),
    target=Stored(bytes=500_000_000, batches=2_000),
    first=FIRST,
    last=LAST,
    peak_memory_bytes=1,
)


def test_rates_between_two_samples() -> None:
    assert COPY.records_per_second == 100_000
    assert COPY.cpu_per_value_gb == pytest.approx(5.0)  # 4 CPU-s for four fifths of a GB
    assert COPY.cpu_per_batch_gb == pytest.approx(10.0)
    assert COPY.brokers_cpu_per_value_gb == pytest.approx(5.0)
    assert COPY.others_cores == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("share", "value"),
    [(0.0, 1.0), (0.01, 1.0), (0.5, 50.0), (0.501, 51.0), (0.99, 99.0), (0.991, 100.0), (1.0, 100.0)],
)
def test_percentiles_are_measured_values(share: float, value: float) -> None:
    assert percentile([float(number) for number in range(1, 101)], share) == value
