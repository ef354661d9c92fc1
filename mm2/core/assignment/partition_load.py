"""Load of source partitions: lane reports are converted to the weights that `partition_assignment.spread` balances.

Demand counts, not throughput: a lagging partition is copied no faster than its source task allows, so its throughput
would look low exactly when its source task is overloaded. Demand is the arrival rate at the source plus the rate needed
to catch up within `CATCH_UP_S`:

    demand (bytes/s) = (records arriving per second + lag in records / CATCH_UP_S) * bytes per record
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mm2.core.assignment.partition_assignment import WEIGHT
from mm2.core.naming.names import TopicPartition

CATCH_UP_S = 300.0  # a backlog that takes longer is worth a move, which costs a drain of about a second
HALF_LIFE_S = 60.0  # of measurements: bursts shorter than a minute are over before a move has paid off
IDLE_BYTES = 10_000.0  # per second; below this a partition's fixed cost dominates, and noise would cause moves
RECORD_BYTES = 1_000.0  # assumed record size until records have been copied


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """A measurement of one partition at ``at_s`` (seconds of one monotonic clock).

    ``run`` identifies the lane's run, in which ``records_total`` and ``bytes_total`` start at 0. ``position`` and
    ``end_offset`` are source offsets, -1 while unknown.
    """

    at_s: float
    run: str
    position: int
    end_offset: int
    records_total: int
    bytes_total: int


@dataclass(slots=True)
class _Known:
    newest: LoadSample
    arriving: float | None = None  # records per second
    record_bytes: float | None = None


class PartitionLoads:
    """The demand of each partition with enough measurements.

    (A) Samples can be repeated or late: a sample not newer than the last one of its partition changes nothing.
    (B) An end offset that went back (recreated topic) or a new run yields no rate, only a new starting point.
    """

    def __init__(self) -> None:
        self._known: dict[TopicPartition, _Known] = {}

    def take(self, partition: TopicPartition, reading: LoadSample) -> None:
        """Update the partition's demand from one sample."""
        known = self._known.setdefault(partition, _Known(newest=reading))
        before, seconds = known.newest, reading.at_s - known.newest.at_s
        if seconds <= 0:
            return
        known.newest = reading
        if before.end_offset >= 0 and reading.end_offset >= before.end_offset:
            rate = (reading.end_offset - before.end_offset) / seconds
            known.arriving = _blended(known.arriving, rate, seconds)
        records = reading.records_total - before.records_total
        if reading.run == before.run and records > 0:
            size = (reading.bytes_total - before.bytes_total) / records
            known.record_bytes = _blended(known.record_bytes, size, seconds)

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Drop all other partitions: they are no longer replicated."""
        wanted = set(partitions)
        self._known = {partition: known for partition, known in self._known.items() if partition in wanted}

    def demands(self) -> dict[TopicPartition, float]:
        """Return the known demands in bytes per second."""
        sizes = [known.record_bytes for known in self._known.values() if known.record_bytes is not None]
        usual = sum(sizes) / len(sizes) if sizes else RECORD_BYTES
        return {
            partition: (known.arriving + _lag(known.newest) / CATCH_UP_S)
            * (usual if known.record_bytes is None else known.record_bytes)
            for partition, known in self._known.items()
            if known.arriving is not None
        }


def weights_of(demands: Mapping[TopicPartition, float]) -> dict[TopicPartition, int]:
    """Return weights for `spread` from demands in bytes per second; `spread` gives other partitions the mean weight.

    Half of the weight is a fixed cost (a fetch session entry, metadata, offsets), half is the demand: an idle partition
    weighs `WEIGHT` / 2; one with the mean demand, or `IDLE_BYTES` if the mean is less, weighs `WEIGHT`.
    """
    unit = max(IDLE_BYTES, sum(demands.values()) / max(1, len(demands)))
    return {partition: WEIGHT // 2 + round(WEIGHT / 2 * demand / unit) for partition, demand in demands.items()}


def _lag(reading: LoadSample) -> int:
    """Return the lag in records; 0 while one of the two offsets is unknown."""
    return max(0, reading.end_offset - reading.position) if reading.position >= 0 else 0


def _blended(before: float | None, measured: float, seconds: float) -> float:
    """Return the moving mean including a rate ``measured`` over the last ``seconds``; the first one is used as is."""
    if before is None:
        return measured
    share = 1 - math.exp2(-seconds / HALF_LIFE_S)
    return before + share * (measured - before)
