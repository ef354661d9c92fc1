"""Measured values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.log_files import Stored

GB = 1e9  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A sample of a running tool: seconds since its start, records on the target, and CPU-seconds since its start.

    CPU-seconds are those of the tool, of the brokers, and of all other programs except the benchmark itself.
    """

    seconds: float
    records: int
    tool_cpu: float
    brokers_cpu: float
    others_cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copy of one backlog of ``value_bytes`` (before compression) by one tool.

    Start-up is everything until ``first``, the moment when records were first seen on the target. Rates are calculated
    from there to ``last``, when all records had arrived, and for the records that arrived in between.
    """

    workload: str
    tool: str
    value_bytes: int
    source: Stored
    target: Stored
    first: Moment
    last: Moment
    peak_memory_bytes: int

    @property
    def records_per_second(self) -> float:
        return _ratio(self.last.records - self.first.records, self.last.seconds - self.first.seconds)

    @property
    def cpu_per_value_gb(self) -> float:
        """CPU-seconds of the tool for each GB of value bytes before compression: the main result."""
        return _ratio(self.last.tool_cpu - self.first.tool_cpu, self._share * self.value_bytes / GB)

    @property
    def cpu_per_batch_gb(self) -> float:
        """CPU-seconds of the tool for each GB of batches as the source stores them."""
        return _ratio(self.last.tool_cpu - self.first.tool_cpu, self._share * self.source.bytes / GB)

    @property
    def brokers_cpu_per_value_gb(self) -> float:
        """CPU-seconds of both brokers during that time, for each GB of value bytes."""
        return _ratio(self.last.brokers_cpu - self.first.brokers_cpu, self._share * self.value_bytes / GB)

    @property
    def others_cores(self) -> float:
        """Cores that other programs used during that time; almost none on an idle machine."""
        return _ratio(self.last.others_cpu - self.first.others_cpu, self.last.seconds - self.first.seconds)

    @property
    def _share(self) -> float:
        return (self.last.records - self.first.records) / self.last.records


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Milliseconds from the call that sends a record to the call that receives its copy.

    ``tool`` None is the floor: records read from the source itself, without a mirror. ``cores`` is the tool's CPU time
    divided by the elapsed time.
    """

    tool: str | None
    records: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    cores: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationCost:
    """CPU-seconds and memory of one checkpoint cycle over ``group_partitions``.

    Cycles: all groups have new offsets (``moved``), none has (``unmoved``), and all have with Java's offset syncs only
    (``compatible``). Measured separately: decoding all committed offsets, and encoding a checkpoint for each. Bytes per
    source partition: in the offset sync store, and in the exact map with one range and with a full window; and
    bytes per remembered checkpoint.
    """

    group_partitions: int
    moved_cpu: float
    unmoved_cpu: float
    compatible_cpu: float
    decoding_cpu: float
    encoding_cpu: float
    store_bytes: float
    map_bytes: float
    full_map_bytes: float
    checkpoint_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactlyOnce:
    """Copies of one backlog and latencies of one stream, with and without exactly-once.

    ``copies`` has several runs of a tool under the same name; `middle_copy` chooses one.
    """

    copies: tuple[Copy, ...]
    latencies: tuple[Latency, ...]

    def middle_copy(self, tool: str) -> Copy | None:
        """Return the run with the median CPU time, of an even number the cheaper one of the two; None without runs."""
        runs = sorted((one for one in self.copies if one.tool == tool), key=lambda one: one.cpu_per_value_gb)
        return runs[(len(runs) - 1) // 2] if runs else None

    def latency(self, tool: str) -> Latency | None:
        """Return the latency of a tool, or None."""
        return next((one for one in self.latencies if one.tool == tool), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformed:
    """Copies of ``source_records`` by tools that drop and change records, and latencies of one stream."""

    source_records: int
    copies: tuple[Copy, ...]
    latencies: tuple[Latency, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run without figures, and the reason."""

    workload: str
    tool: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A complete benchmark run. ``facts`` are pairs of name and value: date, versions, machine, command."""

    facts: tuple[tuple[str, str], ...]
    copies: tuple[Copy, ...] = ()
    latencies: tuple[Latency, ...] = ()
    exactly_once: ExactlyOnce | None = None
    transformed: Transformed | None = None
    translation: TranslationCost | None = None
    failures: tuple[Failure, ...] = ()


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest measured value that at least ``share`` (0 to 1) of the values in ``ordered`` do not exceed.

    Raises ValueError if there are no values.
    """
    if not ordered:
        raise ValueError("no percentile of nothing")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _ratio(part: float, whole: float) -> float:
    """Return the ratio, or NaN if the run finished within one sample."""
    return part / whole if whole > 0 else math.nan
