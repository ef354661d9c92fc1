"""A source partition, a target partition by the rules of an idempotent broker (KIP-98), and the way between them, which
loses and delays. Written from the protocol, without the program's own batch code."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from flows.batch.choice import BatchRules, Reason
from flows.batch.outgoing import Outgoing, ProducerId
from flows.copy import PartitionCopy
from flows.line import Place
from flows.outcomes import DUPLICATE, refused, unanswered
from flows.report import progress_of
from flows.surroundings import Seen
from mm2.core.exact_offset_journal import ExactOffsetJournal
from mm2.core.exact_offset_records import TopicIds
from mm2.core.lease import PartitionLease
from mm2.core.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import ConnectionLost, Unreachable
from mm2.kafka.raw_fetch import FetchedPartition
from tests.lab.batches import HEADER, Batch, Record, read

REMEMBERED = 5  # batches a broker knows of a producer


@dataclass
class Source:
    """The source's log of one partition."""

    log: Sequence[Batch]
    markers: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.blobs = [(HEADER.unpack_from(raw), raw) for raw in (batch.encode() for batch in self.log)]
        last = self.blobs[-1][0]
        self.end = last[0] + last[6] + 1
        self.records = [record for batch in self.log for record in read(batch.encode())]

    def fetch(self, offset: int, max_bytes: int) -> FetchedPartition:
        out = b""
        for fields, raw in self.blobs:
            if fields[0] + fields[6] < offset:
                continue
            if out and len(out) + len(raw) > max_bytes:
                break
            out += raw
        return FetchedPartition(
            topic="t",
            partition=0,
            error=0,
            high_watermark=self.end,
            last_stable_offset=self.end,
            log_start_offset=0,
            aborted=(),
            preferred_replica=-1,
            records=out,
        )


@dataclass
class Target:
    """The target's log of one partition and what its broker remembers of producers.

    A ``forgetful`` one is of the time before KIP-360: it forgets, and tells a producer it does not know so.
    """

    rng: random.Random
    max_bytes: int
    faulty: bool = True
    forgetful: bool = False
    refuses_all: int = 0  # an error code, for as long as an outage lasts
    records: list[Record] = field(default_factory=list)
    producers: dict[int, deque[tuple[int, int, int]]] = field(default_factory=dict)  # first, last sequence, base offset

    def produce(self, raw: bytes) -> tuple[int, int]:
        """(error code, base offset)."""
        if self.refuses_all:
            return self.refuses_all, -1
        if self.faulty:
            fault = self.rng.random()
            if fault < 0.1:
                return ErrorCode.NOT_ENOUGH_REPLICAS, -1
            if fault < 0.15:
                self._append(raw)
                return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1
            if fault < 0.2 and self.forgetful:
                self.producers.clear()
            if fault < 0.22:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        return self._append(raw)

    def _append(self, raw: bytes) -> tuple[int, int]:
        fields = HEADER.unpack_from(raw)
        producer, sequence, count = fields[9], fields[11], fields[12]
        assert (fields[0], fields[6] + 1) == (0, count)
        if len(raw) > self.max_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        if producer >= 0:
            known = self.producers.get(producer)
            if not known and sequence and self.forgetful:
                return ErrorCode.UNKNOWN_PRODUCER_ID, -1
            last = (sequence + count - 1) & 0x7FFFFFFF
            if known:
                for first_known, last_known, base in known:
                    if (first_known, last_known) == (sequence, last):
                        return 0, base
                if sequence != (known[-1][1] + 1) & 0x7FFFFFFF:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.producers.setdefault(producer, deque(maxlen=REMEMBERED)).append((sequence, last, len(self.records)))
        base = len(self.records)
        self.records += [record._replace(offset=base + record.offset) for record in read(raw)]
        return 0, base


