"""The state of one partition: what it knows and holds, what it does on each side, and why it waits."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from flows.batch.choice import BatchRules, Reason
from flows.batch.steps import LIGHT_RECORDS
from flows.batch.target_batch import SourceBatch, TargetBatch
from flows.partition.frame_transform import FrameTransform
from flows.partition.frames_in_query import FRAME_BYTES, FramesInQuery
from flows.partition.health import PartitionHealth, PartitionMetrics
from flows.partition.in_flight import InFlightBatches
from flows.partition.packer import Packer
from flows.partition.rejection import Rejection, offsets_in_words
from flows.partition.retry_state import RetryState
from flows.partition.source_log import SourceLog
from flows.partition.steps import NOTED, InvariantError, Story
from flows.partition.timeouts import TIMEOUTS, Timeouts
from flows.target.produce_errors import ProduceError
from mm2.core.lanes.bottlenecks import BEHIND_AFTER_S, PartitionWaits
from mm2.core.lanes.counters import PartitionCounters
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import Loss, LossKind, LossPolicy, add_loss
from mm2.core.lanes.partition_steps import FetchStep, PartitionEvent, SendStep
from mm2.core.lanes.progress_reports import PartitionProgress
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets import leader_epochs
from mm2.core.offsets.connect_offsets import RECREATED_TOPIC
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.core.offsets.leader_epochs import EpochStarts
from mm2.kafka.backoff import Backoff

if TYPE_CHECKING:
    from flows.partition.replicator import PartitionReplicator

END_OFFSET_VALID_S = 10.0
"""An end offset that was not observed for this long is out of date: the source can have any number of records more.
Long enough for a leader election or the restart of a broker, and for `flows.source.end_offsets` to ask meanwhile."""


PARTS_HELD_BYTES = 16 * 1024 * 1024
"""While a partition holds so many bytes that have passed through the query, it takes no more parts of a frame: half of
what a lane may hold by default (mm2.lane.buffer.bytes), which can be in the query, too."""


class OffsetRange(NamedTuple):
    """Source offsets from ``start`` up to, not including, ``end``, all of them checked.

    Checked offsets that are in no copied batch have no record.
    """

    start: int
    end: int


@dataclass(slots=True)
class SourceAnswers:
    """When the fetch session that some partitions belong to was last answered, in monotonic seconds.

    One object for all of them: an answer observes the end offset of a thousand idle partitions without touching them.
    ``limited_to``: the newest request waits, or had to wait, for the limit of so many bytes per second; None: neither.
    """

    last: float = 0.0
    limited_to: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCallbacks:
    """What a partition calls in its source task (`flows.source_task.pipeline`), on the event loop of its lane.

    None of them calls back into the partition synchronously.
    """

    release: Callable[[int], None]
    """So many bytes are no longer held; negative: more are, since a batch grew when it was rebuilt."""
    fetch_changed: Callable[[PartitionReplicator], None]
    """The fetch offset has changed, or fetching was paused or resumed."""
    send_changed: Callable[[PartitionReplicator], None]
    """The partition may have a batch to send."""
    wake_later: Callable[[PartitionReplicator, float], None]
    """Call `PartitionReplicator.wake` after so many seconds."""
    size_rejected: Callable[[PartitionReplicator], None]
    """The target rejected a batch as too large, and the partition waits for `PartitionReplicator.size_limit_read`."""
    start_chosen: Callable[[PartitionReplicator], None]
    """The partition had no stored offset and has chosen its start."""
    acknowledged: Callable[[PartitionReplicator, TargetBatch, int, OffsetRange], None]
    """The target has this batch and all before it, from this target offset on; -1: the offset is unknown."""
    skipped: Callable[[PartitionReplicator, OffsetRange], None]
    """The position moved without a copied record."""
    dead_letter: Callable[[PartitionReplicator, Rejection], None]
    """Write what cannot be copied to the dead-letter topic, and report the result to the partition."""
    left_out: Callable[[PartitionReplicator, OffsetRange], None]
    """The position moved behind records that were left out."""
    passed_over: Callable[[PartitionReplicator, OffsetRange], None]
    """The position moved behind records that the query has dropped; nothing is in flight."""
    lost: Callable[[PartitionReplicator, Loss], None]
    """Source records can no longer be copied; a loss with the same first offset replaces an earlier one."""
    truncated: Callable[[PartitionReplicator, int], None]
    """The position moved back to this offset: the source lost its records from there on."""
    drained: Callable[[PartitionReplicator], None]
    """The draining partition is idle."""
    remote_end_moved_back: Callable[[PartitionReplicator], None]
    """The remote topic was truncated or recreated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOptions:
    """What the partitions of a source task have in common.

    ``max_in_flight`` batches are sent at a time, and ``max_held_bytes`` held; with large responses from a source far
    away, up to ``most_held_bytes``. ``dead_letters``: the topic for records that cannot be copied; None: they stop the
    partition. ``transform``: the query that the records pass through, in frames of about ``frame_bytes`` bytes; None:
    records are copied as they are.
    """

    rules: BatchRules
    max_in_flight: int
    max_held_bytes: int
    check_crcs: bool
    most_held_bytes: int = 0
    dead_letters: str | None = None
    policy: LossPolicy = field(default_factory=LossPolicy)
    transform: FrameTransform | None = None
    frame_bytes: int = FRAME_BYTES
    timeouts: Timeouts = TIMEOUTS


