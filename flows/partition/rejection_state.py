"""What a partition does with records that cannot be copied: it stops at them, or leaves them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flows.batch.steps import LIGHT_RECORDS, IsOver, Steps, run
from flows.batch.target_batch import TargetBatch
from flows.partition.fetch_state import FetchState
from flows.partition.health import PartitionMetrics
from flows.partition.listener import PartitionListener
from flows.partition.packer import Packer, PackingError
from flows.partition.rejection import Rejection, Stage, of_record, of_rejected_batch
from flows.partition.retry_state import RetryState
from flows.partition.timeouts import Timeouts
from flows.target.produce_errors import ProduceError
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import LossKind, LossPolicy
from mm2.core.offsets.leader_epochs import EpochStarts, before
from mm2.kafka.backoff import Backoff


@dataclass(slots=True)
class _Division:
    """Taking apart the first batch, which the target did not accept because of ``error``."""

    batch: TargetBatch
    error: ProduceError
    begin: Callable[[], Steps[list[TargetBatch]]]
    started: Steps[list[TargetBatch]] | None = None


class RejectionState(FetchState):
    """Records that the target rejects, or that cannot be read.

    (A) They are isolated and named in the health message. They are left out only after they are in the dead-letter
        topic, or if an operator has asked to skip them.
    (B) Everything before them is copied first, and nothing after them is sent before that is decided.
    (C) The first batch is taken apart in steps, before anything is sent again.
    """

    def __init__(
        self,
        lease: PartitionLease,
        listener: PartitionListener[Any],
        *,
        packer: Packer,
        max_in_flight: int,
        max_held_bytes: int,
        dead_letters: str | None,
        source_backoff: Backoff,
        target_backoff: Backoff,
        now: float,
        metrics: PartitionMetrics,
        policy: LossPolicy | None,
        timeouts: Timeouts,
    ) -> None:
        """``dead_letters``: the topic for records that cannot be copied; None: they stop the partition."""
        super().__init__(
            lease,
            listener,
            max_in_flight=max_in_flight,
            max_held_bytes=max_held_bytes,
            source_backoff=source_backoff,
            now=now,
            metrics=metrics,
            policy=policy,
            timeouts=timeouts,
        )
        self._packer = packer
        self._retry = RetryState(target_backoff, timeouts)
        self._dead_letters = dead_letters
        self._skip_offset = lease.skip_offset
        self._division: _Division | None = None
        self._rejected_epochs: EpochStarts = ()  # up to the end of what was rejected last; empty: unknown

    @property
    def is_idle(self) -> bool:
        """Whether nothing is buffered, in flight, or being written to the dead-letter topic."""
        return super().is_idle and self._letter is None

    @property
    def _may_fetch(self) -> bool:
        return super()._may_fetch and self._letter is None

    def roll_back(self) -> None:
        """The transaction is aborted: fetch again from the committed position. Nothing may be in flight."""
        self._letter = None
        super().roll_back()
        if (stopped := self._stopped_at) is not None and stopped.first > self.position:
            self._rejection = self._fetch_paused_until = None  # what is before it has to be copied again first
            self._health.truncated(self.position)
            self._listener.fetch_changed(self)

    # -- finding the records

    def _isolate(self, batch: TargetBatch, error: ProduceError, now: float) -> None:
        """The target rejects records of the batch: narrow it down to them."""
        if batch.count > 1:
            self._take_apart(batch, error, self._packer.isolate(batch, error.record_indexes))
            return
        if error.unexpected:
            self._reject(of_rejected_batch(self.source, self.target, batch, error, expected=False), now)
            return
        try:
            record = self._packer.read(batch) if self._dead_letters is not None else None
        except PackingError as failure:
            self._reject(self._rejected_batch(batch, error, failure), now)
        else:
            self._reject(of_record(self.source, self.target, batch, error, record), now)

    def _take_apart(
        self, batch: TargetBatch, error: ProduceError, begin: Callable[[], Steps[list[TargetBatch]]]
    ) -> None:
        """Replace the first batch by its parts before anything is sent again."""
        self._division = _Division(batch, error, begin)

    @property
    def _divided_first(self) -> _Division | None:
        """The division of the first batch; None if there is none, or the batch was dropped meanwhile."""
        if self._division is not None and self._in_flight.first is not self._division.batch:
            self._division = None
        return self._division

    def _divide(self, is_over: IsOver, now: float) -> bool:
        """Continue to take apart the first batch; return whether the next batch may be sent.

        A batch that cannot be taken apart is rejected as a whole.
        """
        division = self._divided_first
        if division is None:
            return True
        division.started = division.started or division.begin()
        try:
            parts = run(division.started, is_over)
        except PackingError as failure:
            self._division = None
            self._reject(self._rejected_batch(division.batch, division.error, failure), now)
            return False
        if parts is None:
            return False
        self._division = None
        self._in_flight.replace_first(parts)
        return True

    @property
    def is_packing(self) -> bool:
        """Whether packing was interrupted, and holds what it has made so far."""
        division = self._divided_first
        return self._packer.is_unfinished or (division is not None and division.started is not None)

    def abandon_packing(self) -> None:
        """Drop what interrupted packing has made; it begins again when the next batch is to be sent."""
        self._packer.abandon()
        if self._division is not None:
            self._division.started = None

    @property
    def packs_heavily(self) -> bool:
        """Whether packing the next batch can take longer than a few steps."""
        if (division := self._divided_first) is not None:
            return division.batch.count > LIGHT_RECORDS
        if self._in_flight.has_unsent or not self._fetched:
            return False
        return self._packer.is_heavy(self._fetched, self._packed_to, self._in_flight.resend_boundary)

    def abandon(self) -> None:
        """The source task ends: release all bytes, and ignore what the query returns."""
        self.abandon_packing()
        super().abandon()

    def _drop_fetched(self, fetch_from: int) -> None:
        """Drop fetched batches that are not packed, and fetch again from ``fetch_from``."""
        self._packer.abandon()
        super()._drop_fetched(fetch_from)

    def _rejected_batch(self, batch: TargetBatch, error: ProduceError, failure: PackingError) -> Rejection:
        return of_rejected_batch(self.source, self.target, batch, error, str(failure), expected=failure.expected)

    def _fail(self, offset: int, message: str, now: float, rejection: Rejection | None = None) -> None:
        """Set the state to FAILED, with occasional retries. ``rejection``: these records are the cause."""
        self._rejection = None if rejection is None else rejection.without_content()
        self._health.copy_failed(offset, message)
        self._refetch()
        if self._health.is_failed:  # otherwise the source has lost these records
            self._pause_fetch(self._timeouts.failed_retry_s, now)

    def _found_unreadable(self, rejection: Rejection, now: float) -> None:
        """The next batch cannot be read, and nothing after it is fetched."""
        self._in_flight.truncated(rejection.first)  # batches with it or later records cannot be repeated
        self._unreadable = rejection
        self._health.fetch_delayed(rejection.message)
        self._listener.fetch_changed(self)
        self._reach_unreadable(now)

    def _reach_unreadable(self, now: float) -> None:
        rejection = self._unreadable
        if rejection is not None and not (self._in_flight or self._fetched or self._in_query):
            self._unreadable = None
            self._reject(rejection, now)

    # -- stopping, or leaving them out

    def request_skip(self, offset: int | None, now: float) -> None:
        """Leave out what cannot be copied at source offset ``offset``, now or when it is found; None: nothing."""
        if offset == self._skip_offset:
            return
        self._skip_offset = offset
        stopped = self._stopped_at
        is_next = stopped is not None and stopped.first == offset == self.position
        if stopped is not None and is_next and not self._in_flight and self._letter is None:
            self._leave_out(stopped, LossKind.SKIPPED, now)

    def _reject(self, rejection: Rejection, now: float) -> None:
        """These records cannot be copied, and everything before them is."""
        is_fetched = (self._fetched_to or 0) >= rejection.until
        self._rejected_epochs = before(self.epochs, rejection.until) if is_fetched else ()
        if rejection.first == self._skip_offset:
            self._leave_out(rejection, LossKind.SKIPPED, now)
        elif self._dead_letters is not None and rejection.is_certain:
            self._letter = rejection
            self._health.produce_delayed(rejection.message)
            self._listener.dead_letter(self, rejection)
        else:
            if rejection.stage is Stage.PRODUCE:
                self._retry.record_failure(now)
            keys = "" if self._policy.flow is None else rejection.keys(self._policy.flow)
            self._fail(rejection.first, f"{rejection.message}{keys}", now, rejection)

    def dead_letter_written(self, rejection: Rejection, now: float) -> None:
        """The dead-letter topic has these records."""
        if self._letter is not rejection:
            return  # the transaction was aborted meanwhile: they are rejected again
        self._letter = None
        self._metrics.dead_letters += 1
        self._leave_out(rejection, LossKind.DEAD_LETTER, now, f"; written to {self._dead_letters} instead")

    def dead_letter_delayed(self, message: str) -> None:
        """The dead-letter topic has not acknowledged the records for a while: make room for other partitions."""
        if self._letter is None:
            return
        self._health.produce_delayed(message, prolonged=True)
        self.release_memory()

    def dead_letter_failed(self, rejection: Rejection, message: str, now: float) -> None:
        """The dead-letter topic rejects the records."""
        if self._letter is not rejection:
            return
        self._letter = None
        self._fail(rejection.first, message, now, rejection)

    def _leave_out(self, rejection: Rejection, kind: LossKind, now: float, instead: str = "") -> None:
        """Continue behind these records, which are the first ones that are not copied."""
        self.lose(rejection.first, rejection.until, f"{rejection.message}{instead}", kind=kind)
        self._rejection = self._fetch_paused_until = None
        batch, until = self._in_flight.leave_out_first(), rejection.until
        if batch is not None:
            until = max(until, batch.next_offset)
            self._release(batch.held_bytes)
        else:
            if until > (self._fetched_to or 0):
                self.epochs = self._epochs_after_rejection(self._fetched_to or 0)
            self._drop_fetched(until)
        self._listener.left_out(self, self._left_out(until))
        self._advanced(now)
        self._reach_unreadable(now)
        self._continue_after_truncation()
        self._listener.fetch_changed(self)
        self._listener.send_changed(self)
        if self.is_draining and self.is_idle:
            self._listener.drained(self)

    def _epochs_after_rejection(self, fetched_to: int) -> EpochStarts:
        """Return the leader epochs up to the end of what is left out, though less is fetched; empty: unknown.

        Without them, the source's broker does not check whether its log was truncated meanwhile.
        """
        known = self._rejected_epochs
        return known if before(known, fetched_to) == before(self.epochs, fetched_to) else ()

    def _advanced(self, now: float) -> None:
        """The position moved: nothing before it is a problem any more."""
        self._retry.reset()
        self._health.copied_to(self.position)
        self._update_caught_up(now)
        self._fetch_if_room()
