"""Totals of one partition, as lanes count them, nodes sum them up, and /metrics shows them."""

from __future__ import annotations

from dataclasses import dataclass, fields


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
