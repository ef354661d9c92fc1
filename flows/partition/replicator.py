"""Replication of one partition from source to target."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from flows.batch.steps import IsOver, never
from flows.batch.target_batch import ProducerId, SourceBatch, TargetBatch, WrittenBatch, runs_end
from flows.partition.frames_in_query import FrameInQuery, FrameResult
from flows.partition.in_flight import InFlightBatch
from flows.partition.packer import PackingError
from flows.partition.rejection import (
    Rejection,
    Stage,
    of_fetched_batch,
    of_record,
    of_rejected_batch,
    of_source_batch,
)
from flows.partition.state import FetchPause, OffsetRange, PartitionState
from flows.partition.timeouts import CORRUPT_ATTEMPTS, TIMER_TOLERANCE_S
from flows.source.completed_fetch import read_completed_fetch
from flows.target.produce_errors import ErrorAction, ProduceError, describe, not_sendable
from mm2.core.lanes.losses import Loss, LossKind
from mm2.core.offsets.leader_epochs import EpochEnd
from mm2.core.offsets.start_offset import NoStartOffset, choose_offset, first_start
from mm2.core.settings.client import OffsetReset
from mm2.kafka.protocol.fetch_request import FetchedPartition

log = logging.getLogger(__name__)


class PartitionReplicator(PartitionState):
    """A state machine without I/O and clock: what arrives from the source is packed and sent to the target.

    Its state, its steps and their invariants are in `PartitionState`. Here is what happens to it, in the order in which
    records pass: start and truncation, fetching, the query, packing and sending, answers of the target, records that
    cannot be copied, offset commits, transactions, memory, and the way out. Fetcher, producer, query, committer and
    source task call it, all on the event loop of its lane.

    (K) Of a fetch response for any other offset than ``fetch_offset``, only the end offset counts.
    (L) If the source's log was truncated, batches in flight and dead letters are completed before copying continues.
    (M) A failed batch is retried, split, or cut until the records are alone that the target rejects. They are named in
        the message, and left out only after they are in the dead-letter topic, or if an operator has asked to skip
        them. Everything before them is copied first, and nothing after them is sent before that is decided.
    (N) A batch that the target rejects as too large is split at the target's limit, which is read first, and later ones
        are packed smaller for some minutes, or until a failed partition is retried.
    (O) It copies one source topic: if that was recreated, another replicator takes over.
    (P) No error while a batch is packed, numbered or stamped is raised: it stops this partition, with the reason.
    (Q) Results of the query are applied in the order of the source; those of frames that were dropped meanwhile are
        ignored. A frame that is fetched again gives the same records (queries are deterministic), so that batches which
        the target may have are repeated with the same sequences.
    (R) The position moves over records that the query drops like over copied ones; a dropped tail does not open a
        transaction. Records after one for which the query failed wait until that is decided.
    (S) A frame can return in parts, each with records that follow those of the one before. What is after the last part
        is fetched again if the rest of the frame cannot be decoded.
    """

    # -- the source's state, as the fetcher finds it

    def source_unavailable(self, message: str, *, prolonged: bool = False) -> None:
        """The source broker does not answer, or rejects requests; the caller decides when to retry."""
        self._health.fetch_delayed(message, prolonged=prolonged)

    def source_available(self) -> None:
        """The source broker answers again, though possibly without data of this partition."""
        if self._health.is_waiting_for_source:
            self._health.fetch_succeeded()

    def fetch_failed(self, message: str, now: float) -> None:
        """Set the state to FAILED, with occasional retries: fetching requires a change on the source."""
        self._health.fetch_failed(message)
        self._pause_fetch(self._options.timeouts.failed_retry_s, message, now)

    def fetch_delayed(self, message: str, now: float) -> None:
        """A fetch failed temporarily: back off."""
        self._health.fetch_delayed(message)
        self._pause_fetch(self._source_backoff.next(), message, now)

    def _pause_fetch(self, delay: float, reason: str, now: float) -> None:
        """Fetch nothing for ``delay`` seconds, or until a longer pause ends, which wakes the producer, too."""
        until = now + delay
        self._pause = FetchPause(until if self._pause is None else max(until, self._pause.until), reason)
        self._fetch_changed(now)
        self._callbacks.wake_later(self, delay)

    def _fetch_changed(self, now: float) -> None:
        self._note_fetch_step(now)
        self._callbacks.fetch_changed(self)

    def _fetch_succeeded(self, now: float) -> None:
        self._health.fetch_succeeded()
        self._source_backoff.reset()
        self._story.advanced(self._story.fetching, now)

    def wake(self, now: float) -> None:
        """A pause may be over."""
        if self._pause is not None and now >= self._pause.until - TIMER_TOLERANCE_S:
            self._end_pause(now)
        self._callbacks.send_changed(self)

    def _end_pause(self, now: float) -> None:
        self._pause = None
        if self._health.is_failed:
            self._packer.forget_rejections()
        self._fetch_changed(now)

    # -- start and truncation

    def reset_offset(
        self, policy: OffsetReset, earliest: int, latest: int, now: float, *, first: OffsetReset | int | None = None
    ) -> None:
        """Choose another offset: the partition has none, and ``first`` or ``policy`` decides as in `first_start`, or
        the source no longer has it."""
        if self._is_halted:
            return
        self._now = now
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
                self._awaits_start = True
                self._last_copied = start.offset - 1
                self._story.started(f"started at offset {start.offset}, as no offset is stored", now)
                self._callbacks.start_chosen(self)
            if start.offset != before:
                self._log.forget()  # offsets in between have other ones
                self._fetched_to = start.offset
                self._skip_to(start.offset, now, checked=start.earliest)
            self._fetch_changed(now)

    @property
    def _is_halted(self) -> bool:
        return self.is_draining or self.stopped_by is not None

    def forget_epochs(self) -> None:
        """The source knows none of the leader epochs of the fetched records: they tell nothing about a truncation."""
        self._log.distrust()

    def diverged(self, offset: int, end: EpochEnd, now: float) -> bool:
        """Continue where the logs part; return False if they do not before ``offset``, the fetch offset.

        ``end`` is the broker's answer for one of ``epochs``. Fetching continues at the first offset from which the logs
        can differ; the broker then checks again.
        """
        if offset != self.fetch_offset or not self._log.diverged(offset, end):
            return False
        self._fetch_succeeded(now)
        self._drop_fetched(self._packed_to)
        self._continue_after_truncation(now)
        self._fetch_changed(now)
        return True

    def _continue_after_truncation(self, now: float) -> None:
        """Move to where the logs part, as soon as no batch is in flight and no dead letter is being written: (L)."""
        offset = self._log.truncated_at
        if offset is None or self._in_flight or self._pending_dead_letter is not None:
            return
        self._log.truncated_at = None
        self._in_flight.truncated(offset)
        if self._lose_end(offset):
            self._callbacks.truncated(self, offset)
        self._drop_fetched(self.position)
        self._fetch_changed(now)

    def _lose_end(self, offset: int) -> bool:
        """The source lost its records from ``offset`` on: move back to it, and return whether the position changed.

        It does not while the loss waits for acceptance; the truncation is then noticed again.
        """
        sent_to = self._log.sent_to
        if offset < sent_to:
            reason = (
                f"the source's log was truncated at offset {offset}: it does not have the records up to offset"
                f" {sent_to - 1} any more that were sent to the target"
            )
            if not self.lose(offset, sent_to, reason, kind=LossKind.TRUNCATED):
                return False
            self._log.sent_to = offset
        self._health.truncated(offset)
        if offset >= self.position:
            return False
        self._move_back(offset)
        return True

    # -- fetched

    def fetched(self, offset: int, answer: FetchedPartition, end_offset: int, now: float, wall: float) -> int:
        """Add a successful response to a fetch from ``offset``; returns how many of its bytes are held."""
        self.end_observed(end_offset, now)  # in any case: the fetch session does not repeat it while it is unchanged
        if offset != self.fetch_offset:
            return 0  # the offset has changed, or fetching was stopped
        self._now = now
        self._fetch_succeeded(now)
        held = self._add_fetched(offset, answer, now, wall) if answer.records else 0
        self._update_caught_up(now)
        return held

    def _add_fetched(self, offset: int, answer: FetchedPartition, now: float, wall: float) -> int:
        fetch = read_completed_fetch(answer, offset, self.epochs, check_crcs=self._options.check_crcs, arrived=wall)
        self._fetched_to = fetch.next_offset
        self._log.fetched(fetch.epochs, self.position, self._in_flight.last_boundary)
        if self._log.truncated_at is not None:
            self._drop_fetched(self._packed_to)
            self._continue_after_truncation(now)
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
            self._callbacks.send_changed(self)
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
                self._pause_fetch(self._options.timeouts.failed_retry_s, message, now)
        return held

    def expect_responses_of(self, count: int) -> None:
        """Responses have up to ``count`` bytes of this partition: one may be held while the next one is under way."""
        options = self._options
        self._max_held_bytes = max(options.max_held_bytes, min(2 * count, options.most_held_bytes))

    def _take(self, batches: list[SourceBatch], start: int) -> None:
        """Take batches fetched from ``start``: they are ready, or pass through the query first."""
        transform = self._options.transform
        if transform is None:
            self._fetched.extend(batches)
            return
        size = self._options.frame_bytes if start >= self._one_by_one_until else 0
        for frame in list(self._in_query.add(batches, start, size)):
            transform.submit(self, frame)

    def _skip_to(self, offset: int, now: float, *, checked: int) -> None:
        """Continue at ``offset`` after the fetched batches; skipped offsets from ``checked`` on may hold records."""
        self._skip(checked, offset)
        if (last := self._in_query.last or (self._fetched[-1] if self._fetched else None)) is not None:
            last.next_offset = offset
        else:
            self._skip_batch(offset)
            self._update_caught_up(now)
        self._callbacks.send_changed(self)  # it may have been the end of a batch that is repeated

    def _skip_batch(self, offset: int) -> None:
        """Continue at ``offset`` after the packed batches."""
        if (last := self._in_flight.last) is not None:
            last.next_offset = offset
        elif (checked := self._move_to(offset)).start < checked.end:
            self._health.copied_to(self.position)
            self._callbacks.skipped(self, checked)

    def _found_unreadable(self, rejection: Rejection, now: float) -> None:
        """The next batch cannot be read, and nothing after it is fetched."""
        self._in_flight.truncated(rejection.first)  # batches with it or later records cannot be repeated
        self._unreadable = rejection
        self._health.fetch_delayed(rejection.message)
        self._fetch_changed(now)
        self._reach_unreadable(now)

    def _reach_unreadable(self, now: float) -> None:
        rejection = self._unreadable
        if rejection is not None and not (self._in_flight or self._fetched or self._in_query):
            self._unreadable = None
            self._reject(rejection, now)

    def _refetch(self, now: float) -> None:
        """Drop everything and fetch again from the position."""
        if self._in_flight.last_boundary is None:
            self._log.keep_sent()
        self._release_all(self._in_flight.clear())
        self._drop_fetched(self.position)
        self._memory_released = self.is_full = False
        self._continue_after_truncation(now)
        self._fetch_changed(now)
        self._report_drained()

    def _drop_fetched(self, fetch_from: int) -> None:
        """Drop fetched batches that are not packed, and fetch again from ``fetch_from``."""
        self._packer.abandon()
        self._release_all(self._fetched)
        self._fetched.clear()
        self._unreadable = None
        self._fetch_again_from(fetch_from)

    def _fetch_again_from(self, offset: int) -> None:
        """Drop everything that has not passed through the query, from ``offset`` on."""
        self._release(self._in_query.clear())
        self._fetched_to = offset
        self._log.fetch_from(offset)

    # -- the query

    def writing(self, frame: FrameInQuery, now: float) -> bool:
        """The transform writes the records of this frame from now on. Return False if its result is not awaited."""
        if not self._in_query.has(frame.number):
            return False
        if not self._in_query.is_started:
            self._unanswered_since = now
        self._in_query.started(frame.number)
        self._log.sent_to = max(self._log.sent_to, frame.next_offset)
        return True

    def transformed(self, number: int, result: FrameResult, now: float) -> None:
        """The frame with this number has passed through the query."""
        if result.is_part:
            self._add_part(number, result.written, now)
            return
        frame = self._in_query.complete(number)
        if frame is None:
            return
        self._unanswered_since = now
        failed, written = result.failed, result.written
        if result.routed:
            until = frame.next_offset if failed is None else failed.first
            until = until if result.again_from is None else result.again_from
            whole = [batch for batch in frame.batches if batch.header.next_offset <= until]  # others come again
            self._metrics.routed(whole, result.routed)
        if result.unreadable is not None:
            if result.again_from is not None:
                self._pass_over(result.again_from)
                frame = replace(frame, start=result.again_from)
            self._undecodable(frame, result.unreadable, now)
        elif failed is None:
            until = frame.next_offset if result.again_from is None else result.again_from
            self._add_written(frame, written, until)
            self._count_rows(frame.records(until), written)
            if result.again_from is not None:
                self._fetch_again_from(until)
                self._fetch_changed(now)
        else:
            self._add_written(frame, written, failed.first)
            self._count_rows(frame.records(failed.first), written)
            self._fetch_again_from(failed.until)  # if it is left out; the leader epochs before that are known
            self._found_unreadable(failed, now)
        self._update_caught_up(now)
        self._fetch_if_room(now)
        self._reach_unreadable(now)
        self._callbacks.send_changed(self)
        self._report_drained()

    def _add_part(self, number: int, written: WrittenBatch | None, now: float) -> None:
        self._unanswered_since = now
        if written is None:
            return  # a transform that writes itself
        until = runs_end(written.runs)
        frame = self._in_query.advance(number, until)
        if frame is None:
            return
        size = len(written.data)
        self._release(-size)
        arrived = frame.batches[-1].arrived
        self._fetched.append(SourceBatch(written.header, written.data, until, size, arrived, written.runs))
        self._count_rows(frame.records(until), written)
        self._update_caught_up(now)
        self._callbacks.send_changed(self)

    def _add_written(self, frame: FrameInQuery, written: WrittenBatch | None, until: int) -> None:
        """Continue with what the query returned for the records of the frame before source offset ``until``."""
        if written is None:
            self._release(frame.held_bytes)
            self._pass_over(until)
            return
        grown = max(0, len(written.data) - sum(len(batch.data) for batch in frame.batches))
        self._release(-grown)
        held, arrived = frame.held_bytes + grown, frame.batches[-1].arrived
        self._fetched.append(SourceBatch(written.header, written.data, until, held, arrived, written.runs))

    def _pass_over(self, until: int) -> None:
        """The query has dropped all records from the last one that it kept up to ``until``."""
        if self._fetched:
            self._fetched[-1].next_offset = until
        elif (last := self._in_flight.last) is not None:
            last.next_offset = until
        elif until > self.position:
            self._callbacks.passed_over(self, self._passed_over(until))
            self._health.copied_to(self.position)

    def _count_rows(self, records: int, written: WrittenBatch | None) -> None:
        if self._is_routed:
            return
        kept = written.header.record_count if written is not None else 0
        self._metrics.rows_in += records
        self._metrics.rows_dropped += max(0, records - kept)

    def _undecodable(self, frame: FrameInQuery, error: str, now: float) -> None:
        """A batch of the frame cannot be decoded: find out which, then stop at it."""
        self._release(frame.held_bytes)
        self._fetch_again_from(frame.start)
        if len(frame.batches) > 1:
            self._one_by_one_until = frame.next_offset
            self._fetch_changed(now)
            return
        rejection = of_source_batch(self.source, self.target, frame.batches[0], frame.start, error, expected=True)
        self._found_unreadable(rejection, now)

    # -- packed and sent

    def set_producer_id(self, producer_id: ProducerId) -> None:
        """Send with this producer id, which has never written to the remote partition."""
        self._in_flight.set_producer_id(producer_id)
        self._callbacks.send_changed(self)

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
        self._log.sent_to = max(self._log.sent_to, entry.batch.next_offset)
        return entry

    def _pack_next(self, now: float, is_over: IsOver) -> bool:
        """Pack batches until one waits to be sent; return whether it can be sent now."""
        while not self._in_flight.has_unsent:
            if not self.has_unsent or not self._pack(now, is_over):
                return False
        if self._in_flight.producer_id is None:  # a batch cannot be repeated, see `InFlightBatches.append`
            self._callbacks.send_changed(self)
            return False
        return True

    def _pack(self, now: float, is_over: IsOver) -> bool:
        """Pack the next batch from the fetched batches; return whether it is done."""
        boundary = self._in_flight.resend_boundary
        try:
            result = self._packer.pack(
                self._fetched, self._packed_to, boundary, now, is_long_link=self.target_is_far, is_over=is_over
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
            self._fetch_if_room(now)
            self._reach_unreadable(now)
        return True

    def abandon_packing(self) -> None:
        """Drop what interrupted packing has made; it begins again when the next batch is to be sent."""
        self._packer.abandon()
        self._packer.begin_division_again()

    def _divide(self, is_over: IsOver, now: float) -> bool:
        """Continue to take apart the first batch; return whether the next batch may be sent.

        A batch that cannot be taken apart is rejected as a whole.
        """
        division = self._packer.division_of(self._in_flight.first)
        if division is None:
            return True
        try:
            parts = self._packer.divide(division, is_over)
        except PackingError as failure:
            self._reject(self._rejected_batch(division.batch, division.error, failure), now)
            return False
        if parts is None:
            return False
        self._in_flight.replace_first(parts)
        return True

    # -- the target's answers

    def acknowledged(self, entry: InFlightBatch, base_offset: int, now: float, wall: float) -> None:
        """The target has the batch, from ``base_offset`` on (-1: unknown)."""
        for done in self._in_flight.acknowledged(entry, base_offset, now):
            batch, base_offset = done.batch, done.base_offset
            checked = self._copied(batch)
            self._release(batch.held_bytes)
            if self._uncommitted is None:
                self._metrics.copied(batch, wall)
            else:
                self._uncommitted.count(batch)
            self._callbacks.acknowledged(self, batch, base_offset, checked)
            if base_offset >= 0:
                if base_offset < self.remote_end:
                    self._callbacks.remote_end_moved_back(self)
                self.remote_end = base_offset + batch.count
        self._advanced(now)
        self._answered(now)
        self._reach_unreadable(now)
        self._continue_after_truncation(now)
        self._callbacks.send_changed(self)
        self._report_drained()

    def _advanced(self, now: float) -> None:
        """The position moved: nothing before it is a problem any more."""
        self._now = now
        self._retry.reset()
        self._health.copied_to(self.position)
        self._story.advanced(self._story.sending, now)
        self._update_caught_up(now)
        self._fetch_if_room(now)

    def _fetch_if_room(self, now: float) -> None:
        """Fetch again if enough bytes were released, or too few are fetched; the position has moved."""
        has_room = self.held_bytes <= self._max_held_bytes // 2 or not self._has_fetched_repeated
        if self._memory_released or (self.is_full and has_room):
            self._memory_released = self.is_full = False
            self._fetch_changed(now)

    def target_unavailable(self, message: str, *, prolonged: bool = False) -> None:
        """The target has not answered yet; the response is still awaited."""
        self._health.produce_delayed(message, prolonged=prolonged)

    def leader_changed(self, now: float) -> None:
        """The remote partition has a new leader: end the pause after failed attempts, unless it is FAILED."""
        if self.is_retrying and not self._health.is_failed:
            self._retry.leader_changed()
            if self._pause is not None:
                self._end_pause(now)
            self._callbacks.send_changed(self)

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
            self._callbacks.send_changed(self)
        if self._in_flight.needs_refetch:
            self._refetch(now)

    def _handle_error(self, error: ProduceError, batch: TargetBatch | None, now: float) -> None:
        match error.action:
            case ErrorAction.RETRY if not self._retry.is_exhausted(error, now):
                self._retry_later(error, batch, now)
            case ErrorAction.NEW_PRODUCER_ID if batch is not None:
                self._story.add(f"another producer id is needed: {error.message}", now)
                self._in_flight.clear_producer_id()
                self._retry_later(error, batch, now)
            case ErrorAction.DISABLE_IDEMPOTENCE:
                self._story.add(f"continued without idempotence: {error.message}", now)
                self._in_flight.clear_producer_id()
            case ErrorAction.SPLIT if batch is not None and batch.count > 1:
                self._size_error = error
                if self._packer.reject_size(batch):
                    self._split_first(now)
                else:
                    self._awaits_size_limit = batch
                    self._callbacks.size_rejected(self)
            case ErrorAction.RECODE if batch is not None and self._packer.reject_codec(batch.codec, now):
                self._story.add(f"batches are compressed with another codec: {error.message}", now)
                self._refetch(now)
            case _ if batch is not None and error.concerns_records:
                if not self._in_flight.needs_refetch:
                    self._isolate(batch, error, now)
            case _:
                offset = self.position if batch is None else batch.first_offset
                self._retry.record_failure(now)
                self._fail(offset, describe(self.source, self.target, batch, error), now)
        self._note_steps(now)

    def _retry_later(self, error: ProduceError, batch: TargetBatch | None, now: float) -> None:
        self._retry.record_failure(now)
        message = describe(self.source, self.target, batch, error)
        self._health.produce_delayed(message, prolonged=self._retry.is_prolonged)
        delay = self._retry.back_off(now)
        if self._retry.is_stuck and not self.is_draining:  # make room for other partitions
            self._refetch(now)
            self._pause_fetch(self._retry.fetch_delay(delay), message, now)
        else:
            self._callbacks.wake_later(self, delay)

    def size_limit_read(self, limit: int | None, now: float) -> None:
        """The target's limit of a batch in bytes, asked for by `PartitionCallbacks.size_rejected`; None: unknown."""
        rejected, self._awaits_size_limit = self._awaits_size_limit, None
        if rejected is not None:
            self._story.add(f"batches are made smaller: the target rejected one of {rejected.size} bytes", now)
            self._packer.set_size_limit(rejected, limit, now)
            self._split_first(now)
            self._callbacks.send_changed(self)

    def _split_first(self, now: float) -> None:
        """Split the first batch, which is not in flight, at the known limit."""
        first, error = self._in_flight.first, self._size_error
        if first is not None and error is not None and not self._in_flight.needs_refetch:
            # otherwise once it is fetched and packed again
            self._packer.split(first, error)

    # -- records that cannot be copied: (M)

    def _isolate(self, batch: TargetBatch, error: ProduceError, now: float) -> None:
        """The target rejects records of the batch: narrow it down to them."""
        if batch.count > 1:
            self._packer.isolate(batch, error)
            return
        if error.unexpected:
            self._reject(of_rejected_batch(self.source, self.target, batch, error, expected=False), now)
            return
        try:
            record = self._packer.read(batch) if self._options.dead_letters is not None else None
        except PackingError as failure:
            self._reject(self._rejected_batch(batch, error, failure), now)
        else:
            self._reject(of_record(self.source, self.target, batch, error, record), now)

    def _rejected_batch(self, batch: TargetBatch, error: ProduceError, failure: PackingError) -> Rejection:
        return of_rejected_batch(self.source, self.target, batch, error, str(failure), expected=failure.expected)

    def _reject(self, rejection: Rejection, now: float) -> None:
        """These records cannot be copied, and everything before them is."""
        self._log.rejected(rejection.until, self._fetched_to or 0)
        if rejection.first == self._skip_offset:
            self._leave_out(rejection, LossKind.SKIPPED, now)
        elif self._options.dead_letters is not None and rejection.is_certain:
            self._pending_dead_letter = rejection
            self._health.produce_delayed(rejection.message)
            self._note_steps(now)
            self._callbacks.dead_letter(self, rejection)
        else:
            if rejection.stage is Stage.PRODUCE:
                self._retry.record_failure(now)
            self._fail(rejection.first, self._text_of(rejection), now, rejection)

    def _text_of(self, rejection: Rejection) -> str:
        """Return why the partition is stopped by records that cannot be copied."""
        flow = self._options.policy.flow
        return rejection.message if flow is None else f"{rejection.message}{rejection.keys(flow)}"

    def is_stopped_at(self, offset: int) -> bool:
        """Return whether the partition is stopped by what cannot be copied at this source offset."""
        stopped = self._stopped_at
        return stopped is not None and stopped.first == offset

    def explain(self, rejection: Rejection) -> None:
        """Say why these records cannot be copied, if they still stop the partition: it was not known before."""
        if self.is_stopped_at(rejection.first):
            self._rejection = rejection.without_content()
            self._health.copy_failed(rejection.first, self._text_of(rejection))

    def _fail(self, offset: int, message: str, now: float, rejection: Rejection | None = None) -> None:
        """Set the state to FAILED, with occasional retries. ``rejection``: these records are the cause."""
        self._rejection = None if rejection is None else rejection.without_content()
        self._health.copy_failed(offset, message)
        self._refetch(now)
        if self._health.is_failed:  # otherwise the source has lost these records
            self._pause_fetch(self._options.timeouts.failed_retry_s, message, now)

    def request_skip(self, offset: int | None, now: float) -> None:
        """Leave out what cannot be copied at source offset ``offset``, now or when it is found; None: nothing."""
        if offset == self._skip_offset:
            return
        self._skip_offset = offset
        stopped = self._stopped_at
        is_next = stopped is not None and stopped.first == offset == self.position
        if stopped is not None and is_next and not self._in_flight and self._pending_dead_letter is None:
            self._leave_out(stopped, LossKind.SKIPPED, now)

    def dead_letter_written(self, rejection: Rejection, now: float) -> None:
        """The dead-letter topic has these records."""
        if self._pending_dead_letter is not rejection:
            return  # the transaction was aborted meanwhile: they are rejected again
        self._pending_dead_letter = None
        self._metrics.dead_letters += 1
        instead = f"; written to {self._options.dead_letters} instead"
        self._leave_out(rejection, LossKind.DEAD_LETTER, now, instead)

    def dead_letter_delayed(self, message: str, now: float) -> None:
        """The dead-letter topic has not acknowledged the records for a while: make room for other partitions."""
        if self._pending_dead_letter is None:
            return
        self._health.produce_delayed(message, prolonged=True)
        self.release_memory(now)

    def dead_letter_failed(self, rejection: Rejection, message: str, now: float) -> None:
        """The dead-letter topic rejects the records."""
        if self._pending_dead_letter is not rejection:
            return
        self._pending_dead_letter = None
        self._fail(rejection.first, message, now, rejection)

    def _leave_out(self, rejection: Rejection, kind: LossKind, now: float, instead: str = "") -> None:
        """Continue behind these records, which are the first ones that are not copied."""
        self._now = now
        self.lose(rejection.first, rejection.until, f"{rejection.message}{instead}", kind=kind)
        self._rejection = self._pause = None
        batch, until = self._in_flight.leave_out_first(), rejection.until
        if batch is not None:
            until = max(until, batch.next_offset)
            self._release(batch.held_bytes)
        else:
            fetched_to = self._fetched_to or 0
            if until > fetched_to:
                self._log.left_out(fetched_to)
            self._drop_fetched(until)
        self._callbacks.left_out(self, self._left_out(until))
        self._advanced(now)
        self._reach_unreadable(now)
        self._continue_after_truncation(now)
        self._fetch_changed(now)
        self._callbacks.send_changed(self)
        self._report_drained()

    def _report_loss(self, loss: Loss) -> None:
        self._callbacks.lost(self, loss)

    # -- offset commits

    def committed(self, offset: int) -> None:
        """``offset``, a former value of `offset_to_commit`, is stored."""
        awaited = self._awaits_start
        self._stored = max(0, offset + 1)
        self._awaits_start = False
        if offset == self._initial_commit:
            self._initial_commit = None
            self._starts_over = False
        if awaited:
            self._callbacks.send_changed(self)

    # -- transactions

    def transaction_committed(self, offsets: tuple[int, ...], now: float, wall: float) -> None:
        """The transaction with everything that was acknowledged, and with the stored ``offsets``, is committed."""
        uncommitted, self._uncommitted = self._uncommitted, None
        if uncommitted is not None:
            self._committed_from = uncommitted.position
            uncommitted.committed(self._metrics, wall)
        for offset in offsets:
            self.committed(offset)
        self._update_caught_up(now)

    def await_roll_back(self, now: float) -> None:
        """The transaction is being aborted: only await the responses in flight, whatever they are."""
        self._awaits_roll_back = True
        self._note_steps(now)

    def roll_back_committed(self, now: float) -> None:
        """The last committed transaction is aborted, too: fetch its records again. Nothing may be in flight.

        The offset before them is stored first, like that before a truncation.
        """
        if self._committed_from is not None:
            self._move_back(self._committed_from)
            self._committed_from = None
        self.roll_back(now)

    def roll_back(self, now: float) -> None:
        """The transaction is aborted: fetch again from the committed position. Nothing may be in flight."""
        self._pending_dead_letter = None
        self._awaits_roll_back = False
        uncommitted, self._uncommitted = self._uncommitted, None
        if uncommitted is not None:
            self.position, self._last_copied = uncommitted.position, uncommitted.last_copied
            self._initial_commit = uncommitted.initial_commit
            self._skipped = OffsetRange(0, 0)
        self._release_all(self._in_flight.roll_back())
        self._story.add(f"the transaction was aborted: copied again from offset {self.position}", now)
        if self.position >= 0:
            self._log.sent_to = self.position
            self._refetch(now)
        if (stopped := self._stopped_at) is not None and stopped.first > self.position:
            self._rejection = self._pause = None  # what is before it has to be copied again first
            self._health.truncated(self.position)
            self._fetch_changed(now)

    # -- memory

    def release_memory(self, now: float) -> None:
        """Release all bytes, without sending anything again that is in flight; the rest is fetched again."""
        if not self.held_bytes:
            return
        if self._in_query.is_started:
            held, start = self._in_query.drop_unsent()
            self._release(held + self._in_query.drop_sent())
            if start is not None:
                self._fetched_to = start
                self._log.fetch_from(start)
        elif self._in_flight.in_flight:
            self._drop_fetched(self._packed_to)
            self._release(self._in_flight.drop_payloads())
        else:
            self._refetch(now)
            return
        self._memory_released, self.is_full = True, False
        self._fetch_changed(now)

    def _release_all(self, batches: Iterable[SourceBatch | TargetBatch]) -> None:
        self._release(sum(batch.held_bytes for batch in batches))

    def _release(self, count: int) -> None:
        """``count`` bytes are no longer held; negative: more are."""
        if count:
            self.held_bytes -= count
            self._callbacks.release(count)

    # -- the way out

    def drain(self, now: float) -> None:
        """Stop fetching and drop fetched batches that are not packed; see `is_idle`."""
        self.is_draining = True
        if not self._is_routed:  # otherwise what is in the transform is being written
            self._drop_fetched(self._packed_to)
        self._fetch_changed(now)

    def _report_drained(self) -> None:
        if self.is_draining and self.is_idle:
            self._callbacks.drained(self)

    def abandon(self) -> None:
        """The source task ends: release all bytes, and ignore what the query returns."""
        self.abandon_packing()
        self._in_query.clear()
        self._release(self.held_bytes)
