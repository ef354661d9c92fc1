"""Replication of one partition from source to target."""

from __future__ import annotations

import logging
from collections import Counter

from flows.batch.choice import BatchRules, Reason
from flows.batch.steps import IsOver, never
from flows.batch.target_batch import ProducerId, TargetBatch
from flows.partition.frames_in_query import FRAME_BYTES
from flows.partition.health import PartitionMetrics
from flows.partition.in_flight import InFlightBatch
from flows.partition.listener import PartitionListener
from flows.partition.packer import Packer, PackingError
from flows.partition.query_state import QueryState
from flows.partition.rejection import of_fetched_batch, of_source_batch
from flows.partition.row_transform import RowTransform
from flows.partition.timeouts import CORRUPT_ATTEMPTS, TIMEOUTS, TIMER_TOLERANCE_S, Timeouts
from flows.source.completed_fetch import read_completed_fetch
from flows.target.produce_errors import ErrorAction, ProduceError, describe, not_sendable
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import LossPolicy
from mm2.kafka.backoff import Backoff
from mm2.kafka.protocol.fetch_request import FetchedPartition

log = logging.getLogger("mm2.replicator")


class PartitionReplicator(QueryState):
    """A state machine without I/O and clock: what arrives from the source is packed and sent to the target.

    See `PartitionState` for its position and health, `LogPosition` for what it knows of the source's log, `HeldBatches`
    for the batches that it holds, `FetchState` for its fetch offset, `RejectionState` for records that cannot be
    copied, and `QueryState` for the query that records pass through.

    (A) Of a fetch response for any other offset than ``fetch_offset``, only the end offset counts.
    (B) A failed batch is retried, split, or cut until the records are alone that the target rejects (`RejectionState`).
    (C) A batch that the target rejects as too large is split at the target's limit, which is read first, and later ones
        are packed smaller for some minutes, or until a failed partition is retried.
    (D) It copies one source topic: if that was recreated, another replicator takes over.
    (E) No error while a batch is packed, numbered or stamped is raised: it stops this partition, with the reason.
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
        transform: RowTransform | None = None,
        frame_bytes: int = FRAME_BYTES,
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        """``dead_letters``: the topic for records that cannot be copied; None: they stop the partition. ``transform``:
        the query that the records pass through, in frames of about ``frame_bytes`` bytes."""
        super().__init__(
            lease,
            listener,
            packer=Packer(rules, counts, rejection_memory_s=timeouts.rejection_memory_s),
            max_in_flight=max_in_flight,
            max_held_bytes=max_held_bytes,
            dead_letters=dead_letters,
            source_backoff=source_backoff,
            target_backoff=target_backoff,
            now=now,
            metrics=metrics or PartitionMetrics(),
            policy=policy,
            transform=transform,
            frame_bytes=frame_bytes,
            timeouts=timeouts,
        )
        self._check_crcs = check_crcs
        self._corrupt_fetches = 0
        self.remote_end = 0  # the target offset after the last record with a known offset
        self._too_large: TargetBatch | None = None  # nothing is sent until the target's limit is read
        self._size_error: ProduceError | None = None  # why the last batch was split

    # -- source

    def fetched(self, offset: int, answer: FetchedPartition, end_offset: int, now: float, wall: float) -> int:
        """Add a successful response to a fetch from ``offset``; returns how many of its bytes are held."""
        self.end_observed(end_offset, now)  # in any case: the fetch session does not repeat it while it is unchanged
        if offset != self.fetch_offset:
            return 0  # the offset has changed, or fetching was stopped
        self._fetch_succeeded()
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
            self._take(fetch.batches, offset)
            self.is_full = self.held_bytes >= self._max_held_bytes and self._has_fetched_repeated
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
                self._pause_fetch(self._timeouts.failed_retry_s, now)
        return held

    def wake(self, now: float) -> None:
        """A pause may be over."""
        if self._fetch_paused_until is not None and now >= self._fetch_paused_until - TIMER_TOLERANCE_S:
            self._fetch_paused_until = None
            if self._health.is_failed:
                self._packer.forget_rejections()
            self._listener.fetch_changed(self)
        self._listener.send_changed(self)

    # -- target

    def committed(self, offset: int) -> None:
        """``offset``, a former value of `offset_to_commit`, is stored."""
        awaited = self._awaits_start
        super().committed(offset)
        if awaited:
            self._listener.send_changed(self)

    def set_producer_id(self, producer_id: ProducerId) -> None:
        """Send with this producer id, which has never written to the remote partition."""
        self._in_flight.set_producer_id(producer_id)
        self._listener.send_changed(self)

    @property
    def needs_producer_id(self) -> bool:
        """Whether nothing can be sent before `set_producer_id`, which may be called now."""
        return self._in_flight.producer_id is None and not self._in_flight.in_flight

    @property
    def is_retrying(self) -> bool:
        """Whether the target rejected the last batch, or did not answer."""
        return self._retry.is_retrying

    @property
    def awaits_retry(self) -> bool:
        """Whether the last attempt failed, also while others that were in flight with it are not answered."""
        return self._retry.is_retrying or self._in_flight.has_failed

    @property
    def has_unsent(self) -> bool:
        return self._in_flight.has_unsent or (bool(self._fetched) and self._can_pack)

    def can_send(self, now: float) -> bool:
        """Return whether `next_batch` would return a batch."""
        if self._awaits_start or self._too_large is not None or self._letter is not None or self._awaits_roll_back:
            return False
        return self.has_unsent and self._retry.may_send(now) and self._in_flight.can_send

    def next_batch(self, now: float, is_over: IsOver = never) -> InFlightBatch | None:
        """Return the next batch to send, if `can_send`.

        Returns None if the fetched batches contain no records to copy, or cannot be packed, and if the turn is over
        before the batch is packed: then `is_packing`, and the next call continues.
        """
        self._in_flight.probe_after_silence(now)
        if not (self._divide(is_over, now) and self._pack_next(now, is_over)):
            return None
        try:
            entry = self._in_flight.send(now)
        except Exception as error:
            log.exception("unexpected error while stamping a batch of %s for %s", self.source, self.target)
            self._in_flight.cannot_send(not_sendable(error))
            self._answered(now)
            return None
        self._sent_to = max(self._sent_to, entry.batch.next_offset)
        return entry

    def _pack_next(self, now: float, is_over: IsOver) -> bool:
        """Pack batches until one waits to be sent; return whether it can be sent now."""
        while not self._in_flight.has_unsent:
            if not self.has_unsent or not self._pack(now, is_over):
                return False
        if self._in_flight.producer_id is None:  # a batch cannot be repeated, see `InFlightBatches.append`
            self._listener.send_changed(self)
            return False
        return True

    def _pack(self, now: float, is_over: IsOver) -> bool:
        """Pack the next batch from the fetched batches; return whether it is done."""
        boundary, is_long_link = self._in_flight.resend_boundary, self._in_flight.is_long_link
        try:
            result = self._packer.pack(
                self._fetched, self._packed_to, boundary, now, is_long_link=is_long_link, is_over=is_over
            )
        except PackingError as error:
            wanted, source = self._packed_to, error.source
            self._drop_fetched(wanted)
            if source is not None:
                text, expected = str(error), error.expected
                self._found_unreadable(
                    of_source_batch(self.source, self.target, source, wanted, text, expected=expected), now
                )
            return False
        if result is None:
            return False
        packed, grown = result
        self._release(-grown)
        self._in_flight.append(packed.batches, resend=boundary is not None)
        if not packed.batches:
            self._release_all(packed.taken)
            for source in packed.taken:
                self._skip_batch(source.next_offset)
            self._update_caught_up(now)
            self._fetch_if_room()
            self._reach_unreadable(now)
        return True

    def acknowledged(self, entry: InFlightBatch, base_offset: int, now: float, wall: float) -> None:
        """The target has the batch, from ``base_offset`` on (-1: unknown)."""
        for done in self._in_flight.acknowledged(entry, base_offset, now):
            batch, base_offset = done.batch, done.base_offset
            checked = self._copied(batch)
            self._release(batch.held_bytes)
            self._count(batch, wall)
            self._listener.acknowledged(self, batch, base_offset, checked)
            if base_offset >= 0:
                if base_offset < self.remote_end:
                    self._listener.remote_end_moved_back(self)
                self.remote_end = base_offset + batch.count
        self._advanced(now)
        self._answered(now)
        self._reach_unreadable(now)
        self._continue_after_truncation()
        self._listener.send_changed(self)
        if self.is_draining and self.is_idle:
            self._listener.drained(self)

    def leader_changed(self) -> None:
        """The remote partition has a new leader: end the pause after failed attempts, unless it is FAILED."""
        if self.is_retrying and not self._health.is_failed:
            self._retry.leader_changed()
            self.wake(float("inf"))

    def produce_failed(self, entry: InFlightBatch, error: ProduceError, now: float) -> None:
        """The target does not have the batch, or did not answer."""
        self._in_flight.failed(entry, error)
        self._answered(now)

    def leader_unavailable(self, error: ProduceError, now: float) -> None:
        """There is no leader to send to."""
        if not self._in_flight.in_flight:  # otherwise the responses in flight are more informative
            self._in_flight.send_alone()  # on the connection for retries: a second batch would overtake it
            self._handle_error(error, None, now)

    def _answered(self, now: float) -> None:
        if self._in_flight.is_settled:
            error, batch = self._in_flight.settle(), self._in_flight.first
            if error is not None and batch is not None and not self._awaits_roll_back:
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
            self._take_apart(first, error, self._packer.split(first))  # otherwise once it is fetched and packed again

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
