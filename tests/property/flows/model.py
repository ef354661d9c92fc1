"""Model of the source task of one partition, with an unreliable connection to the target."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flows.batch.choice import BatchRules, Reason
from flows.batch.target_batch import ProducerId, TargetBatch
from flows.partition.frames_in_query import FRAME_BYTES
from flows.partition.health import PartitionMetrics
from flows.partition.in_flight import InFlightBatch
from flows.partition.rejection import Rejection
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import OffsetRange, PartitionOptions
from flows.partition.timeouts import TIMER_TOLERANCE_S
from flows.target.produce_errors import DUPLICATE, from_exception, from_response
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import Loss, LossPolicy
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.kafka.backoff import Backoff
from mm2.kafka.errors import ConnectionLost, Unreachable
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.lab.batches import Record
from tests.lab.partition_callbacks import callbacks_to
from tests.property.flows.model_partitions import Source, Target
from tests.property.flows.model_query import ModelQuery


class World:
    """The source task of one partition.

    Requests reach the target in the order in which they were sent, and responses arrive in order.

    `flows.source.fetcher` and `flows.target.producer` read what to fetch and to send only when the partition tells that
    this has changed; the fetch offset also after each fetch response. So each step checks that whatever is possible
    was told: otherwise the partition would stand still.
    """

    def __init__(
        self,
        source: Source,
        target: Target,
        rng: random.Random,
        *,
        start: int | None = 0,
        rules: BatchRules | None = None,
        idempotent: bool = True,
        max_held_bytes: int = 20_000,
        fetch_bytes: int = 4_000,
        dead_letters: str | None = None,
        query: ModelQuery | None = None,
        frame_bytes: int = FRAME_BYTES,
        policy: LossPolicy | None = None,
    ) -> None:
        self._frame_bytes = frame_bytes
        self._policy = policy
        self.metrics = PartitionMetrics()
        self.source, self.target, self.rng, self.query = source, target, rng, query
        self.now = 0.0
        self.held = 0
        self.fetch_bytes = fetch_bytes
        self.idempotent = idempotent
        self.next_producer = 1
        self.acknowledged_runs: list[tuple[int, int, int]] = []
        self.drained_partitions = 0
        self.limit_wanted = False
        self.journal = ExactOffsetJournal(TopicPartition("t", 0), topic_ids=TopicIds())
        self.alarms: list[float] = []
        self.fetches: deque[int] = deque()
        self.requests: deque[tuple[InFlightBatch, bytes]] = deque()
        self.answers: deque[tuple[InFlightBatch, bytes, tuple[int, int] | None]] = deque()
        self.pending_letter: Rejection | None = None
        self.letters: list[Rejection] = []
        self._is_fetch_read = self._is_offered = False
        self._fetch_read: tuple[int | None, bool, int] = None, False, -1
        self._rules, self.max_held_bytes, self._dead_letters = rules or BatchRules(), max_held_bytes, dead_letters
        self.replicator = self.new_replicator(start)

    def new_replicator(self, start: int | None, **lease: Any) -> PartitionReplicator:
        return PartitionReplicator(
            PartitionLease(topic="t", partition=0, remote_topic="A.t", start_offset=start, **lease),
            callbacks_to(self),
            PartitionOptions(
                rules=self._rules,
                max_in_flight=5,
                max_held_bytes=self.max_held_bytes,
                check_crcs=True,
                dead_letters=self._dead_letters,
                policy=self._policy or LossPolicy(),
                transform=self.query,
                frame_bytes=self._frame_bytes,
            ),
            source_backoff=Backoff(100, 1000, generator=random.Random(1)),
            target_backoff=Backoff(100, 1000, generator=random.Random(1)),
            counts=Counter[Reason](),
            now=self.now,
            metrics=self.metrics,
        )

    # -- PartitionCallbacks

    def release(self, count: int) -> None:
        self.held -= count
        assert self.held >= 0

    def fetch_changed(self, replicator: PartitionReplicator) -> None:
        self._is_fetch_read = False

    def send_changed(self, replicator: PartitionReplicator) -> None:
        self._is_offered = True

    def lost(self, replicator: PartitionReplicator, loss: Loss) -> None:
        assert loss in replicator.losses

    def drained(self, replicator: PartitionReplicator) -> None:
        assert replicator.is_idle
        self.drained_partitions += 1

    def size_rejected(self, replicator: PartitionReplicator) -> None:
        assert not replicator.can_send(self.now)
        self.limit_wanted = True

    def _read_limit(self) -> None:
        self.limit_wanted = False
        self.replicator.size_limit_read(self.rng.choice([self.target.max_bytes, None]), self.now)

    def start_chosen(self, replicator: PartitionReplicator) -> None:
        assert replicator.offset_to_commit is not None

    def remote_end_moved_back(self, replicator: PartitionReplicator) -> None:
        assert self.target.forgetful, "only a batch that was appended twice can be acknowledged at its older offset"

    def wake_later(self, replicator: PartitionReplicator, delay: float) -> None:
        self.alarms.append(self.now + delay)

    def truncated(self, replicator: PartitionReplicator, offset: int) -> None:
        self.journal.truncated(offset)

    def skipped(self, replicator: PartitionReplicator, checked: OffsetRange) -> None:
        self.journal.passed(checked.start, checked.end)

    def dead_letter(self, replicator: PartitionReplicator, rejection: Rejection) -> None:
        assert self.pending_letter is None
        assert self.replicator.batches_in_flight == 0
        self.pending_letter = rejection

    def left_out(self, replicator: PartitionReplicator, checked: OffsetRange) -> None:
        self.journal.passed(checked.start, checked.end)

    def passed_over(self, replicator: PartitionReplicator, checked: OffsetRange) -> None:
        self.journal.passed(checked.start, checked.end)

    def acknowledged(
        self, replicator: PartitionReplicator, batch: TargetBatch, base_offset: int, checked: OffsetRange
    ) -> None:
        if base_offset < 0:
            self.journal.acked_somewhere(until=checked.end)
        else:
            self.journal.acked(batch.runs, base_offset, since=checked.start, until=checked.end)
            for first, count in batch.runs:
                self.acknowledged_runs.append((first, base_offset, count))
                base_offset += count

    # -- steps

    def step(self) -> None:
        """Perform one random step among those that are possible."""
        can: list[Callable[[], None]] = [self._pass_time]
        can += self._source_steps()
        if self.replicator.needs_producer_id:
            can.append(self._adopt)
        if self.replicator.can_send(self.now):
            can += [self._send] * 3
        if self.limit_wanted:
            can.append(self._read_limit)
        if self.requests:
            can += [self._process] * 2
        if self.answers:
            can += [self._answer] * 2
        if self.pending_letter is not None:
            can += [self._write_letter] * 2
        if self.query is not None and self.query.frames:
            can += [self._transform] * 2
        if self.target.faulty and self.requests and self.rng.random() < 0.05:
            can = [self._break]
        if self.target.faulty and self.rng.random() < 0.02:
            can = [self._outage_begins_or_ends]
        if self.rng.random() < 0.01:
            can = [partial(self.replicator.release_memory, self.now), partial(self.replicator.leader_changed, self.now)]
        action = self.rng.choice(can)
        if action == self._fetched:
            self._is_fetch_read = False
        action()
        self.check()

    def _source_steps(self) -> list[Callable[[], None]]:
        if self.fetches:
            return [self._fetched]
        return [self._fetch] if self.replicator.fetch_offset is not None else []

    def _outage_begins_or_ends(self) -> None:
        if self.target.rejects_all:
            self.target.rejects_all = 0
        else:
            self.target.rejects_all = self.rng.choice(
                [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            )

    def check(self) -> None:
        replicator = self.replicator
        replicator.validate()
        assert replicator.held_bytes == self.held
        assert replicator.batches_in_flight == len(self.requests) + len(self.answers)
        assert replicator.batches_in_flight <= 5
        self._check_told()

    def _check_told(self) -> None:
        """Check that whatever is possible was told."""
        replicator = self.replicator
        wanted = replicator.fetch_offset, replicator.needs_start_offset, replicator.last_fetched_epoch
        is_paused = wanted[:2] == (None, False)  # at the latest the next fetch response shows it
        if is_paused or not self._is_fetch_read:
            self._is_fetch_read, self._fetch_read = True, wanted
        assert wanted == self._fetch_read, "told that fetching has changed"
        if not replicator.can_send(self.now):
            self._is_offered = False
        elif not self._is_offered:
            assert any(alarm <= self.now + TIMER_TOLERANCE_S for alarm in self.alarms), "told of a batch to send"

    def _fetch(self) -> None:
        offset = self.replicator.fetch_offset
        assert offset is not None
        self.fetches.append(offset)

    def _fetched(self) -> None:
        offset = self.fetches.popleft()
        answer = self.source.fetch(offset, self.rng.randint(1, self.fetch_bytes))
        self.held += self.replicator.fetched(offset, answer, self.source.end, self.now, self.now)

    def _adopt(self) -> None:
        producer = ProducerId(self.next_producer, 0) if self.idempotent else ProducerId(-1, -1)
        self.next_producer += 1
        self.replicator.set_producer_id(producer)

    def _send(self) -> None:
        self._is_offered = False
        entry = self.replicator.next_batch(self.now, self._is_turn_over)
        self._is_offered |= self.replicator.is_packing
        if entry is not None:
            self._is_offered |= self.replicator.can_send(self.now)
            self.requests.append((entry, b"".join(entry.batch.wire())))

    def _is_turn_over(self) -> bool:
        return False

    def _process(self) -> None:
        entry, raw = self.requests.popleft()
        self.answers.append((entry, raw, self.target.produce(raw)))

    def _answer(self) -> None:
        entry, raw, result = self.answers.popleft()
        if result is None:
            self.replicator.produce_failed(entry, from_exception(ConnectionLost("the connection was lost")), self.now)
        elif result[0] == 0:
            self.replicator.acknowledged(entry, result[1], self.now, self.now)
        elif result[0] == DUPLICATE:
            self.replicator.acknowledged(entry, -1, self.now, self.now)
        else:
            rejected = self.target.rejected_indexes(raw) if result[0] == ErrorCode.INVALID_RECORD else []
            self.replicator.produce_failed(entry, from_response(result[0], None, rejected), self.now)

    def _write_letter(self) -> None:
        letter = self.pending_letter
        assert letter is not None
        fate = self.rng.random() if self.target.faulty else 1.0
        if fate < 0.2:
            self.replicator.dead_letter_delayed("slow", self.now)
        elif fate < 0.3:
            self.pending_letter = None
            self.replicator.dead_letter_failed(letter, "rejected", self.now)
        else:
            self.pending_letter = None
            self.letters.append(letter)
            self.replicator.dead_letter_written(letter, self.now)

    def _transform(self) -> None:
        assert self.query is not None
        self.query.complete_oldest(self.now)

    def expected(self, records: Sequence[Record]) -> list[tuple[object, ...]]:
        """Return what the target has to have of these source records."""
        wanted = [one for one in records if one.key not in self.target.refused]
        return contents(wanted if self.query is None else self.query.results(wanted))

    def _break(self) -> None:
        """Close the connection: a random number of requests were executed, and no response arrives."""
        carried_out = self.rng.randint(0, len(self.requests))
        for index, (entry, raw) in enumerate(self.requests):
            if index < carried_out:
                self.target.produce(raw)
            self.answers.append((entry, raw, None))
        self.requests.clear()
        self.answers = deque((entry, raw, None) for entry, raw, _ in self.answers)
        if self.rng.random() < 0.5 and not self.replicator.batches_in_flight:
            self.replicator.leader_unavailable(from_exception(Unreachable("no listener")), self.now)

    def _pass_time(self) -> None:
        self.now += self.rng.choice([0.001, 0.01, 0.1, 0.5, 3.0 if self.target.rejects_all else 0.1])
        self._fire_alarm()

    def _fire_alarm(self) -> None:
        due = [alarm for alarm in self.alarms if alarm <= self.now]
        self.alarms = [alarm for alarm in self.alarms if alarm > self.now]
        for _ in due:
            self.replicator.wake(self.now)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    @property
    def is_copied(self) -> bool:
        return bool(self.replicator.position >= self.source.end)

    def finish(self) -> None:
        """Stop all faults and run until everything is copied."""
        self.target.faulty = False
        self.target.rejects_all = 0
        for _ in range(20_000):
            if self.is_copied and self.replicator.is_idle:
                return
            self.step()
            if self.alarms and not self.replicator.can_send(self.now):
                self.now = max(self.now, min(self.alarms))
                self._fire_alarm()
        raise AssertionError(f"not copied: {self.replicator.progress(self.now, self.now)}")


def contents(records: Sequence[Record]) -> list[tuple[object, ...]]:
    """Return what must be equal on both sides: everything but the offset."""
    return [record[1:] for record in records]
