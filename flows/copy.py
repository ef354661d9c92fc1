"""One partition between source and target: what is to be fetched, what waits, what is on its way, and how it fares."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from flows.batch.choice import BatchRules, Reason, for_long_link
from flows.batch.header import CorruptBatchError
from flows.batch.outgoing import Outgoing, ProducerId, SourceBatch
from flows.batch.pack import pack, repack, split
from flows.inlet import Inlet
from flows.line import Line, Place
from flows.outcomes import Refusal, Verdict, sentence
from flows.patience import CORRUPT_ATTEMPTS, DOUBT_AFTER_S, FAILED_RETRY_S, LONG_LINK_S
from flows.setbacks import Setbacks
from flows.starts import CannotStart, GoOn
from flows.surroundings import Surroundings
from flows.tally import Tally, Trouble
from mm2.core.lease import Loss, PartitionLease
from mm2.core.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.raw_fetch import FetchedPartition


class PartitionCopy:
    """A state machine without I/O and clock. ``now`` is monotonic seconds, ``wall`` epoch seconds.

    (A) ``position`` is the first source offset not known to be copied; no record at or after it counts as stored.
    (B) Inlet and line hold everything from ``position`` up to where fetching goes on, in order, except what carries no
        data.
    (C) ``held`` bytes are counted in the lane's budget and given back exactly once.
    (D) A refused batch is tried again, split, or named in ``trouble``; it is never passed over.
    """

    def __init__(
        self,
        lease: PartitionLease,
        surroundings: Surroundings,
        *,
        rules: BatchRules,
        max_in_flight: int,
        max_held: int,
        check_crcs: bool,
        source_backoff: Backoff,
        target_backoff: Backoff,
        counts: Counter[Reason],
        now: float,
    ) -> None:
        self.source = TopicPartition(lease.topic, lease.partition)
        self.target = TopicPartition(lease.remote_topic, lease.partition)
        self.position = -1 if lease.start_offset is None else lease.start_offset
        self.stored = lease.start_offset
        self.last_copied: int | None = None
        self.end_offset = -1
        self.held = 0
        self.losses: list[Loss] = []
        self.trouble = Trouble()
        self.tally = Tally()
        self.caught_up = now
        self._around = surroundings
        self._rules = rules
        self._far_rules = for_long_link(rules)
        self._max_held = max_held
        self._inlet = Inlet(lease.start_offset, check_crcs=check_crcs)
        self._line = Line(max_in_flight=max_in_flight)
        self._source_backoff = source_backoff
        self._setbacks = Setbacks(target_backoff)
        self._counts = counts
        self._limit: int | None = None  # the target refused batches not much larger
        self._cuts: deque[int] = deque()  # where batches ended that were sent, given back, and are to be sent again
        self._corrupt_fetches = 0
        self._last_ack = self._sent_since = now
        self._quickest_ack = 0.0

    # -- the source's side

    @property
    def fetch_from(self) -> int | None:
        """The offset to fetch from; None while nothing is to be fetched, or it is not known from where."""
        return self._inlet.wanted

    @property
    def fetch_offset(self) -> int | None:
        """Where fetching goes on, now or later; None while that is not known."""
        return self._inlet.offset

    @property
    def full(self) -> bool:
        """Whether only acknowledgements are waited for until fetching goes on."""
        return self._inlet.full

    @property
    def needs_start(self) -> bool:
        """Whether an offset has to be chosen (``start_at``) before anything can be fetched."""
        return self._inlet.offset is None and self._inlet.open

    @property
    def probing(self) -> bool:
        """Whether the target refused the last attempt, so that one batch is enough to find out."""
        return self._setbacks.any

    def start_at(self, start: GoOn | CannotStart, now: float) -> None:
        """An offset was chosen for a partition that has none, or whose offset is gone."""
        if isinstance(start, CannotStart):
            self.fetch_failed(f"fetch {self.source}: {start.reason}", now)
            return
        if start.lost is not None:
            topic, partition, (first, until) = self.source.topic, self.source.partition, start.lost
            self.losses.append(Loss(topic=topic, partition=partition, first=first, until=until, reason=start.reason))
        self._inlet.offset = start.offset
        self._skip_to(start.offset, now)
        self._around.fetch_changed(self)

    def arrived(self, asked: int, fetched: FetchedPartition, end_offset: int, now: float, wall: float) -> int:
        """Part of a fetch answer without error, asked for at ``asked``; returns the bytes of it that are kept."""
        if asked != self._inlet.wanted:
            return 0  # meanwhile the offset changed or fetching stopped
        self.trouble.fetched()
        self._source_backoff.reset()
        if end_offset >= 0:
            self.end_offset = end_offset
        kept = self._take_in(asked, fetched, now, wall) if fetched.records else 0
        self._note_caught_up(now)
        return kept

    def _take_in(self, asked: int, fetched: FetchedPartition, now: float, wall: float) -> int:
        intake = self._inlet.take_in(fetched, wall)
        if intake.skipped is not None:
            self._skip_to(intake.skipped, now)
        kept = 0
        if intake.batches:
            kept = intake.batches[-1].held
            self.held += kept
            self._inlet.queue.extend(intake.batches)
            self._inlet.full = self.held >= self._max_held and self._enough
            self.tally.arrived(intake.batches)
            self._around.send_changed(self)
        if intake.next_offset > asked:
            self._corrupt_fetches = 0
        elif intake.trouble is not None:
            self._unreadable(intake.trouble, asked, now)
        return kept

    def _unreadable(self, trouble: Exception, offset: int, now: float) -> None:
        self._corrupt_fetches += 1
        words = f"fetch {self.source}: {trouble}"
        if isinstance(trouble, CorruptBatchError) and self._corrupt_fetches < CORRUPT_ATTEMPTS:
            self.fetch_troubled(words, now)
        else:
            self.trouble.cannot_copy(offset, words)
            self._park(FAILED_RETRY_S, now)

    def fetch_failed(self, words: str, now: float) -> None:
        """Fetching is not possible until something changes at the source: FAILED, and tried again now and then."""
        self.trouble.cannot_fetch(words)
        self._park(FAILED_RETRY_S, now)

    def fetch_troubled(self, words: str, now: float) -> None:
        """Fetching did not work this time."""
        self.trouble.source_passing(words)
        self._park(self._source_backoff.next(), now)

    def _park(self, delay: float, now: float) -> None:
        self._inlet.park(now + delay)
        self._around.fetch_changed(self)
        self._around.wake_later(self, delay)

    def wake(self, now: float) -> None:
        """A pause may be over."""
        if self._inlet.unpark(now):
            if self.trouble.failed:
                self._limit = None  # the target's limit may be another one now
            self._around.fetch_changed(self)
        self._around.send_changed(self)

    def shed(self) -> None:
        """Give back all that is held. Of what is in flight the answers are still wanted; what the target does not take,
        and what was not sent, is fetched again."""
        if not self._line.in_flight:
            self._start_over()
            return
        self._give_back(self._inlet.give_back(self._packed_to) + self._line.hollow())
        self._inlet.shed, self._inlet.full = True, False
        self._around.fetch_changed(self)

    def drain(self) -> None:
        """Fetch no more and give back what was not sent; see ``idle``."""
        self._inlet.closed = True
        self._give_back(self._inlet.give_back(self._packed_to))
        self._around.fetch_changed(self)

    @property
    def draining(self) -> bool:
        return self._inlet.closed

    def abandon(self) -> None:
        """The slot ends: nothing that is held counts any more."""
        self._give_back(self.held)

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._line and not self._inlet.queue

    # -- the target's side

    @property
    def producer(self) -> ProducerId | None:
        """Whose sequences are used; None: one has to be adopted."""
        return self._line.producer

    def adopt(self, producer: ProducerId) -> None:
        """Send under this producer id from now on, which the remote partition has never been written with."""
        self._line.adopt(producer)
        self._cuts.clear()  # to this producer id nothing is a repetition
        self._around.send_changed(self)

    @property
    def in_flight(self) -> int:
        """Batches sent and not answered."""
        return self._line.in_flight

    @property
    def has_unsent(self) -> bool:
        return self._line.has_unsent or (bool(self._inlet.queue) and self._enough)

    @property
    def _enough(self) -> bool:
        """Whether what is to be packed as before is there as a whole."""
        return not self._cuts or (self._inlet.offset or 0) >= self._cuts[0]

    def sendable(self, now: float) -> bool:
        """Whether ``take`` would give a batch."""
        return self.has_unsent and self._setbacks.may_send(now) and self._line.ready

    def take(self, now: float) -> Place | None:
        """The next batch to send, if ``sendable``. None if what waited turned out to carry nothing."""
        if not self._line and now - self._last_ack > DOUBT_AFTER_S:
            self._line.doubt()
        while not self._line.has_unsent:
            if not self.has_unsent:
                return None
            try:
                self._pack(now)
            except CorruptBatchError as trouble:
                self._cannot_pack(trouble, now)
                return None
        if not self._line.in_flight:
            self._sent_since = now
        place = self._line.take()
        place.sent_at = now
        return place

    def _pack(self, now: float) -> None:
        rules = self._far_rules if self._quickest_ack > LONG_LINK_S else self._rules
        queue = self._inlet.queue
        again = bool(self._cuts)
        if again:
            packed = repack(queue, self._packed_to, self._cuts.popleft(), rules, self._counts)
        else:
            packed = pack(queue, self._packed_to, rules, self._limit, self._counts)
        if packed.batches:
            self._line.append(packed.batches, maybe_appended=again)
            return
        self._drop(packed.taken)
        for source in packed.taken:  # nothing of it was wanted: what stands before the queue goes on after it
            tail = self._line.tail
            if tail is None:
                self.position = source.until
            else:
                tail.until = source.until
        self._note_caught_up(now)

    def _cannot_pack(self, trouble: CorruptBatchError, now: float) -> None:
        offset = self._inlet.queue[0].header.base_offset
        self.trouble.cannot_copy(offset, f"copy {self.source} to {self.target}: {trouble}")
        self._give_back(self._inlet.give_back(self._packed_to))
        self._park(FAILED_RETRY_S, now)

    def acked(self, place: Place, base_offset: int, now: float, wall: float) -> None:
        """The target has the batch."""
        # the quickest of late; an old one fades within two dozen batches
        self._quickest_ack = min(now - place.sent_at, self._quickest_ack * 1.1 + 0.001)
        for done in self._line.acked(place, base_offset):
            batch = done.batch
            self.position = batch.until
            self.last_copied = batch.last_offset
            self._give_back(batch.held)
            self.tally.copied(batch, wall)
            self._around.acknowledged(self, batch, done.base_offset)
        self._well(now)
        if self._line.settled:
            self._settle(now)
        if self._line.spent:
            self._start_over()
        self._around.send_changed(self)

    def _well(self, now: float) -> None:
        """The target took something."""
        self._last_ack = now
        self._setbacks.over()
        self.trouble.copied_to(self.position)
        self._note_caught_up(now)
        inlet = self._inlet
        if inlet.shed or (inlet.full and self.held <= self._max_held // 2):
            inlet.shed = inlet.full = False
            self._around.fetch_changed(self)

    def quiet_for(self, now: float) -> float:
        """Seconds for which batches have been in flight without any being acknowledged; 0 if none is."""
        return now - max(self._last_ack, self._sent_since) if self._line.in_flight else 0.0

    def refused(self, place: Place, refusal: Refusal, now: float) -> None:
        """The target does not have the batch, or did not say."""
        self._line.refused(place, refusal)
        if self._line.settled:
            self._settle(now)
        if self._line.spent:
            self._start_over()

    def unroutable(self, refusal: Refusal, now: float) -> None:
        """There is no leader to send to."""
        if not self._line.in_flight:  # what is in flight will tell more
            self._act(refusal, None, now)

    def _settle(self, now: float) -> None:
        refusal = self._line.settle()
        head = self._line.head
        if refusal is not None and head is not None:
            self._act(refusal, head.batch, now)
        self._around.send_changed(self)

    def _act(self, refusal: Refusal, batch: Outgoing | None, now: float) -> None:
        match refusal.verdict:
            case Verdict.IN_TURN | Verdict.NEW_PRODUCER if batch is not None:
                # Out of order although it was its turn: the target lost what came before, or the producer's memory.
                self._line.disown()
                self._try_again(refusal, batch, now)
            case Verdict.NOT_IDEMPOTENT:
                self._line.disown()
            case Verdict.SPLIT if batch is not None and batch.count > 1:
                self._limit = batch.size // 2
                if self._line.spent:
                    self._start_over()
                else:
                    self._line.replace_head(split(batch, self._limit, self._rules.level))
                self._counts[Reason.TOO_LARGE] += 1
            case Verdict.RETRY if not self._setbacks.hopeless(refusal, now):
                self._try_again(refusal, batch, now)
            case _:
                self._fail(refusal, batch, now)

    def _try_again(self, refusal: Refusal, batch: Outgoing | None, now: float) -> None:
        self.trouble.target_passing(sentence(self.source, self.target, batch, refusal))
        self._setbacks.count(now)
        delay = self._setbacks.pause(now)
        if self._setbacks.stuck and not self.draining:  # make room for others
            self._start_over()
            self._park(self._setbacks.fetch_pause(delay), now)
        else:
            self._around.wake_later(self, delay)

    def _fail(self, refusal: Refusal, batch: Outgoing | None, now: float) -> None:
        offset = self.position if batch is None else batch.first_offset
        self.trouble.cannot_copy(offset, sentence(self.source, self.target, batch, refusal))
        self._setbacks.count(now)
        self._start_over()
        self._park(FAILED_RETRY_S, now)

    def _start_over(self) -> None:
        """Give everything back and fetch again from the position. What the target may have of it will be packed as
        before, so that it knows it again."""
        if self._line.maybe_appended or self._cuts:
            self._cuts.extendleft(reversed(self._line.cuts()))
        self._drop(self._line.clear())
        self._give_back(self._inlet.give_back(self.position))
        self._inlet.shed = self._inlet.full = False
        self._around.fetch_changed(self)

    # -- both

    @property
    def _packed_to(self) -> int:
        """The source offset up to which everything is in the line or done with."""
        tail = self._line.tail
        return self.position if tail is None else tail.until

    @property
    def oldest_waiting(self) -> int:
        """Largest timestamp (epoch ms) of the first batch that waits or is in flight; -1 if there is no such."""
        head = self._line.head
        if head is not None:
            return head.batch.max_timestamp
        return self._inlet.queue[0].header.max_timestamp if self._inlet.queue else -1

    def _skip_to(self, offset: int, now: float) -> None:
        """Nothing before ``offset`` is left to copy except what waits already."""
        if self._inlet.queue:
            self._inlet.queue[-1].until = offset
        elif (tail := self._line.tail) is not None:
            tail.until = offset
        else:
            self.position = offset
            self._note_caught_up(now)

    def _drop(self, gone: Iterable[SourceBatch | Outgoing]) -> None:
        self._give_back(sum(batch.held for batch in gone))

    def _give_back(self, count: int) -> None:
        """Negative: take more."""
        if count:
            self.held -= count
            self._around.release(count)

    def _note_caught_up(self, now: float) -> None:
        if self.position >= self.end_offset >= 0:
            self.caught_up = now
