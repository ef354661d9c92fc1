"""Replication state of one partition, for its reports and offset commits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from flows.batch.target_batch import TargetBatch
from flows.partition.health import PartitionHealth, PartitionMetrics
from flows.partition.rejection import Rejection
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import Loss, LossKind, LossPolicy, add_loss
from mm2.core.lanes.progress_reports import PartitionProgress
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets import leader_epochs
from mm2.core.offsets.connect_offsets import RECREATED_TOPIC
from mm2.core.offsets.exact_offset_records import TopicIds

END_OFFSET_VALID_S = 10.0
"""An end offset that was not observed for this long is out of date: the source can have any number of records more.
Long enough for a leader election or the restart of a broker, and for `flows.source.end_offsets` to ask meanwhile."""


@dataclass(slots=True)
class SourceAnswers:
    """When the fetch session that some partitions belong to was last answered, in monotonic seconds.

    One object for all of them: an answer observes the end offset of a thousand idle partitions without touching them.
    """

    last: float = 0.0


class OffsetRange(NamedTuple):
    """Source offsets from ``start`` up to, not including, ``end``, all of them checked.

    Checked offsets that are in no copied batch have no record.
    """

    start: int
    end: int


class PartitionState(ABC):
    """Position, losses, health and metrics of one partition.

    Offsets are the source's; ``now`` is monotonic seconds, ``wall`` epoch seconds.

    (A) ``position`` is the first offset not known to be copied (-1: unknown); ``stored`` is where a restart would
        resume. It is not after the position, except from a truncation of the source's log until the next commit.
    (B) Every move of the position returns the offsets that were checked on the way. These exclude offsets skipped by
        auto.offset.reset, since it is unknown whether they have records. Records that are left out count as checked:
        on the target, the next record follows in their place.
    (C) For a recreated topic, `RECREATED_TOPIC` is stored first, and for a truncated log the offset before the
        truncation; until then the partition ``needs_initial_commit``.
    (D) A start that was chosen because no offset is stored is stored like a copied offset, before anything is sent: a
        restart does not choose again, and of a partition without a stored offset the target has no copies of ours.
    (E) While the partition is ``stopped_by`` a loss, nothing after the loss is fetched, copied or stored. It ends when
        a lease with the acceptance replaces this object.
    (F) ``epochs`` are the leader epochs of the records that were fetched, as far as they are known.
    (G) The end offset was observed when the source last answered about the partition: by a fetch response, also one of
        its fetch session that leaves it out, since that means that it has not changed, or by ListOffsets.
    """

    def __init__(
        self, lease: PartitionLease, metrics: PartitionMetrics, now: float, policy: LossPolicy | None = None
    ) -> None:
        self.source = TopicPartition(lease.topic, lease.partition)
        self.target = TopicPartition(lease.remote_topic, lease.partition)
        self.topic_ids = TopicIds(*lease.topic_ids)
        self.position = -1 if lease.start_offset is None else lease.start_offset
        self.epochs = leader_epochs.before(lease.leader_epochs, self.position)
        self.end_offset = -1
        self._end_observed_at = now
        self._session: SourceAnswers | None = None  # of the fetch session that contains the partition
        self._session_since = now
        self.losses: list[Loss] = []  # the newest `LOSSES_KEPT`
        self.stopped_by = lease.stopped_by
        self.is_draining = False
        self._rejection: Rejection | None = None  # why copying failed the last time, if records are the cause
        self._stored = None if lease.topic_recreated else lease.start_offset
        self._initial_commit = RECREATED_TOPIC if lease.topic_recreated else None
        self._starts_over = lease.topic_recreated
        self._last_copied: int | None = None  # or the offset before the chosen start
        self._awaits_start = False  # a chosen start is not stored yet: (D)
        self._skipped = OffsetRange(0, 0)
        self._caught_up_at = now
        self._health = PartitionHealth()
        self._metrics = metrics
        self._report_loss: Callable[[Loss], None] = lambda _: None  # also called with a loss that has grown
        self._policy = policy or LossPolicy()
        self._accepted = lease.accepted_loss

    # -- health

    def source_unavailable(self, message: str, *, prolonged: bool = False) -> None:
        """The source broker does not answer, or rejects requests; the caller decides when to retry."""
        self._health.fetch_delayed(message, prolonged=prolonged)

    def source_available(self) -> None:
        """The source broker answers again, though possibly without data of this partition."""
        if self._health.is_waiting_for_source:
            self._health.fetch_succeeded()

    def target_unavailable(self, message: str, *, prolonged: bool = False) -> None:
        """The target has not answered yet; the response is still awaited."""
        self._health.produce_delayed(message, prolonged=prolonged)

    # -- end offset

    @property
    def end_observed_at(self) -> float:
        """When the end offset was last observed; without one, when the partition started: (G)."""
        session = self._session
        if session is None or session.last <= self._session_since:
            return self._end_observed_at
        return max(self._end_observed_at, session.last)

    def join_session(self, answers: SourceAnswers, now: float) -> None:
        """The next request of the fetch session asks for the partition, and its later responses observe it."""
        if self._session is not answers:
            self.leave_session()
            self._session, self._session_since = answers, now

    def leave_session(self) -> None:
        """The fetch session does not contain the partition any more, or reported an error of it."""
        self._end_observed_at = self.end_observed_at
        self._session = None

    def end_observed(self, end_offset: int, now: float) -> None:
        """A fetch response contains the end offset; -1: it does not."""
        if end_offset >= 0:
            self.end_offset = end_offset
            self._end_observed_at = now

    def source_grew(self, end_offset: int, now: float) -> None:
        """The source has records up to ``end_offset``, as found out without a fetch."""
        self.end_observed(max(self.end_offset, end_offset), now)
        self._update_caught_up(now)

    def _is_end_valid(self, now: float) -> bool:
        return now - self.end_observed_at < END_OFFSET_VALID_S

    # -- offset commits

    @property
    def needs_initial_commit(self) -> bool:
        """Whether an offset has to be stored before those of records that are copied now: (C)."""
        return self._initial_commit is not None

    @property
    def offset_to_commit(self) -> int | None:
        """The last offset that was copied or left out, or the one before the chosen start; None: there is none yet."""
        return self._last_copied if self._initial_commit is None else self._initial_commit

    def committed(self, offset: int) -> None:
        """``offset``, a former value of `offset_to_commit`, is stored."""
        self._stored = max(0, offset + 1)
        self._awaits_start = False
        if offset == self._initial_commit:
            self._initial_commit = None
            self._starts_over = False

    def lease_to_resume(self) -> PartitionLease:
        """Return a lease that resumes from the stored offset, or from the one that has to be stored."""
        start = self._stored if self._initial_commit is None else max(0, self._initial_commit + 1)
        return PartitionLease(
            topic=self.source.topic,
            partition=self.source.partition,
            remote_topic=self.target.topic,
            start_offset=start,
            topic_ids=self.topic_ids,
            topic_recreated=self._starts_over,
            stopped_by=self.stopped_by,
            leader_epochs=leader_epochs.before(self.epochs, start or 0),
        )

    # -- reports

    def progress(self, now: float, wall: float, *, stopped: bool = False) -> PartitionProgress:
        """Return the progress to report; ``stopped``: the partition has left the source task."""
        metrics, stopped_at = self._metrics, self._stopped_at
        return PartitionProgress(
            topic=self.source.topic,
            partition=self.source.partition,
            remote_topic=self.target.topic,
            state=TaskState.STOPPED if stopped else self._task_state,
            position=self.committed_position,
            stored=self._stored,
            end_offset=self.end_offset,
            end_observed=None if self.end_offset < 0 or self._is_end_valid(now) else wall - now + self.end_observed_at,
            lag_seconds=self._lag_seconds(now, wall),
            records_total=metrics.records,
            bytes_total=metrics.stored_bytes,
            latency_sum=metrics.latency_sum,
            latency_count=metrics.latency_count,
            age_sum=metrics.age_sum,
            age_count=metrics.age_count,
            error=self._error,
            stopped_at=stopped_at.first if stopped_at is not None else None,
            stopped_until=stopped_at.until if stopped_at is not None else None,
            dead_letters_total=metrics.dead_letters,
            rows_in=metrics.rows_in,
            rows_dropped=metrics.rows_dropped,
        )

    @property
    def committed_position(self) -> int:
        """The first offset that consumers of the target may not be able to read yet."""
        return self.position

    def progress_key(self, now: float) -> tuple[object, ...] | None:
        """Return a key that changes with `progress`. None: the partition lags, and its lag changes with time."""
        position = self.committed_position
        if position < self.end_offset:
            return None
        metrics = self._metrics
        counts = (metrics.records, metrics.latency_count, metrics.age_count, metrics.dead_letters, metrics.rows_in)
        end = self.end_offset, self._is_end_valid(now)
        return (position, *end, self._stored, *counts, self._task_state, self._error)

    @property
    def _stopped_at(self) -> Rejection | None:
        """The records that have stopped the partition."""
        return self._rejection if self._health.is_stopped else None

    @property
    @abstractmethod
    def oldest_pending(self) -> int:
        """Largest timestamp (epoch ms) of the first batch fetched and not copied; -1 if there is none."""

    @property
    def _is_halted(self) -> bool:
        return self.is_draining or self.stopped_by is not None

    @property
    def _error(self) -> str | None:
        return self._health.message if self.stopped_by is None else self._policy.message(self.stopped_by)

    @property
    def _task_state(self) -> TaskState:
        if self._health.is_failed or self.stopped_by is not None:
            return TaskState.FAILED
        if self.is_draining:
            return TaskState.DRAINING
        return TaskState.WAITING if self.end_offset < 0 or self._health.is_waiting else TaskState.RUNNING

    def _lag_seconds(self, now: float, wall: float) -> float:
        """Return 0 if caught up, otherwise the age of the first batch not yet copied, by its timestamp.

        While that is unknown, the time since the partition was last caught up.
        """
        if self.committed_position >= self.end_offset:
            return 0.0
        oldest = self.oldest_pending
        return max(0.0, wall - oldest / 1000 if oldest >= 0 else now - self._caught_up_at)

    # -- moves

    def _start_chosen(self, offset: int) -> None:
        """No offset is stored, and copying starts at ``offset``."""
        self._awaits_start = True
        self._last_copied = offset - 1

    @property
    def first_left(self) -> int:
        """The first offset that is neither copied nor part of the loss that stopped the partition; -1: unknown."""
        return self.position if self.stopped_by is None else max(self.position, self.stopped_by.until)

    def lose(self, first: int, until: int, reason: str, *, kind: LossKind) -> bool:
        """Report that offsets from ``first`` up to, not including, ``until`` can no longer be copied.

        Of kind TRUNCATED: that the target has them, and the source does not any more.

        Returns whether copying may continue. False: mm2.on.data.loss stops it until an operator accepts the loss; the
        position must not move over it.
        """
        topic_id = self.topic_ids.source
        loss = Loss(
            topic=self.source.topic,
            partition=self.source.partition,
            first=first,
            until=until,
            reason=reason,
            kind=kind,
            topic_id=None if topic_id is None else str(topic_id),
        )
        before = self.losses[-1] if self.losses else None
        loss = add_loss(self.losses, self._policy.applied(loss, before, self._accepted))
        if loss.awaits_acceptance:
            self.stopped_by = loss
        self._report_loss(loss)
        return self.stopped_by is None

    def _skip(self, checked: int, offset: int) -> None:
        """The position will move to ``offset``; offsets before ``checked`` have no records, the rest is unknown."""
        if checked < offset:
            self._skipped = OffsetRange(checked, offset)

    def _move_to(self, end: int) -> OffsetRange:
        """Move the position to ``end`` and return the offsets checked on the way."""
        start, skipped = max(self.position, 0), self._skipped
        self.position = end
        return OffsetRange(start, min(end, skipped.start) if start < skipped.end and skipped.start < end else end)

    def _move_back(self, offset: int) -> None:
        """Copy again from ``offset``, where the source's log was truncated."""
        self.position = offset
        self._last_copied = offset - 1
        if self._initial_commit is None or self._initial_commit >= offset:
            self._initial_commit = offset - 1
        self._skipped = OffsetRange(0, 0)

    def _copied(self, batch: TargetBatch) -> OffsetRange:
        """The target has this batch and all before it."""
        self._last_copied = batch.last_offset
        return self._move_to(batch.next_offset)

    def _count(self, batch: TargetBatch, wall: float) -> None:
        """Count an acknowledged batch, whose bytes are released."""
        self._metrics.copied(batch, wall)

    def _left_out(self, until: int) -> OffsetRange:
        """What is before ``until`` is copied or left out. In a transaction it counts when that is committed."""
        return self._passed_over(until)

    def _passed_over(self, until: int) -> OffsetRange:
        """What is before ``until`` is copied, or the query has dropped it."""
        self._last_copied = until - 1
        return self._move_to(until)

    def _update_caught_up(self, now: float) -> None:
        """Record ``now`` as the last time the partition was caught up, if it is."""
        if self.committed_position >= self.end_offset >= 0:
            self._caught_up_at = now
