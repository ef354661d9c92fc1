"""What one partition has copied in a transaction that is not committed yet."""

from __future__ import annotations

from dataclasses import dataclass

from flows.batch.target_batch import TargetBatch
from flows.partition.health import PartitionMetrics
from flows.partition.state import OffsetRange, PartitionState
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import LossPolicy


@dataclass(slots=True)
class _Uncommitted:
    """Where copying continues if the transaction is aborted, and what to count when it is committed."""

    position: int
    last_copied: int | None
    initial_commit: int | None
    records: int = 0
    source_bytes: int = 0
    batches: int = 0  # those with timestamps
    timestamps: float = 0.0  # the sum of their largest ones, in seconds


class UncommittedState(PartitionState):
    """The position up to the last committed transaction, and the way back to it.

    (A) ``position`` is what the target has acknowledged; ``committed_position`` is what consumers can read. They differ
        only while a transaction with records of the partition is open, so never under at-least-once.
    (B) Records are counted when they are committed.
    """

    def __init__(
        self, lease: PartitionLease, metrics: PartitionMetrics, now: float, policy: LossPolicy | None = None
    ) -> None:
        super().__init__(lease, metrics, now, policy)
        self.is_transactional = False
        self._uncommitted: _Uncommitted | None = None
        self._committed_from: int | None = None  # where the last committed transaction began

    @property
    def committed_position(self) -> int:
        """The first offset not known to be copied, or copied in a transaction that is not committed yet."""
        return self.position if self._uncommitted is None else self._uncommitted.position

    @property
    def offsets_to_commit(self) -> tuple[int, ...]:
        """The source offsets to store in the transaction, in order: `_initial_commit`, then the last copied one."""
        initial, last = self._initial_commit, self._last_copied
        if initial is None:
            return () if last is None else (last,)
        return (initial,) if last is None or last == initial else (initial, last)

    @property
    def has_uncommitted(self) -> bool:
        """Whether something was copied or left out in a transaction that is not committed yet."""
        return self._uncommitted is not None

    @property
    def needs_commit(self) -> bool:
        """Whether a source offset is to be stored that is not."""
        offsets = self.offsets_to_commit
        return bool(offsets) and (self.needs_initial_commit or max(0, offsets[-1] + 1) != self._stored)

    def transaction_committed(self, offsets: tuple[int, ...], now: float, wall: float) -> None:
        """The transaction with everything that was acknowledged, and with the stored ``offsets``, is committed."""
        uncommitted, self._uncommitted = self._uncommitted, None
        if uncommitted is not None:
            self._committed_from = uncommitted.position
            metrics, batches = self._metrics, uncommitted.batches
            metrics.records += uncommitted.records
            metrics.stored_bytes += uncommitted.source_bytes
            metrics.latency_sum += max(0.0, batches * wall - uncommitted.timestamps)
            metrics.latency_count += batches
        for offset in offsets:
            self.committed(offset)
        self._update_caught_up(now)

    def _roll_back(self) -> None:
        """The transaction is aborted: move back to where the last committed one ended."""
        uncommitted, self._uncommitted = self._uncommitted, None
        if uncommitted is not None:
            self.position, self._last_copied = uncommitted.position, uncommitted.last_copied
            self._initial_commit = uncommitted.initial_commit
            self._skipped = OffsetRange(0, 0)

    def _roll_back_committed(self) -> None:
        """The last committed transaction is aborted too: its records are to be copied again.

        The offset before them is stored first, like that before a truncation.
        """
        if self._committed_from is not None:
            self._move_back(self._committed_from)
            self._committed_from = None

    def _count(self, batch: TargetBatch, wall: float) -> None:
        uncommitted = self._uncommitted
        if uncommitted is None:
            super()._count(batch, wall)
            return
        uncommitted.records += batch.count
        uncommitted.source_bytes += batch.source_bytes
        if batch.max_timestamp >= 0:
            uncommitted.batches += 1
            uncommitted.timestamps += batch.max_timestamp / 1000

    def _copied(self, batch: TargetBatch) -> OffsetRange:
        self._begin()
        return super()._copied(batch)

    def _left_out(self, until: int) -> OffsetRange:
        self._begin()
        return super()._left_out(until)

    def _begin(self) -> None:
        if self.is_transactional and self._uncommitted is None:
            self._uncommitted = _Uncommitted(self.position, self._last_copied, self._initial_commit)

    def _move_back(self, offset: int) -> None:
        super()._move_back(offset)
        uncommitted = self._uncommitted
        if uncommitted is not None and uncommitted.position > offset:  # committed records were truncated, too
            uncommitted.position, uncommitted.last_copied = offset, offset - 1
            uncommitted.initial_commit = self._initial_commit
