"""How much work each source partition is: what lanes report becomes the weights that `assignment.spread` evens out.

What counts is the demand, not the pace: a partition that lags is copied no faster than its slot allows, and would look
light exactly where it is too much for its slot. Demand is what arrives at the source plus what is behind, to be caught
up with within `CATCH_UP_S`:

    demand (bytes/s) = (records arriving per second + lag in records / CATCH_UP_S) * bytes per record
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mm2.core.assignment import WEIGHT
from mm2.core.names import TopicPartition

CATCH_UP_S = 300.0  # a backlog that takes longer is worth a move, which costs a drain of about a second
HALF_LIFE_S = 60.0  # of what was measured: bursts shorter than a minute are over before a move has paid off
IDLE_BYTES = 10_000.0  # per second: with less, being there is most of a partition's cost, and noise would move others
RECORD_BYTES = 1_000.0  # of a record, where nothing has been copied yet that would tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look at a partition at ``at_s`` (seconds of one monotonic clock).

    ``run`` names the lane's run, in which ``records_total`` and ``bytes_total`` count from 0. ``position`` and
    ``end_offset`` are the source's, -1 while not known.
    """

    at_s: float
    run: str
    position: int
    end_offset: int
    records_total: int
    bytes_total: int


@dataclass(slots=True)
class _Known:
    newest: Reading
    arriving: float | None = None  # records per second
    record_bytes: float | None = None


class PartitionLoads:
    """The demand of each partition, as far as it is known.

    (A) Readings may repeat, and come late: one not newer than the last of its partition changes nothing.
    (B) An end offset that went back (a topic made anew) and a new run give no rate, only a new start to measure from.
    """

    def __init__(self) -> None:
        self._known: dict[TopicPartition, _Known] = {}

    def take(self, partition: TopicPartition, reading: Reading) -> None:
        """Learn from one reading."""
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
        """Forget all others: they are no longer replicated."""
        wanted = set(partitions)
        self._known = {partition: known for partition, known in self._known.items() if partition in wanted}

    def demands(self) -> dict[TopicPartition, float]:
        """Bytes per second, of those whose demand is known."""
        sizes = [known.record_bytes for known in self._known.values() if known.record_bytes is not None]
        usual = sum(sizes) / len(sizes) if sizes else RECORD_BYTES
        return {
            partition: (known.arriving + _lag(known.newest) / CATCH_UP_S)
            * (usual if known.record_bytes is None else known.record_bytes)
            for partition, known in self._known.items()
            if known.arriving is not None
        }

    def weights(self) -> dict[TopicPartition, int]:
        """For `spread`, which takes one that is left out, its demand not known yet, for one with the mean demand."""
        return weights_of(self.demands())


def weights_of(demands: Mapping[TopicPartition, float]) -> dict[TopicPartition, int]:
    """Weights from demands in bytes per second.

    Half of the weight is for being there (a fetch session entry, metadata, offsets), half for the demand: an idle
    partition weighs `WEIGHT` / 2, one with the mean demand, or `IDLE_BYTES` if the mean is less, `WEIGHT`.
    """
    unit = max(IDLE_BYTES, sum(demands.values()) / max(1, len(demands)))
    return {partition: WEIGHT // 2 + round(WEIGHT / 2 * demand / unit) for partition, demand in demands.items()}


def _lag(reading: Reading) -> int:
    """Records behind; 0 while one of the two offsets is not known."""
    return max(0, reading.end_offset - reading.position) if reading.position >= 0 else 0


def _blended(before: float | None, measured: float, seconds: float) -> float:
    """The moving mean with what was measured over the last ``seconds``; the first measurement counts as it is."""
    if before is None:
        return measured
    share = 1 - math.exp2(-seconds / HALF_LIFE_S)
    return before + share * (measured - before)
