"""Totals of partitions and source tasks, as lanes count them, nodes sum them up, and /metrics shows them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, fields

from mm2.core.lanes.bottlenecks import Bottleneck
from mm2.core.lanes.partition_steps import Wait


@dataclass(slots=True)
class PartitionCounters:
    """Totals since the lane or the node started.

    ``records`` and ``bytes`` were copied; bytes are those of the source's batches. Ages and latencies are seconds, with
    one observation per batch: from its largest timestamp to its arrival, and to the target's acknowledgement.
    ``rows_in`` and ``rows_dropped``: records that passed through a query, also repeatedly, and those that it dropped.
    """

    records: int = 0
    bytes: int = 0
    latency_sum: float = 0.0
    latency_count: int = 0
    age_sum: float = 0.0
    age_count: int = 0
    dead_letters: int = 0
    rows_in: int = 0
    rows_dropped: int = 0

    @property
    def values(self) -> tuple[float, ...]:
        """The totals in the order of the fields."""
        return tuple(getattr(self, one.name) for one in _FIELDS)

    @classmethod
    def of(cls, values: tuple[float, ...]) -> PartitionCounters:
        """Return the counters with these `values`."""
        return PartitionCounters(*values)  # type: ignore[arg-type]  # sums of integers are integers


_FIELDS = fields(PartitionCounters)
ZERO = PartitionCounters().values


BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0)
"""Upper bounds of histograms, in seconds, of twelve buckets with the one for everything above: from what a quick pair
of clusters needs to what an outage of ten minutes leaves."""


class Histogram:
    """Counts observations by `BUCKETS`. ``counts`` are those of each bucket alone, the last for what is above all."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds

    @property
    def totals(self) -> HistogramTotals:
        """The counts so far, as a copy."""
        return HistogramTotals(counts=tuple(self.counts), sum=self.sum)


_NO_COUNTS = (0,) * (len(BUCKETS) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramTotals:
    """The state of a `Histogram`."""

    counts: tuple[int, ...] = _NO_COUNTS
    sum: float = 0.0

    @property
    def values(self) -> tuple[float, ...]:
        """As many numbers for each histogram; `of` reads them. Those of another release have other buckets: none."""
        return (*self.counts, self.sum) if len(self.counts) == len(_NO_COUNTS) else (*_NO_COUNTS, 0.0)

    @classmethod
    def of(cls, values: Sequence[float]) -> HistogramTotals:
        """Return the totals with these `values`."""
        return cls(counts=tuple(int(one) for one in values[:-1]), sum=values[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskCounters:
    """Totals of one source task since its lane started it, or of a flow since the node started.

    ``waits``: what partitions that were behind have waited for. ``source_throttled`` and ``target_throttled``: the
    seconds that the brokers of a cluster have reported as throttle time, summed over their answers. ``ages`` and
    ``latencies``: as in `PartitionCounters`, one observation per batch.
    """

    waits: tuple[Wait, ...] = ()
    source_throttled: float = 0.0
    target_throttled: float = 0.0
    ages: HistogramTotals = HistogramTotals()
    latencies: HistogramTotals = HistogramTotals()

    @property
    def values(self) -> tuple[float, ...]:
        """All totals in a fixed order."""
        waited = {wait.on: wait.seconds for wait in self.waits}
        return (
            *(waited.get(cause.value, 0.0) for cause in Bottleneck),
            self.source_throttled,
            self.target_throttled,
            *self.ages.values,
            *self.latencies.values,
        )

    @classmethod
    def of(cls, values: Sequence[float]) -> SourceTaskCounters:
        """Return the counters with these `values`."""
        causes = list(Bottleneck)
        waits = tuple(Wait(on=cause.value, seconds=seconds) for cause, seconds in zip(causes, values, strict=False))
        source, target, *histograms = values[len(causes) :]
        size = len(_NO_COUNTS) + 1
        return cls(
            waits=waits,
            source_throttled=source,
            target_throttled=target,
            ages=HistogramTotals.of(histograms[:size]),
            latencies=HistogramTotals.of(histograms[size:]),
        )
