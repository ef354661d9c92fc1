"""Metrics and health of one partition, as reported to the node."""

from __future__ import annotations

from collections.abc import Iterable

from flows.batch.target_batch import SourceBatch, TargetBatch
from mm2.core.lanes.counters import Histogram, PartitionCounters


class FlowHistograms:
    """The distributions of ages and latencies of all partitions of a source task, as in `PartitionCounters`."""

    __slots__ = ("ages", "latencies")

    def __init__(self) -> None:
        self.ages, self.latencies = Histogram(), Histogram()


class PartitionMetrics(PartitionCounters):
    """The counters of one partition since the lane started, and what counts."""

    def __init__(self, histograms: FlowHistograms | None = None) -> None:
        """``histograms``: of its source task; None: of its own."""
        super().__init__()
        histograms = histograms or FlowHistograms()
        self._ages, self._latencies = histograms.ages, histograms.latencies

    def fetched(self, batches: Iterable[SourceBatch]) -> None:
        """Count batches fetched from the source."""
        for batch in batches:
            timestamp = batch.header.max_timestamp
            if timestamp >= 0:
                age = max(0.0, batch.arrived - timestamp / 1000)
                self.age_sum += age
                self.age_count += 1
                self._ages.observe(age)

    def copied(self, batch: TargetBatch, wall: float) -> None:
        """Count a batch acknowledged by the target at ``wall`` epoch seconds."""
        self.records += batch.count
        self.bytes += batch.source_bytes
        if batch.max_timestamp >= 0:
            self.took(wall - batch.max_timestamp / 1000)

    def took(self, latency: float) -> None:
        """Count that a batch was copied ``latency`` seconds after its largest timestamp."""
        latency = max(0.0, latency)
        self.latency_sum += latency
        self.latency_count += 1
        self._latencies.observe(latency)

    def routed(self, batches: Iterable[SourceBatch], records: int) -> None:
        """Count ``records`` of source batches that were written one by one."""
        self.records += records
        self.bytes += sum(batch.header.size for batch in batches)


class PartitionHealth:
    """Why a partition makes no progress, at the source or at the target.

    A failure stays until the failed action succeeds, so that the state does not flicker during retries. A delay is only
    a message until it is ``prolonged``; then the partition ``is_waiting`` for its source or target.
    """

    def __init__(self) -> None:
        self._source_message: str | None = None
        self._target_message: str | None = None
        self._fetch_failed = False
        self._failed_offset: int | None = None
        self.is_waiting_for_source = False
        self.is_waiting_for_target = False

    @property
    def is_waiting(self) -> bool:
        return self.is_waiting_for_source or self.is_waiting_for_target

    @property
    def is_failed(self) -> bool:
        return self._fetch_failed or self._failed_offset is not None

    @property
    def is_stopped(self) -> bool:
        """Whether the failure is one of records that cannot be copied, or cannot be read."""
        return self._failed_offset is not None

    @property
    def message(self) -> str | None:
        """The message to report, of a failure rather than of a delay."""
        if self._fetch_failed:
            return self._source_message
        if self._failed_offset is not None:
            return self._target_message
        return self._target_message or self._source_message

    @property
    def target_message(self) -> str | None:
        """Why the last attempt at the target failed, or is overdue."""
        return self._target_message

    def fetch_delayed(self, message: str, *, prolonged: bool = False) -> None:
        """A fetch failed temporarily."""
        if not self._fetch_failed:
            self._source_message = message
            self.is_waiting_for_source = self.is_waiting_for_source or prolonged

    def produce_delayed(self, message: str, *, prolonged: bool = False) -> None:
        """A produce request failed temporarily, or is overdue."""
        if self._failed_offset is None:
            self._target_message = message
            self.is_waiting_for_target = self.is_waiting_for_target or prolonged

    def fetch_failed(self, message: str) -> None:
        """Set the state to failed until a fetch succeeds."""
        self._fetch_failed, self._source_message, self.is_waiting_for_source = True, message, False

    def copy_failed(self, offset: int, message: str) -> None:
        """Set the state to failed until the record at source offset ``offset`` is copied."""
        self._failed_offset, self._target_message, self.is_waiting_for_target = offset, message, False

    def truncated(self, offset: int) -> None:
        """The source lost its records from ``offset`` on."""
        if self._failed_offset is not None and self._failed_offset >= offset:
            self._failed_offset, self._target_message, self.is_waiting_for_target = None, None, False

    def fetch_succeeded(self) -> None:
        """A fetch succeeded."""
        self._fetch_failed, self._source_message, self.is_waiting_for_source = False, None, False

    def copied_to(self, position: int) -> None:
        """The target has everything before ``position``."""
        if self._failed_offset is None or position > self._failed_offset:
            self._failed_offset, self._target_message, self.is_waiting_for_target = None, None, False
