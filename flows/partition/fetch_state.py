"""Where one partition is fetched from."""

from __future__ import annotations

from typing import Any

from flows.partition.health import PartitionMetrics
from flows.partition.held_batches import HeldBatches
from flows.partition.listener import PartitionListener
from flows.partition.rejection import Rejection
from flows.partition.timeouts import Timeouts
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import LossPolicy
from mm2.core.offsets.leader_epochs import EpochEnd
from mm2.core.offsets.start_offset import NoStartOffset, choose_offset, first_start
from mm2.core.settings.client import OffsetReset
from mm2.kafka.backoff import Backoff


class FetchState(HeldBatches):
    """The fetch offset of a partition, and why fetching is paused.

    (A) The batches that it holds contain all records from the position up to the fetch offset.
    (B) If the source's log was truncated, batches in flight and dead letters are completed before copying continues.
    """

    def __init__(
        self,
        lease: PartitionLease,
        listener: PartitionListener[Any],
        *,
        max_in_flight: int,
        max_held_bytes: int,
        source_backoff: Backoff,
        now: float,
        metrics: PartitionMetrics,
        policy: LossPolicy | None,
        timeouts: Timeouts,
    ) -> None:
        super().__init__(
            lease,
            listener,
            max_in_flight=max_in_flight,
            now=now,
            metrics=metrics,
            policy=policy,
            timeouts=timeouts,
        )
        self.is_full = False  # fetching waits for the target's acknowledgements
        self._report_loss = lambda loss: listener.lost(self, loss)
        self._topic_recreated = lease.topic_recreated
        self._unreadable: Rejection | None = None  # the batch at the fetch offset, once all before it is copied
        self._letter: Rejection | None = None  # is being written to the dead-letter topic
        self._fetched_to = lease.start_offset  # None: unknown
        self._fetch_paused_until: float | None = None
        self._source_backoff = source_backoff
        self._max_held_bytes = max_held_bytes
        self._awaits_roll_back = False
        self._memory_released = False  # as is_full, and everything fetched was dropped

    # -- fetch offset

    @property
    def fetch_offset(self) -> int | None:
        """The offset to fetch from; None while fetching is paused."""
        return self._fetched_to if self._may_fetch else None

    @property
    def is_fetched(self) -> bool:
        """Whether its end offset arrives with fetch responses; it need not while the partition drains."""
        return self._fetched_to is None or self._may_fetch or self.is_draining

    @property
    def needs_start_offset(self) -> bool:
        """Whether an offset has to be chosen before anything can be fetched."""
        return self._fetched_to is None and self._may_fetch

    @property
    def _may_fetch(self) -> bool:
        waits = self.is_full or self._memory_released or self._unreadable is not None
        is_paused = self._fetch_paused_until is not None or self._truncated_at is not None
        return not (self._is_halted or waits or is_paused)

    @property
    def has_fetched_all(self) -> bool:
        """Whether everything up to the last known end of the source is fetched."""
        return self._fetched_to is not None and self._fetched_to >= self.end_offset

    def reset_offset(
        self, policy: OffsetReset, earliest: int, latest: int, now: float, *, first: OffsetReset | int | None = None
    ) -> None:
        """Choose another offset: the partition has none, and ``first`` or ``policy`` decides as in `first_start`, or
        the source no longer has it."""
        if self._is_halted:
            return
        if self._topic_recreated and self.position == 0:
            policy = OffsetReset.EARLIEST
        before = self._fetched_to
        if before is None:
            start = first_start(policy, first, earliest=earliest, latest=latest)
        else:
            start = choose_offset(policy, before, earliest=earliest, latest=latest)
        if isinstance(start, NoStartOffset):
            self.fetch_failed(f"cannot fetch {self.source}: {start.reason}", now)
        elif start.lost is None or self.lose(*start.lost, start.reason, kind=start.kind):
            if before is None:
                self._start_chosen(start.offset)
                self._listener.start_chosen(self)
            if start.offset != before:
                self.epochs = ()  # offsets in between have other ones
                self._fetched_to = start.offset
                self._skip_to(start.offset, now, checked=start.earliest)
            self._listener.fetch_changed(self)

    def diverged(self, offset: int, end: EpochEnd) -> bool:
        """Continue where the logs part; return False if they do not before ``offset``, the fetch offset.

        ``end`` is the broker's answer for one of ``epochs``. Fetching continues at the first offset from which the logs
        can differ; the broker then checks again.
        """
        if offset != self.fetch_offset or not self._truncate(offset, end):
            return False
        self._fetch_succeeded()
        self._drop_fetched(self._packed_to)
        self._continue_after_truncation()
        self._listener.fetch_changed(self)
        return True

    def _continue_after_truncation(self) -> None:
        """Move to where the logs part, as soon as no batch is in flight and no dead letter is being written."""
        offset = self._truncated_at
        if offset is None or self._in_flight or self._letter is not None:
            return
        self._truncated_at = None
        self._in_flight.truncated(offset)
        if self._lose_end(offset):
            self._listener.truncated(self, offset)
        self._drop_fetched(self.position)
        self._listener.fetch_changed(self)

    def _skip_to(self, offset: int, now: float, *, checked: int) -> None:
        """Continue at ``offset`` after the fetched batches; skipped offsets from ``checked`` on may hold records."""
        self._skip(checked, offset)
        if (last := self._in_query.last or (self._fetched[-1] if self._fetched else None)) is not None:
            last.next_offset = offset
        else:
            self._skip_batch(offset)
            self._update_caught_up(now)
        self._listener.send_changed(self)  # it may have been the end of a batch that is repeated

    def _skip_batch(self, offset: int) -> None:
        """Continue at ``offset`` after the packed batches."""
        if (last := self._in_flight.last) is not None:
            last.next_offset = offset
        elif (checked := self._move_to(offset)).start < checked.end:
            self._health.copied_to(self.position)
            self._listener.skipped(self, checked)

    # -- pauses

    def _fetch_succeeded(self) -> None:
        self._health.fetch_succeeded()
        self._source_backoff.reset()

    def fetch_failed(self, message: str, now: float) -> None:
        """Set the state to FAILED, with occasional retries: fetching requires a change on the source."""
        self._health.fetch_failed(message)
        self._pause_fetch(self._timeouts.failed_retry_s, now)

    def fetch_delayed(self, message: str, now: float) -> None:
        """A fetch failed temporarily: back off."""
        self._health.fetch_delayed(message)
        self._pause_fetch(self._source_backoff.next(), now)

    def _pause_fetch(self, delay: float, now: float) -> None:
        """Fetch nothing for ``delay`` seconds, or until a longer pause ends, which wakes the producer, too."""
        self._fetch_paused_until = max(now + delay, self._fetch_paused_until or now)
        self._listener.fetch_changed(self)
        self._listener.wake_later(self, delay)

    # -- transactions

    def await_roll_back(self) -> None:
        """The transaction is being aborted: only await the responses in flight, whatever they are."""
        self._awaits_roll_back = True

    def roll_back_committed(self) -> None:
        """The last committed transaction is aborted, too: fetch its records again. Nothing may be in flight."""
        self._roll_back_committed()
        self.roll_back()

    def roll_back(self) -> None:
        """The transaction is aborted: fetch again from the committed position. Nothing may be in flight."""
        self._awaits_roll_back = False
        self._roll_back()
        self._release_all(self._in_flight.roll_back())
        if self.position >= 0:
            self._sent_to = self.position
            self._refetch()

    # -- batches

    @property
    def _has_fetched_repeated(self) -> bool:
        """Whether everything that has to be packed into a repeated batch is fetched."""
        return (self._fetched_to or 0) >= (self._in_flight.resend_boundary or 0)

    @property
    def _can_pack(self) -> bool:
        """Whether everything that has to be packed into a repeated batch is fetched, and through the query."""
        if (frame := self._in_query.first) is not None:
            return frame.start >= (self._in_flight.resend_boundary or 0)
        return self._has_fetched_repeated

    def drain(self) -> None:
        """Stop fetching and drop fetched batches that are not packed; see `is_idle`."""
        self.is_draining = True
        self._drop_fetched(self._packed_to)
        self._listener.fetch_changed(self)

    def _refetch(self) -> None:
        """Drop everything and fetch again from the position."""
        if self._in_flight.last_boundary is None:
            self._keep_sent_epochs()
        self._release_all(self._in_flight.clear())
        self._drop_fetched(self.position)
        self._memory_released = self.is_full = False
        self._continue_after_truncation()
        self._listener.fetch_changed(self)
        if self.is_draining and self.is_idle:
            self._listener.drained(self)

    def _drop_fetched(self, fetch_from: int) -> None:
        """Drop fetched batches that are not packed, and fetch again from ``fetch_from``."""
        self._release_all(self._fetched)
        self._release(self._in_query.clear())
        self._fetched.clear()
        self._unreadable = None
        self._fetched_to = fetch_from
        self._drop_epochs(fetch_from)

    # -- memory

    def release_memory(self) -> None:
        """Release all bytes and await the responses in flight. Other batches, and rejected ones, are fetched again."""
        if not self.held_bytes:
            return
        if not self._in_flight.in_flight:
            self._refetch()
            return
        self._drop_fetched(self._packed_to)
        self._release(self._in_flight.drop_payloads())
        self._memory_released, self.is_full = True, False
        self._listener.fetch_changed(self)

    def _fetch_if_room(self) -> None:
        """Fetch again if enough bytes were released, or too few are fetched; the position has moved."""
        has_room = self.held_bytes <= self._max_held_bytes // 2 or not self._has_fetched_repeated
        if self._memory_released or (self.is_full and has_room):
            self._memory_released = self.is_full = False
            self._listener.fetch_changed(self)
