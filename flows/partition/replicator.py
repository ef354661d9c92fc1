"""Replication of one partition from source to target."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from flows.batch.choice import BatchRules, Reason
from flows.batch.target_batch import ProducerId, SourceBatch, TargetBatch
from flows.partition.health import PartitionMetrics
from flows.partition.in_flight import InFlightBatch, InFlightBatches
from flows.partition.listener import PartitionListener
from flows.partition.packer import Packer, PackingError
from flows.partition.rejection import of_fetched_batch, of_source_batch
from flows.partition.rejection_state import RejectionState
from flows.partition.retry_state import RetryState
from flows.partition.timeouts import CORRUPT_ATTEMPTS, FAILED_RETRY_S, TIMER_TOLERANCE_S
from flows.source.completed_fetch import read_completed_fetch
from flows.source.offset_reset import NoStartOffset, choose_offset, first_start
from flows.target.produce_errors import ErrorAction, ProduceError, describe
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import LossPolicy
from mm2.core.offsets.leader_epochs import EpochEnd
from mm2.core.settings.client import OffsetReset
from mm2.kafka.backoff import Backoff
from mm2.kafka.protocol.fetch_request import FetchedPartition


class PartitionReplicator(RejectionState):
    """A state machine without I/O and clock.

    See `PartitionState` for its position and health, `LogPosition` for what is known of the source's log, and
    `RejectionState` for records that cannot be copied.

    (A) Fetched and in-flight batches contain all records from the position up to the fetch offset, in order. A fetch
        response for any other offset than ``fetch_offset`` is ignored.
    (B) ``held_bytes`` are counted in the lane's budget and released exactly once, with what rebuilt batches grew by.
    (C) A failed batch is retried, split, or cut until the records are alone that the target rejects. These are named in
        the health message, and left out only after they are in the dead-letter topic, or if an operator has asked to
        skip them. Everything before them is copied first, and nothing after them is sent before that is decided.
    (D) It copies one source topic: if that was recreated, another replicator takes over.
    (E) A batch that the target rejects as too large is split at the target's limit, which is read first, and later ones
        are packed smaller for some minutes, or until a failed partition is retried.
    (F) If the source's log was truncated, the batches in flight are completed before copying continues.
    """

    def __init__(
        self,
        lease: PartitionLease,
        listener: PartitionListener[PartitionReplicator],
        *,
        rules: BatchRules,
        max_in_flight: int,
        max_held_bytes: int,
        check_crcs: bool,
        dead_letters: str | None = None,
        source_backoff: Backoff,
        target_backoff: Backoff,
        counts: Counter[Reason],
        now: float,
        metrics: PartitionMetrics | None = None,
        policy: LossPolicy | None = None,
    ) -> None:
        """``dead_letters``: the topic for records that cannot be copied; None: they stop the partition."""
        super().__init__(lease, metrics or PartitionMetrics(), now, policy, dead_letters)
        self.held_bytes = 0
        self.is_full = False  # fetching waits for the target's acknowledgements
        self._listener = listener
        self._report_loss = lambda loss: listener.lost(self, loss)
        self._topic_recreated = lease.topic_recreated
        self._remote_end = 0  # the target offset after the last record with a known offset
        self._fetched: deque[SourceBatch] = deque()
        self._fetched_to = lease.start_offset  # None: unknown
        self._fetch_paused_until: float | None = None
        self._source_backoff = source_backoff
        self._check_crcs = check_crcs
        self._corrupt_fetches = 0
        self._max_held_bytes = max_held_bytes
        self._memory_released = False  # as is_full, and everything fetched was dropped
        # to the target
        self._in_flight = InFlightBatches(max_in_flight=max_in_flight, now=now)
        self._retry = RetryState(target_backoff)
        self._packer = Packer(rules, counts)
        self._too_large: TargetBatch | None = None  # nothing is sent until the target's limit is read
        self._size_error: ProduceError | None = None  # why the last batch was split

    # -- source

    @property
    def fetch_offset(self) -> int | None:
        """The offset to fetch from; None while fetching is paused."""
        return self._fetched_to if self._may_fetch else None

    @property
    def is_fetched(self) -> bool:
        """Whether its end offset arrives with fetch responses; it need not while the partition drains."""
        return self._fetched_to is None or self._may_fetch or self.is_draining

    def source_grew(self, end_offset: int, now: float) -> None:
        """The source has records up to ``end_offset``, as found out without a fetch."""
        self.end_offset = max(self.end_offset, end_offset)
        self._update_caught_up(now)

    @property
    def needs_start_offset(self) -> bool:
        """Whether an offset has to be chosen before anything can be fetched."""
        return self._fetched_to is None and self._may_fetch

    @property
    def _may_fetch(self) -> bool:
        waits = self.is_full or self._memory_released or self._unreadable is not None or self._letter is not None
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
        if self._fetched_to is None:
            start = first_start(policy, first, earliest=earliest, latest=latest)
        else:
            start = choose_offset(policy, self._fetched_to, earliest=earliest, latest=latest)
        if isinstance(start, NoStartOffset):
            self.fetch_failed(f"cannot fetch {self.source}: {start.reason}", now)
        elif start.lost is None or self.lose(*start.lost, start.reason, kind=start.kind):
            if self._fetched_to is None:
                self._start_chosen(start.offset)
                self._listener.start_chosen(self)
            if start.offset != self._fetched_to:
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
        self._health.fetch_succeeded()
        self._source_backoff.reset()
        self._drop_fetched(self._packed_to)
        self._continue_after_truncation()
        self._listener.fetch_changed(self)
        return True

    def _continue_after_truncation(self) -> None:
        """Move to where the logs part, as soon as no batch is in flight."""
        offset = self._truncated_at
        if offset is None or self._in_flight:
            return
        self._truncated_at = None
        self._in_flight.truncated(offset)
        if self._lose_end(offset):
            self._listener.truncated(self, offset)
        self._drop_fetched(self.position)
        self._listener.fetch_changed(self)

    def fetched(self, offset: int, answer: FetchedPartition, end_offset: int, now: float, wall: float) -> int:
        """Add a successful response to a fetch from ``offset``; returns how many of its bytes are held."""
        if offset != self.fetch_offset:
            return 0  # the offset has changed, or fetching was stopped
        self._health.fetch_succeeded()
        self._source_backoff.reset()
        if end_offset >= 0:
            self.end_offset = end_offset
        held = self._add_fetched(offset, answer, now, wall) if answer.records else 0
        self._update_caught_up(now)
        return held

    def _add_fetched(self, offset: int, answer: FetchedPartition, now: float, wall: float) -> int:
        fetch = read_completed_fetch(answer, offset, self.epochs, check_crcs=self._check_crcs, arrived=wall)
        self._fetched_to = fetch.next_offset
        self._set_epochs(fetch.epochs, self._in_flight.last_boundary)
        if self._truncated_at is not None:
            self._drop_fetched(self._packed_to)
            self._continue_after_truncation()
            return 0
        if fetch.skipped_to is not None:
            self._skip_to(fetch.skipped_to, now, checked=fetch.skipped_to)
        held = 0
        if fetch.batches:
            held = fetch.batches[-1].held_bytes
            self.held_bytes += held
            self._fetched.extend(fetch.batches)
            self.is_full = self.held_bytes >= self._max_held_bytes and self._can_pack
            self._metrics.fetched(fetch.batches)
            self._listener.send_changed(self)
        if fetch.next_offset > offset:
            self._corrupt_fetches = 0
        elif fetch.error is not None:
            self._corrupt_fetches += 1
            message = f"cannot fetch {self.source}: {fetch.error}"
            if self._corrupt_fetches < CORRUPT_ATTEMPTS:
                self.fetch_delayed(message, now)
            elif fetch.unreadable is not None:
                self._found_unreadable(of_fetched_batch(self.source, fetch.unreadable, message), now)
            else:
                self._rejection = None
                self._health.copy_failed(offset, message)
                self._pause_fetch(FAILED_RETRY_S, now)
        return held

    def fetch_failed(self, message: str, now: float) -> None:
        """Set the state to FAILED, with occasional retries: fetching requires a change on the source."""
        self._health.fetch_failed(message)
        self._pause_fetch(FAILED_RETRY_S, now)

    def fetch_delayed(self, message: str, now: float) -> None:
        """A fetch failed temporarily: back off."""
        self._health.fetch_delayed(message)
        self._pause_fetch(self._source_backoff.next(), now)

    def _pause_fetch(self, delay: float, now: float) -> None:
        self._fetch_paused_until = now + delay
        self._listener.fetch_changed(self)
        self._listener.wake_later(self, delay)

    def wake(self, now: float) -> None:
        """A pause may be over."""
        if self._fetch_paused_until is not None and now >= self._fetch_paused_until - TIMER_TOLERANCE_S:
            self._fetch_paused_until = None
            if self._health.is_failed:
                self._packer.forget_rejections()
            self._listener.fetch_changed(self)
        self._listener.send_changed(self)

    # -- target

    def set_producer_id(self, producer_id: ProducerId) -> None:
        """Send with this producer id, which has never written to the remote partition."""
        self._in_flight.set_producer_id(producer_id)
        self._listener.send_changed(self)

    @property
    def needs_producer_id(self) -> bool:
        return self._in_flight.producer_id is None

    @property
    def is_retrying(self) -> bool:
        """Whether the target rejected the last batch, or did not answer."""
        return self._retry.is_retrying

    @property
    def batches_in_flight(self) -> int:
        return self._in_flight.in_flight

    @property
    def is_idle(self) -> bool:
        """Whether nothing is buffered or in flight."""
        return not self._in_flight and not self._fetched and self._letter is None

    @property
    def oldest_pending(self) -> int:
        """Largest timestamp (epoch ms) of the first batch buffered or in flight; -1 if there is none."""
        if (first := self._in_flight.first) is not None:
            return first.max_timestamp
        return self._fetched[0].header.max_timestamp if self._fetched else -1

    def unanswered_for(self, now: float) -> float:
        """Return for how many seconds batches have been in flight without an acknowledgement; 0 if none is."""
        return self._in_flight.unanswered_for(now)

    @property
    def has_unsent(self) -> bool:
        return self._in_flight.has_unsent or (bool(self._fetched) and self._can_pack)

    @property
    def _can_pack(self) -> bool:
        """Whether everything that has to be packed into a repeated batch is fetched."""
        return (self._fetched_to or 0) >= (self._in_flight.resend_boundary or 0)

    @property
    def _packed_to(self) -> int:
        """The source offset up to which all records are packed or copied."""
        last = self._in_flight.last
        return self.position if last is None else last.next_offset

    def can_send(self, now: float) -> bool:
        """Return whether `next_batch` would return a batch."""
        if self._too_large is not None or self._letter is not None:
            return False
        return self.has_unsent and self._retry.may_send(now) and self._in_flight.can_send

    def next_batch(self, now: float) -> InFlightBatch | None:
        """Return the next batch to send, if `can_send`; None if the fetched batches contain no records to copy."""
        self._in_flight.probe_after_silence(now)
        while not self._in_flight.has_unsent:
            if not self.has_unsent:
                return None
            try:
                self._pack(now)
            except PackingError as error:
                wanted, source = self._packed_to, error.source
                self._drop_fetched(wanted)
                if source is not None:
                    self._found_unreadable(
                        of_source_batch(self.source, self.target, source, wanted, str(error), expected=error.expected),
                        now,
                    )
                return None
        entry = self._in_flight.send(now)
        self._sent_to = max(self._sent_to, entry.batch.next_offset)
        return entry

    def _pack(self, now: float) -> None:
        """Pack the next batch from the fetched batches. Raises PackingError."""
        boundary, is_long_link = self._in_flight.resend_boundary, self._in_flight.is_long_link
        packed, grown = self._packer.pack(self._fetched, self._packed_to, boundary, now, is_long_link=is_long_link)
        self._release(-grown)
        self._in_flight.append(packed.batches, resend=boundary is not None)
        if not packed.batches:
            self._release_all(packed.taken)
            for source in packed.taken:
                self._skip_batch(source.next_offset)
            self._update_caught_up(now)

    def acknowledged(self, entry: InFlightBatch, base_offset: int, now: float, wall: float) -> None:
        """The target has the batch, from ``base_offset`` on (-1: unknown)."""
        for done in self._in_flight.acknowledged(entry, base_offset, now):
            batch, base_offset = done.batch, done.base_offset
            checked = self._copied(batch)
            self._release(batch.held_bytes)
            self._metrics.copied(batch, wall)
            self._listener.acknowledged(self, batch, base_offset, checked)
            if base_offset >= 0:
                if base_offset < self._remote_end:
                    self._listener.remote_end_moved_back(self)
                self._remote_end = base_offset + batch.count
        self._advanced(now)
        self._answered(now)
        if self._unreadable is not None:
            self._reach_unreadable(now)
        self._continue_after_truncation()
        self._listener.send_changed(self)
        if self.is_draining and self.is_idle:
            self._listener.drained(self)

    def _advanced(self, now: float) -> None:
        """The position moved: nothing before it is a problem any more."""
        self._retry.reset()
        self._health.copied_to(self.position)
        self._update_caught_up(now)
        if self._memory_released or (self.is_full and self.held_bytes <= self._max_held_bytes // 2):
            self._memory_released = self.is_full = False
            self._listener.fetch_changed(self)

    def leader_changed(self) -> None:
        """The remote partition has a new leader: end the pause after failed attempts, unless it is FAILED."""
        if self.is_retrying and not self._health.is_failed:
            self._retry.end_backoff()
            self.wake(float("inf"))

    def produce_failed(self, entry: InFlightBatch, error: ProduceError, now: float) -> None:
        """The target does not have the batch, or did not answer."""
        self._in_flight.failed(entry, error)
        self._answered(now)

    def leader_unavailable(self, error: ProduceError, now: float) -> None:
        """There is no leader to send to."""
        if not self._in_flight.in_flight:  # otherwise the responses in flight are more informative
            self._handle_error(error, None, now)

    def _answered(self, now: float) -> None:
        if self._in_flight.is_settled:
            error, batch = self._in_flight.settle(), self._in_flight.first
            if error is not None and batch is not None:
                self._handle_error(error, batch, now)
            self._listener.send_changed(self)
        if self._in_flight.needs_refetch:
            self._refetch()

    def _handle_error(self, error: ProduceError, batch: TargetBatch | None, now: float) -> None:
        match error.action:
            case ErrorAction.RETRY if not self._retry.is_exhausted(error, now):
                self._retry_later(error, batch, now)
            case ErrorAction.NEW_PRODUCER_ID if batch is not None:
                self._in_flight.clear_producer_id()
                self._retry_later(error, batch, now)
            case ErrorAction.DISABLE_IDEMPOTENCE:
                self._in_flight.clear_producer_id()
            case ErrorAction.SPLIT if batch is not None and batch.count > 1:
                self._size_error = error
                if self._packer.reject_size(batch):
                    self._split_first(now)
                else:
                    self._too_large = batch
                    self._listener.size_rejected(self)
            case ErrorAction.RECODE if batch is not None and self._packer.reject_codec(batch.codec, now):
                self._refetch()
            case _ if batch is not None and error.concerns_records:
                if not self._in_flight.needs_refetch:
                    self._isolate(batch, error, now)
            case _:
                offset = self.position if batch is None else batch.first_offset
                self._retry.record_failure(now)
                self._fail(offset, describe(self.source, self.target, batch, error), now)

    def size_limit_read(self, limit: int | None, now: float) -> None:
        """The target's limit of a batch in bytes, asked for by `PartitionListener.size_rejected`; None: unknown."""
        rejected, self._too_large = self._too_large, None
        if rejected is not None:
            self._packer.set_size_limit(rejected, limit, now)
            self._split_first(now)
            self._listener.send_changed(self)

    def _split_first(self, now: float) -> None:
        """Split the first batch, which is not in flight, at the known limit."""
        first, error = self._in_flight.first, self._size_error
        if first is not None and error is not None and not self._in_flight.needs_refetch:
            self._take_apart(first, error, self._packer.split, now)  # otherwise once it is fetched and packed again

    def _retry_later(self, error: ProduceError, batch: TargetBatch | None, now: float) -> None:
        self._retry.record_failure(now)
        message = describe(self.source, self.target, batch, error)
        self._health.produce_delayed(message, prolonged=self._retry.is_prolonged)
        delay = self._retry.back_off(now)
        if self._retry.is_stuck and not self.is_draining:  # make room for other partitions
            self._refetch()
            self._pause_fetch(self._retry.fetch_delay(delay), now)
        else:
            self._listener.wake_later(self, delay)

    # -- both

    def release_memory(self) -> None:
        """Release all bytes and await the responses in flight. Other batches, and rejected ones, are fetched again."""
        if not self._in_flight.in_flight:
            self._refetch()
            return
        self._drop_fetched(self._packed_to)
        self._release(self._in_flight.drop_payloads())
        self._memory_released, self.is_full = True, False
        self._listener.fetch_changed(self)

    def drain(self) -> None:
        """Stop fetching and drop fetched batches that are not packed; see `is_idle`."""
        self.is_draining = True
        self._drop_fetched(self._packed_to)
        self._listener.fetch_changed(self)

    def abandon(self) -> None:
        """The source task ends: release all bytes."""
        self._release(self.held_bytes)

    def _refetch(self) -> None:
        """Drop everything and fetch again from the position."""
        if self._in_flight.last_boundary is None:
            self._keep_sent_epochs()
        self._release_all(self._in_flight.clear())
        self._drop_fetched(self.position)
        self._memory_released = self.is_full = False
        self._continue_after_truncation()
        self._listener.fetch_changed(self)
        if self.is_draining:
            self._listener.drained(self)

    def _drop_fetched(self, fetch_from: int) -> None:
        self._release_all(self._fetched)
        self._fetched.clear()
        self._unreadable = None
        self._fetched_to = fetch_from
        self._drop_epochs(fetch_from)

    def _skip_to(self, offset: int, now: float, *, checked: int) -> None:
        """Continue at ``offset`` after the fetched batches; skipped offsets from ``checked`` on may hold records."""
        self._skip(checked, offset)
        if self._fetched:
            self._fetched[-1].next_offset = offset
        else:
            self._skip_batch(offset)
            self._update_caught_up(now)

    def _skip_batch(self, offset: int) -> None:
        """Continue at ``offset`` after the packed batches."""
        if (last := self._in_flight.last) is not None:
            last.next_offset = offset
        elif (checked := self._move_to(offset)).start < checked.end:
            self._listener.skipped(self, checked)

    def _release_all(self, batches: Iterable[SourceBatch | TargetBatch]) -> None:
        self._release(sum(batch.held_bytes for batch in batches))

    def _release(self, count: int) -> None:
        if count:
            self.held_bytes -= count
            self._listener.release(count)