@dataclass(frozen=True, slots=True)
class FetchPause:
    """Nothing is fetched until ``until`` monotonic seconds, because of ``reason``."""

    until: float
    reason: str


@dataclass(slots=True)
class Uncommitted:
    """What was copied in a transaction that is not committed yet: where copying continues if it is aborted, and what to
    count when it is committed."""

    position: int
    last_copied: int | None
    initial_commit: int | None
    records: int = 0
    source_bytes: int = 0
    timestamps: list[int] = field(default_factory=list)  # the largest one of each batch that has any, in ms

    def count(self, batch: TargetBatch) -> None:
        """Add an acknowledged batch."""
        self.records += batch.count
        self.source_bytes += batch.source_bytes
        if batch.max_timestamp >= 0:
            self.timestamps.append(batch.max_timestamp)

    def committed(self, metrics: PartitionMetrics, wall: float) -> None:
        """Count everything as copied at ``wall`` epoch seconds."""
        metrics.records += self.records
        metrics.bytes += self.source_bytes
        for timestamp in self.timestamps:
            metrics.took(wall - timestamp / 1000)


class PartitionState:
    """What `PartitionReplicator` knows and holds; only that writes it, on the event loop of its lane.

    Offsets are the source's; ``now`` is monotonic seconds, ``wall`` epoch seconds.

    Position:
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
    (F) ``committed_position`` is what consumers can read. It differs from the position only while a transaction with
        records of the partition is open, so never under at-least-once. Records are counted when they are committed.

    What it holds:
    (G) Batches in flight, then fetched ones that are ready to be packed, then those in the query, are in source order,
        and contain all records from the position up to the fetch offset.
    (H) ``held_bytes`` are counted in the lane's budget and released exactly once, with what rebuilt batches grew by.
    (I) The end offset was observed when the source last answered about the partition: by a fetch response, also one of
        its fetch session that leaves it out, since that means that it has not changed, or by ListOffsets.
    (J) What each side waits for is decided by `fetch_step` and `send_step`, and nowhere else.
    """

    def __init__(  # noqa: PLR0915 - one line for each field
        self,
        lease: PartitionLease,
        callbacks: PartitionCallbacks,
        options: PartitionOptions,
        *,
        source_backoff: Backoff,
        target_backoff: Backoff,
        counts: Counter[Reason],
        now: float,
        metrics: PartitionMetrics | None = None,
    ) -> None:
        """``counts``: of the batches, by why they were packed. ``metrics`` continue to count."""
        timeouts = options.timeouts
        self.source = TopicPartition(lease.topic, lease.partition)
        self.target = TopicPartition(lease.remote_topic, lease.partition)
        self.topic_ids = TopicIds(*lease.topic_ids)
        self._callbacks = callbacks
        self._options = options
        self._now = now  # of the last event
        # position
        self.position = -1 if lease.start_offset is None else lease.start_offset
        self._stored = None if lease.topic_recreated else lease.start_offset
        self._last_copied: int | None = None  # or the offset before the chosen start
        self._initial_commit = RECREATED_TOPIC if lease.topic_recreated else None
        self._starts_over = lease.topic_recreated
        self._topic_recreated = lease.topic_recreated
        self._awaits_start = False  # a chosen start is not stored yet: (D)
        self._skipped = OffsetRange(0, 0)
        self.is_transactional = False
        self._uncommitted: Uncommitted | None = None
        self._committed_from: int | None = None  # where the last committed transaction began
        self.remote_end = 0  # the target offset after the last record with a known offset
        # the source
        self._log = SourceLog(lease.leader_epochs, self.position)
        self.end_offset = -1
        self._end_observed_at = self._session_since = self._caught_up_at = now
        self._session: SourceAnswers | None = None  # of the fetch session that contains the partition
        self._fetched_to = lease.start_offset  # None: unknown
        self._pause: FetchPause | None = None
        self._source_backoff = source_backoff
        self._corrupt_fetches = 0
        self._max_held_bytes = options.max_held_bytes
        self.is_full = False  # fetching waits for the target's acknowledgements
        self._memory_released = False  # as full, and everything fetched was dropped
        # batches
        self.target_is_far = False  # set by the producer, before it asks for a batch
        self.held_bytes = 0
        self._in_flight = InFlightBatches(
            max_in_flight=options.max_in_flight, now=now, probe_after_s=timeouts.probe_after_s
        )
        self._fetched: deque[SourceBatch] = deque()
        self._in_query = FramesInQuery()
        self._one_by_one_until = -1  # a frame with several batches up to this offset could not be decoded
        self._unanswered_since = 0.0  # the first frame that the transform has started to write
        # the target
        self._packer = Packer(options.rules, counts, rejection_memory_s=timeouts.rejection_memory_s)
        self._retry = RetryState(target_backoff, timeouts)
        self._awaits_size_limit: TargetBatch | None = None  # nothing is sent until the target's limit is read
        self._size_error: ProduceError | None = None  # why the last batch was split
        self._awaits_roll_back = False
        # records that cannot be copied
        self._rejection: Rejection | None = None  # why copying failed the last time, if records are the cause
        self._unreadable: Rejection | None = None  # the batch at the fetch offset, once all before it is copied
        self._pending_dead_letter: Rejection | None = None  # is being written to the dead-letter topic
        self._skip_offset = lease.skip_offset
        # losses, health, and the way out
        self.losses: list[Loss] = []  # the newest `LOSSES_KEPT`
        self.stopped_by = lease.stopped_by
        self._accepted = lease.accepted_loss
        self._recorded = lease.recorded_loss
        self._repeat, self._copied_until = lease.repeat, lease.copied_until
        self.is_draining = False
        self._health = PartitionHealth()
        self._metrics = metrics or PartitionMetrics()
        self.waits = PartitionWaits()  # written by `flows.source_task.bottleneck_watch`
        self._story = Story(self.fetch_step, now)

    # -- steps

    @property
    def fetch_step(self) -> FetchStep:  # noqa: PLR0911 - one line for each step
        """What the partition does at the source: the first of what applies."""
        if self.stopped_by is not None:
            return FetchStep.STOPPED
        if self.is_draining:
            return FetchStep.DRAINING
        if self._log.truncated_at is not None:
            return FetchStep.AWAITS_TRUNCATION
        if self._pending_dead_letter is not None:
            return FetchStep.AWAITS_DEAD_LETTER
        if self._unreadable is not None:
            return FetchStep.AWAITS_UNREADABLE
        if self._pause is not None:
            return FetchStep.PAUSED
        if self._memory_released:
            return FetchStep.MEMORY_RELEASED
        if self.is_full:
            return FetchStep.FULL
        if self._fetched_to is None:
            return FetchStep.AWAITS_START
        return FetchStep.FETCHING if self._limited_to is None else FetchStep.LIMITED

    @property
    def _limited_to(self) -> int | None:
        """The bytes per second for which fetching what the source has waits; None: it does not wait for a limit."""
        session = self._session
        return None if session is None or self.has_fetched_all else session.limited_to

    def send_step(self, now: float) -> SendStep:  # noqa: PLR0911 - one line for each step
        """What the partition does at the target: the first of what applies."""
        in_flight = self._in_flight
        if self._awaits_roll_back:
            return SendStep.ROLLING_BACK
        if self._pending_dead_letter is not None:
            return SendStep.AWAITS_DEAD_LETTER
        if self._awaits_size_limit is not None:
            return SendStep.AWAITS_SIZE_LIMIT
        if self._awaits_start:
            return SendStep.AWAITS_START_STORED
        if in_flight.has_failed:
            return SendStep.SETTLING
        if not self._retry.may_send(now):
            return SendStep.BACKOFF
        if self._packer.division_of(in_flight.first) is not None:
            return SendStep.DIVIDING
        if self.has_unsent and in_flight.producer_id is None:
            return SendStep.AWAITS_PRODUCER_ID
        if not self._can_pack:
            return SendStep.AWAITS_BOUNDARY
        if self._packer.is_unfinished:
            return SendStep.PACKING
        if self._in_query:
            return SendStep.WRITING if self._in_query.is_started else SendStep.AWAITS_QUERY
        if in_flight:
            return SendStep.IN_FLIGHT
        return SendStep.READY if self._fetched else SendStep.IDLE

    def why_not_fetching(self, now: float) -> str | None:
        """Return why nothing is fetched, as a message for operators; None: it is."""
        reason = self._fetch_reason(self.fetch_step)
        if self._pause is not None and self.fetch_step is FetchStep.PAUSED:
            return f"{reason}; next attempt in {max(0.0, self._pause.until - now):.1f} s"
        return reason

    def _fetch_reason(self, step: FetchStep) -> str | None:  # noqa: PLR0911 - one line for each step
        match step:
            case FetchStep.STOPPED:
                return self._error
            case FetchStep.DRAINING:
                return "the partition leaves this source task, which completes what is in flight"
            case FetchStep.AWAITS_TRUNCATION:
                at = self._log.truncated_at
                return f"the source's log was truncated at offset {at}: what is in flight is completed first"
            case FetchStep.AWAITS_DEAD_LETTER:
                return self._dead_letter_reason
            case FetchStep.AWAITS_UNREADABLE:
                unreadable = self._unreadable
                return None if unreadable is None else f"{unreadable.message}; what is before it is copied first"
            case FetchStep.PAUSED:
                return None if self._pause is None else self._pause.reason
            case FetchStep.MEMORY_RELEASED:
                return "the target does not acknowledge what is in flight, and other partitions need the memory"
            case FetchStep.FULL:
                return "the partition holds as many bytes as it may until the target acknowledges some"
            case FetchStep.AWAITS_START:
                return "no offset is stored: the source is asked for its first and last ones"
            case FetchStep.LIMITED:
                return f"limited by mm2.max.bytes.per.second: the source task's share is {self._limited_to:,} bytes/s"
            case FetchStep.FETCHING:
                return None

    def why_not_sending(self, now: float) -> str | None:
        """Return why nothing is sent, as a message for operators; None: it is, or nothing is to be sent."""
        step = self.send_step(now)
        reason = self._send_reason(step)
        if step is SendStep.BACKOFF:
            return f"{reason}; next attempt in {self._retry.seconds_left(now):.1f} s"
        return reason

    def _send_reason(self, step: SendStep) -> str | None:  # noqa: PLR0911 - one line for each step
        match step:
            case SendStep.ROLLING_BACK:
                return "the transaction is being aborted"
            case SendStep.AWAITS_DEAD_LETTER:
                return self._dead_letter_reason
            case SendStep.AWAITS_SIZE_LIMIT:
                return f"the target rejected a batch as too large: the limit of {self.target.topic} is being read"
            case SendStep.AWAITS_START_STORED:
                return f"the chosen start, offset {self.position}, is not stored yet"
            case SendStep.SETTLING:
                return "a batch failed: the answers to those that were sent after it are awaited"
            case SendStep.BACKOFF:
                return self._health.target_message or "the last attempt failed"
            case SendStep.DIVIDING:
                return "the target did not accept a batch, which is taken apart"
            case SendStep.AWAITS_PRODUCER_ID:
                return self._health.target_message or "a producer id is awaited from the target"
            case SendStep.AWAITS_BOUNDARY:
                end = self._in_flight.resend_boundary
                return f"the target may have a batch up to offset {end}, which is fetched again to repeat it"
            case SendStep.WRITING | SendStep.AWAITS_QUERY:
                return "records pass through the query"
            case SendStep.PACKING | SendStep.IN_FLIGHT | SendStep.READY | SendStep.IDLE:
                return None

    @property
    def _dead_letter_reason(self) -> str | None:
        letter = self._pending_dead_letter
        if letter is None:
            return None
        offsets = offsets_in_words(letter.first, letter.until)
        return f"{offsets} cannot be copied, and is being written to {self._options.dead_letters}: {letter.message}"

    def _note_steps(self, now: float) -> None:
        """Add to the story what has changed since the last call."""
        self._note_fetch_step(now)
        sending = self.send_step(now)
        self._story.entered(self._story.sending, sending, self._send_reason(sending), now)

    def _note_fetch_step(self, now: float) -> None:
        """The same for fetching only. Called for single batches, too, while they fill and empty the buffer."""
        self._now = now
        step, side = self.fetch_step, self._story.fetching
        if step in NOTED or step != side.step:
            self._story.entered(side, step, self._fetch_reason(step) if step in NOTED else None, now)

    # -- pace

    def is_behind(self, now: float, wall: float) -> bool:
        """Return whether records wait to be copied for longer than they need on their way (`BEHIND_AFTER_S`)."""
        if self.committed_position >= self.end_offset:
            if self._is_end_valid(now):
                self._update_caught_up(now)
            return False
        if now - self._caught_up_at < BEHIND_AFTER_S:
            return False
        oldest = self.oldest_pending
        return oldest < 0 or not 0 <= wall - oldest / 1000 < BEHIND_AFTER_S

    @property
    def source_is_silent(self) -> bool:
        """Whether it waits for a broker of the source that does not answer."""
        return self._health.is_waiting_for_source

    @property
    def target_is_silent(self) -> bool:
        """Whether it waits for a broker of the target that does not answer."""
        return self._health.is_waiting_for_target

    # -- fetching

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
        return self.fetch_step is FetchStep.AWAITS_START

    @property
    def _may_fetch(self) -> bool:
        step = self.fetch_step
        return step is FetchStep.FETCHING or step is FetchStep.LIMITED or step is FetchStep.AWAITS_START

    @property
    def has_fetched_all(self) -> bool:
        """Whether everything up to the last known end of the source is fetched."""
        return self._fetched_to is not None and self._fetched_to >= self.end_offset

    @property
    def epochs(self) -> EpochStarts:
        """The leader epochs of the records that were fetched, as far as they are known."""
        return self._log.epochs

    @property
    def last_fetched_epoch(self) -> int:
        """The leader epoch of the record before the fetch offset; -1: unknown."""
        return self._log.last_epoch

    # -- end offset: (I)

    @property
    def end_observed_at(self) -> float:
        """When the end offset was last observed; without one, when the partition started."""
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

    def _update_caught_up(self, now: float) -> None:
        """Record ``now`` as the last time the partition was caught up, if it is."""
        if self.committed_position >= self.end_offset >= 0:
            self._caught_up_at = now

    # -- sending

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
        """The number of batches whose answers are awaited."""
        return self._in_flight.in_flight

    @property
    def needs_producer_id(self) -> bool:
        """Whether nothing can be sent before `PartitionReplicator.set_producer_id`, which may be called now."""
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
        """Whether there is a batch to send, or to pack."""
        return self._in_flight.has_unsent or (bool(self._fetched) and self._can_pack)

    def can_send(self, now: float) -> bool:
        """Return whether `PartitionReplicator.next_batch` would return a batch, or continue to pack one."""
        if self._awaits_start or self._awaits_roll_back:
            return False
        if self._awaits_size_limit is not None or self._pending_dead_letter is not None:
            return False
        return self.has_unsent and self._retry.may_send(now) and self._in_flight.can_send

    def unanswered_for(self, now: float) -> float:
        """Return for how many seconds batches have been in flight, or a frame is being written, without an answer."""
        if self._in_query.is_started:
            return now - self._unanswered_since
        return self._in_flight.unanswered_for(now)

    @property
    def _can_pack(self) -> bool:
        """Whether everything that has to be packed into a repeated batch is fetched, and through the query."""
        if (frame := self._in_query.first) is not None:
            return frame.start >= (self._in_flight.resend_boundary or 0)
        return self._has_fetched_repeated

    @property
    def _has_fetched_repeated(self) -> bool:
        """Whether everything that has to be packed into a repeated batch is fetched."""
        return (self._fetched_to or 0) >= (self._in_flight.resend_boundary or 0)

    @property
    def is_packing(self) -> bool:
        """Whether packing was interrupted, and holds what it has made so far."""
        division = self._packer.division_of(self._in_flight.first)
        return self._packer.is_unfinished or (division is not None and division.steps is not None)

    @property
    def packs_heavily(self) -> bool:
        """Whether packing the next batch can take longer than a few steps."""
        if (division := self._packer.division_of(self._in_flight.first)) is not None:
            return division.batch.count > LIGHT_RECORDS
        if self._in_flight.has_unsent or not self._fetched:
            return False
        return self._packer.is_heavy(self._fetched, self._packed_to, self._in_flight.resend_boundary)

    @property
    def _packed_to(self) -> int:
        """The source offset up to which all records are packed or copied."""
        last = self._in_flight.last
        return self.position if last is None else last.next_offset

    @property
    def is_idle(self) -> bool:
        """Whether nothing is buffered, in flight, or being written to the dead-letter topic."""
        return not (self._in_flight or self._fetched or self._in_query or self._pending_dead_letter)

    @property
    def _is_routed(self) -> bool:
        """Whether the transform writes the records itself."""
        return self._options.transform is not None and self._options.transform.writes_itself

    def takes_more(self) -> bool:
        """Return whether the next part of a frame may arrive from the query."""
        return not self._can_pack or self.held_bytes - self._in_query.held_bytes < PARTS_HELD_BYTES

    def awaits(self, number: int) -> bool:
        """Return whether the result for the frame with this number is awaited; otherwise it was dropped meanwhile."""
        return self._in_query.has(number)

    # -- offset commits

    @property
    def committed_position(self) -> int:
        """The first offset that consumers of the target may not be able to read yet: (F)."""
        return self.position if self._uncommitted is None else self._uncommitted.position

    @property
    def has_uncommitted(self) -> bool:
        """Whether something was copied or left out in a transaction that is not committed yet."""
        return self._uncommitted is not None

    @property
    def needs_initial_commit(self) -> bool:
        """Whether an offset has to be stored before those of records that are copied now: (C)."""
        return self._initial_commit is not None

    @property
    def is_truncated(self) -> bool:
        """Whether the source's log was truncated at the position, and its offset is not stored yet."""
        return self.needs_initial_commit and self._initial_commit == self.position - 1

    @property
    def offset_to_commit(self) -> int | None:
        """The last offset that was copied or left out, or the one before the chosen start; None: there is none yet."""
        return self._last_copied if self._initial_commit is None else self._initial_commit

    @property
    def offsets_to_commit(self) -> tuple[int, ...]:
        """The source offsets to store in the transaction, in order: that of (C), then the last copied one."""
        initial, last = self._initial_commit, self._last_copied
        if initial is None:
            return () if last is None else (last,)
        return (initial,) if last is None or last == initial else (initial, last)

    @property
    def needs_commit(self) -> bool:
        """Whether a source offset is to be stored that is not."""
        offsets = self.offsets_to_commit
        return bool(offsets) and (self.needs_initial_commit or max(0, offsets[-1] + 1) != self._stored)

    @property
    def first_left(self) -> int:
        """The first offset that is neither copied nor part of the loss that stopped the partition; -1: unknown."""
        return self.position if self.stopped_by is None else max(self.position, self.stopped_by.until)

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
            repeat=self._repeat,
        )

    # -- moves of the position: (B)

    def _skip(self, checked: int, offset: int) -> None:
        """The position will move to ``offset``; offsets before ``checked`` have no records, the rest is unknown."""
        if checked < offset:
            self._skipped = OffsetRange(checked, offset)

    def _move_to(self, end: int) -> OffsetRange:
        """Move the position to ``end`` and return the offsets checked on the way."""
        start, skipped = max(self.position, 0), self._skipped
        self.position = end
        return OffsetRange(start, min(end, skipped.start) if start < skipped.end and skipped.start < end else end)

    def _copied(self, batch: TargetBatch) -> OffsetRange:
        """The target has this batch and all before it."""
        self._begin_transaction()
        # with a query, the records after its last one were dropped
        self._last_copied = batch.last_offset if self._options.transform is None else batch.next_offset - 1
        return self._move_to(batch.next_offset)

    def _left_out(self, until: int) -> OffsetRange:
        """What is before ``until`` is copied or left out. In a transaction it counts when that is committed."""
        self._begin_transaction()
        return self._passed_over(until)

    def _passed_over(self, until: int) -> OffsetRange:
        """What is before ``until`` is copied, or the query has dropped it."""
        self._last_copied = until - 1
        return self._move_to(until)

    def _move_back(self, offset: int) -> None:
        """Copy again from ``offset``, which is stored first: (C)."""
        self.position = offset
        self._last_copied = offset - 1
        if self._initial_commit is None or self._initial_commit >= offset:
            self._initial_commit = offset - 1
        self._skipped = OffsetRange(0, 0)
        uncommitted = self._uncommitted
        if uncommitted is not None and uncommitted.position > offset:  # committed records were truncated, too
            uncommitted.position, uncommitted.last_copied = offset, offset - 1
            uncommitted.initial_commit = self._initial_commit

    def _begin_transaction(self) -> None:
        if self.is_transactional and self._uncommitted is None:
            self._uncommitted = Uncommitted(self.position, self._last_copied, self._initial_commit)

    def lose(self, first: int, until: int, reason: str, *, kind: LossKind) -> bool:
        """Report that offsets from ``first`` up to, not including, ``until`` can no longer be copied.

        Of kind TRUNCATED: that the target has them, and the source does not any more.

        Returns whether copying may continue. False: mm2.on.data.loss stops it until an operator accepts the loss; the
        position must not move over it.
        """
        topic_id, policy = self.topic_ids.source, self._options.policy
        if kind is LossKind.RETENTION and first < self._copied_until:  # copied again, so the target has it
            known = min(until, self._copied_until)
            text = f"deleted on the source before it was copied again; the target has the first copies: {reason}"
            self._story.add(f"{offsets_in_words(first, known)}: {text}", self._now)
            first = known
            if first == until:
                return True
        loss = Loss(
            topic=self.source.topic,
            partition=self.source.partition,
            first=first,
            until=until,
            reason=reason,
            kind=kind,
            topic_id=None if topic_id is None else str(topic_id),
            remote_topic=self.target.topic,
        )
        before = self.losses[-1] if self.losses else None
        loss = add_loss(self.losses, policy.applied(loss, before, self._accepted, self._recorded))
        if loss.awaits_acceptance:
            self.stopped_by = loss
        self._story.add(f"{kind}: {offsets_in_words(first, until)}: {reason}", self._now)
        self._report_loss(loss)
        return self.stopped_by is None

    def _report_loss(self, loss: Loss) -> None:
        raise NotImplementedError

    # -- reports

    def progress(self, now: float, wall: float, *, stopped: bool = False) -> PartitionProgress:
        """Return the progress to report; ``stopped``: the partition has left the source task."""
        stopped_at = self._stopped_at
        self._note_steps(now)
        story = self._story
        story.at(now, wall)
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
            error=self._error,
            stopped_at=stopped_at.first if stopped_at is not None else None,
            stopped_until=stopped_at.until if stopped_at is not None else None,
            counters=PartitionCounters.of(self._metrics.values),
            fetching=story.report(story.fetching, self._fetch_reason(self.fetch_step)),
            sending=story.report(story.sending, self._send_reason(self.send_step(now))),
            last_minute=self.waits.recent(now),
        )

    def take_events(self, now: float, wall: float) -> list[PartitionEvent]:
        """Return the events since the last call, to be reported once."""
        self._story.at(now, wall)
        return self._story.take_news(self.source)

    def progress_key(self, now: float) -> tuple[object, ...] | None:
        """Return a key that changes with `progress`. None: the partition lags, and its lag changes with time."""
        position = self.committed_position
        if position < self.end_offset:
            return None
        self._note_steps(now)
        metrics, story = self._metrics, self._story
        counts = (metrics.records, metrics.latency_count, metrics.age_count, metrics.dead_letters, metrics.rows_in)
        end = self.end_offset, self._is_end_valid(now)
        steps = story.fetching.step, story.sending.step
        waits = self.waits.recent(now)
        return (position, *end, self._stored, *counts, self._task_state, self._error, *steps, waits)

    @property
    def _stopped_at(self) -> Rejection | None:
        """The records that have stopped the partition."""
        return self._rejection if self._health.is_stopped else None

    @property
    def _error(self) -> str | None:
        return self._health.message if self.stopped_by is None else self._options.policy.message(self.stopped_by)

    @property
    def _task_state(self) -> TaskState:
        if self._health.is_failed or self.stopped_by is not None:
            return TaskState.FAILED
        if self.is_draining:
            return TaskState.DRAINING
        return TaskState.WAITING if self.end_offset < 0 or self._health.is_waiting else TaskState.RUNNING

    @property
    def oldest_pending(self) -> int:
        """Largest timestamp (epoch ms) of the first batch buffered or in flight; -1 if there is none."""
        if (first := self._in_flight.first) is not None:
            return first.max_timestamp
        if self._fetched:
            return self._fetched[0].header.max_timestamp
        return frame.batches[0].header.max_timestamp if (frame := self._in_query.first) is not None else -1

    def _lag_seconds(self, now: float, wall: float) -> float:
        """Return 0 if caught up, otherwise the age of the first batch not yet copied, by its timestamp.

        While that is unknown, the time since the partition was last caught up.
        """
        if self.committed_position >= self.end_offset:
            return 0.0
        oldest = self.oldest_pending
        return max(0.0, wall - oldest / 1000 if oldest >= 0 else now - self._caught_up_at)

    # -- invariants

    def validate(self) -> None:
        """Check the invariants that can be checked from inside. Raises InvariantError with the story."""
        self._note_steps(self._now)
        for letter, broken in self._broken_invariants():
            if broken:
                raise InvariantError(f"{self.source}: ({letter}) does not hold: {self._figures}\n{self._story}")

    def _broken_invariants(self) -> Iterable[tuple[str, bool]]:
        in_flight, fetched, stored = self._in_flight, self._fetched, self._stored
        yield from in_flight.broken_invariants()
        yield "A", not self.needs_initial_commit and stored is not None and stored > max(0, self.position)
        yield "F", self.committed_position > max(0, self.position)
        yield "F", not self.is_transactional and self.has_uncommitted
        ends = [self._packed_to, *(batch.next_offset for batch in fetched)]
        if (frame := self._in_query.first) is not None:
            ends += [max(ends[-1], frame.start), self._in_query.end]
        yield "G", any(end < start for start, end in pairwise(ends))
        is_held = self._fetched_to is None or ends[-1] <= self._fetched_to
        yield "G", not is_held
        parts = in_flight.held_bytes + sum(batch.held_bytes for batch in fetched) + self._in_query.held_bytes
        yield "H", self.held_bytes != parts
        yield "J", self._pending_dead_letter is not None and bool(in_flight.in_flight)
        yield "J", self._awaits_size_limit is not None and bool(in_flight.in_flight)
        yield "J", self.is_full and self._memory_released
        yield "J", self._story.unexpected is not None

    @property
    def _figures(self) -> str:
        ends = [batch.next_offset for batch in self._fetched]
        return (
            f"position {self.position}, stored {self._stored}, packed to {self._packed_to}, fetched to"
            f" {self._fetched_to}, held {self.held_bytes} B, in flight {len(self._in_flight)}, fetched {ends},"
            f" {self.fetch_step}, {self.send_step(self._now)}"
        )
