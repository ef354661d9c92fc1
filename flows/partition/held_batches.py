"""The batches that one partition holds until the target has them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from flows.batch.target_batch import SourceBatch, TargetBatch
from flows.partition.frames_in_query import FramesInQuery
from flows.partition.health import PartitionMetrics
from flows.partition.in_flight import InFlightBatches
from flows.partition.listener import PartitionListener
from flows.partition.log_position import LogPosition
from flows.partition.timeouts import Timeouts
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import LossPolicy


class HeldBatches(LogPosition):
    """Batches in flight, then fetched ones that are ready to be packed, then those in the query: in source order.

    (A) ``held_bytes`` are counted in the lane's budget and released exactly once, with what rebuilt batches grew by.
    """

    def __init__(
        self,
        lease: PartitionLease,
        listener: PartitionListener[Any],
        *,
        max_in_flight: int,
        now: float,
        metrics: PartitionMetrics,
        policy: LossPolicy | None,
        timeouts: Timeouts,
    ) -> None:
        super().__init__(lease, metrics, now, policy)
        self.held_bytes = 0
        self._listener = listener
        self._timeouts = timeouts
        self._in_flight = InFlightBatches(max_in_flight=max_in_flight, now=now, probe_after_s=timeouts.probe_after_s)
        self._fetched: deque[SourceBatch] = deque()
        self._in_query = FramesInQuery()

    @property
    def is_uncertain(self) -> bool:
        """Whether the target may have records that it has not acknowledged without a gap."""
        return self._in_flight.is_uncertain

    @property
    def repeats_next(self) -> bool:
        """Whether the next batch to send is a repetition, or completes others that the target has."""
        return self._in_flight.repeats_next

    @property
    def batches_in_flight(self) -> int:
        return self._in_flight.in_flight

    @property
    def is_idle(self) -> bool:
        """Whether nothing is buffered or in flight."""
        return not self._in_flight and not self._fetched and not self._in_query

    @property
    def oldest_pending(self) -> int:
        """Largest timestamp (epoch ms) of the first batch buffered or in flight; -1 if there is none."""
        if (first := self._in_flight.first) is not None:
            return first.max_timestamp
        if self._fetched:
            return self._fetched[0].header.max_timestamp
        return frame.batches[0].header.max_timestamp if (frame := self._in_query.first) is not None else -1

    def unanswered_for(self, now: float) -> float:
        """Return for how many seconds batches have been in flight without an acknowledgement; 0 if none is."""
        return self._in_flight.unanswered_for(now)

    @property
    def _packed_to(self) -> int:
        """The source offset up to which all records are packed or copied."""
        last = self._in_flight.last
        return self.position if last is None else last.next_offset

    # -- memory

    def abandon(self) -> None:
        """The source task ends: release all bytes, and ignore what the query returns."""
        self._in_query.clear()
        self._release(self.held_bytes)

    def _release_all(self, batches: Iterable[SourceBatch | TargetBatch]) -> None:
        self._release(sum(batch.held_bytes for batch in batches))

    def _release(self, count: int) -> None:
        """``count`` bytes are no longer held; negative: more are."""
        if count:
            self.held_bytes -= count
            self._listener.release(count)
