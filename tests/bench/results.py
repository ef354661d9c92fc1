"""What was measured, as values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.log_files import Stored

GB = 1e9  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One look at a running tool: seconds since its start, records on the target, and CPU-seconds since the start of
    the tool, of the brokers, and of everything else on the machine but the benchmark itself."""

    seconds: float
    records: int
    tool_cpu: float
    brokers_cpu: float
    others_cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One tool on one backlog of ``value_bytes`` (before compression).

    Start-up is everything until ``first``, the moment when records were first seen on the target. The rates are about
    the time from there to ``last``, when all were there, and about the records that arrived in between.
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
        """CPU-seconds of the tool for each GB of value bytes before compression: the headline."""
        return _ratio(self.last.tool_cpu - self.first.tool_cpu, self._share * self.value_bytes / GB)

    @property
    def cpu_per_batch_gb(self) -> float:
        """CPU-seconds of the tool for each GB of batches as the source stores them."""
        return _ratio(self.last.tool_cpu - self.first.tool_cpu, self._share * self.source.bytes / GB)

    @property
    def brokers_cpu_per_value_gb(self) -> float:
        """CPU-seconds of both brokers in the meantime, for each GB of value bytes."""
        return _ratio(self.last.brokers_cpu - self.first.brokers_cpu, self._share * self.value_bytes / GB)

    @property
    def others_cores(self) -> float:
        """Cores that programs outside the benchmark took in the meantime; on a quiet machine next to none."""
        return _ratio(self.last.others_cpu - self.first.others_cpu, self.last.seconds - self.first.seconds)

    @property
    def _share(self) -> float:
        return (self.last.records - self.first.records) / self.last.records


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Milliseconds from the call that sends a record to the call that receives its copy.

    ``tool`` None is the floor: the same, read from the source without a mirror. ``cores`` is the tool's CPU time in
    parts of the time that passed.
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
    """What one checkpoint cycle over so many ``group_partitions`` takes, in CPU-seconds, and what is kept for it.

    Translating and judging all of them: after every group ``moved`` on, with none moved (``unmoved``), and after every
    group moved on with Java's offset syncs only (``compatible``). Beside that: decoding the committed offsets of all,
    and encoding a checkpoint for each. Bytes are for each source partition: in the store of offset syncs, and in the
    exact map when it is one range and when its window is full; and for each checkpoint that is remembered.
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
class Failure:
    """A run that gave no figures, and why."""

    workload: str
    tool: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A whole run of the benchmark. ``facts`` are pairs of what and which: date, versions, machine, command."""

    facts: tuple[tuple[str, str], ...]
    copies: tuple[Copy, ...] = ()
    latencies: tuple[Latency, ...] = ()
    translation: TranslationCost | None = None
    failures: tuple[Failure, ...] = ()


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of ``ordered`` that at least ``share`` (0 to 1) of them do not exceed: a value that was measured.

    Raises ValueError when there are none.
    """
    if not ordered:
        raise ValueError("no percentile of nothing")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _ratio(part: float, whole: float) -> float:
    """NaN where a run was over between two looks."""
    return part / whole if whole > 0 else math.nan