class World:
    """Plays one partition's slot. Requests reach the target in the order they were sent, answers come in order."""

    def __init__(
        self,
        source: Source,
        target: Target,
        rng: random.Random,
        *,
        start: int | None = 0,
        rules: BatchRules | None = None,
        idempotent: bool = True,
        max_held: int = 20_000,
        fetch_bytes: int = 4_000,
    ) -> None:
        self.source, self.target, self.rng = source, target, rng
        self.now = 0.0
        self.held = 0
        self.fetch_bytes = fetch_bytes
        self.idempotent = idempotent
        self.next_producer = 1
        self.acknowledged_runs: list[tuple[int, int, int]] = []
        self.journal = ExactOffsetJournal(TopicPartition("t", 0), topic_ids=TopicIds())
        self.alarms: list[float] = []
        self.fetches: deque[int] = deque()
        self.requests: deque[tuple[Place, bytes]] = deque()
        self.answers: deque[tuple[Place, tuple[int, int] | None]] = deque()
        backoff = Backoff(100, 1000, generator=random.Random(1))
        self.copy = PartitionCopy(
            PartitionLease(topic="t", partition=0, remote_topic="A.t", start_offset=start),
            self,
            rules=rules or BatchRules(),
            max_in_flight=5,
            max_held=max_held,
            check_crcs=True,
            source_backoff=backoff,
            target_backoff=Backoff(100, 1000, generator=random.Random(1)),
            counts=Counter[Reason](),
            now=0.0,
        )

    # -- Surroundings

    def release(self, count: int) -> None:
        self.held -= count
        assert self.held >= 0

    def fetch_changed(self, copy: PartitionCopy) -> None: ...

    def send_changed(self, copy: PartitionCopy) -> None: ...

    def wake_later(self, copy: PartitionCopy, delay: float) -> None:
        self.alarms.append(self.now + delay)

    def passed(self, copy: PartitionCopy, seen: Seen) -> None:
        self.journal.passed(seen.since, seen.until)

    def acknowledged(self, copy: PartitionCopy, batch: Outgoing, base_offset: int, seen: Seen) -> None:
        if base_offset < 0:
            self.journal.acked_somewhere(until=seen.until)
        else:
            self.journal.acked(batch.runs, base_offset, since=seen.since, until=seen.until)
            for first, count in batch.runs:
                self.acknowledged_runs.append((first, base_offset, count))
                base_offset += count

    # -- steps

    def step(self) -> None:
        """Something happens, at random among what can."""
        can = [self._pass_time]
        if self.copy.inlet.wanted is not None and not self.fetches:
            can.append(self._fetch)
        if self.fetches:
            can.append(self._fetched)
        if self.copy.outlet.line.producer is None:
            can.append(self._adopt)
        if self.copy.sendable(self.now):
            can += [self._send] * 3
        if self.requests:
            can += [self._process] * 2
        if self.answers:
            can += [self._answer] * 2
        if self.target.faulty and self.requests and self.rng.random() < 0.05:
            can = [self._break]
        if self.target.faulty and self.rng.random() < 0.02:
            can = [self._outage_begins_or_ends]
        if self.rng.random() < 0.01:
            can = [self.copy.shed]
        self.rng.choice(can)()
        self.check()

    def _outage_begins_or_ends(self) -> None:
        if self.target.refuses_all:
            self.target.refuses_all = 0
        else:
            self.target.refuses_all = self.rng.choice([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_TIMESTAMP])

    def check(self) -> None:
        copy = self.copy
        assert copy.held == self.held
        assert copy.outlet.line.in_flight == len(self.requests) + len(self.answers)
        assert copy.outlet.line.in_flight <= 5

    def _fetch(self) -> None:
        offset = self.copy.inlet.wanted
        assert offset is not None
        self.fetches.append(offset)

    def _fetched(self) -> None:
        offset = self.fetches.popleft()
        answer = self.source.fetch(offset, self.rng.randint(1, self.fetch_bytes))
        self.held += self.copy.arrived(offset, answer, self.source.end, self.now, self.now)

    def _adopt(self) -> None:
        if self.copy.outlet.line.in_flight:
            return
        producer = ProducerId(self.next_producer, 0) if self.idempotent else ProducerId(-1, -1)
        self.next_producer += 1
        self.copy.adopt(producer)

    def _send(self) -> None:
        place = self.copy.take(self.now)
        if place is not None:
            self.requests.append((place, b"".join(place.batch.wire())))

    def _process(self) -> None:
        place, raw = self.requests.popleft()
        self.answers.append((place, self.target.produce(raw)))

    def _answer(self) -> None:
        place, result = self.answers.popleft()
        if result is None:
            self.copy.refused(place, unanswered(ConnectionLost("the connection broke")), self.now)
        elif result[0] == 0:
            self.copy.acked(place, result[1], self.now, self.now)
        elif result[0] == DUPLICATE:
            self.copy.acked(place, -1, self.now, self.now)
        else:
            self.copy.refused(place, refused(result[0], None, ()), self.now)

    def _break(self) -> None:
        """The connection breaks: some requests were carried out, some not, and no answer comes any more."""
        carried_out = self.rng.randint(0, len(self.requests))
        for index, (place, raw) in enumerate(self.requests):
            if index < carried_out:
                self.target.produce(raw)
            self.answers.append((place, None))
        self.requests.clear()
        self.answers = deque((place, None) for place, _ in self.answers)
        if self.rng.random() < 0.5 and not self.copy.outlet.line.in_flight:
            self.copy.unroutable(unanswered(Unreachable("nobody there")), self.now)

    def _pass_time(self) -> None:
        self.now += self.rng.choice([0.001, 0.01, 0.1, 0.5, 3.0 if self.target.refuses_all else 0.1])
        self._ring()

    def _ring(self) -> None:
        due = [alarm for alarm in self.alarms if alarm <= self.now]
        self.alarms = [alarm for alarm in self.alarms if alarm > self.now]
        for _ in due:
            self.copy.wake(self.now)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def finish(self) -> None:
        """The faults are over: run until everything is copied."""
        self.target.faulty = False
        self.target.refuses_all = 0
        for _ in range(20_000):
            if self.copy.headway.position >= self.source.end and self.copy.idle:
                return
            self.step()
            if self.alarms and not self.copy.sendable(self.now):
                self.now = max(self.now, min(self.alarms))
                self._ring()
        raise AssertionError(f"not copied: {progress_of(self.copy, self.now, self.now)}")


def contents(records: Sequence[Record]) -> list[tuple[object, ...]]:
    """What must be the same on both sides: all but the offset."""
    return [record[1:] for record in records]
