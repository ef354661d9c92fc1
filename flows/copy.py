"""One partition between source and target: its two halves joined, how far it is, and how it fares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from flows.batch.choice import BatchRules, Reason
from flows.batch.header import CorruptBatchError
from flows.batch.outgoing import Outgoing, ProducerId, SourceBatch
from flows.headway import Headway
from flows.inlet import Inlet
from flows.line import Place
from flows.outcomes import Refusal, sentence
from flows.outlet import Next, Outlet
from flows.patience import CORRUPT_ATTEMPTS, FAILED_RETRY_S
from flows.starts import CannotStart, GoOn
from flows.surroundings import Surroundings
from flows.tally import Tally, Trouble
from mm2.core.exact_offset_records import TopicIds
from mm2.core.lease import PartitionLease
from mm2.core.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.raw_fetch import FetchedPartition


class PartitionCopy:
    """A state machine without I/O and clock. ``now`` is monotonic seconds, ``wall`` epoch seconds.

    (A) Inlet and line hold everything from the position up to where fetching goes on, in order, except what carries no
        data.
    (B) ``held`` bytes are counted in the lane's budget and given back exactly once.
    (C) A refused batch is tried again, split, or named in ``trouble``; it is never passed over.
    (D) It copies one source topic: if that turns out to be made anew, another copy takes over, which is
        ``of_new_topic``, and ``begins_anew`` until its beginning is stored.
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
        self.topic_ids = TopicIds(*lease.topic_ids)
        stored = None if lease.made_anew else lease.start_offset
        self.headway = Headway(lease.start_offset, stored=stored, now=now)
        self.of_new_topic = self.begins_anew = lease.made_anew
        self.held = 0
        self.trouble = Trouble()
        self.tally = Tally()
        self._around = surroundings
        self._max_held = max_held
        self.inlet = Inlet(lease.start_offset, check_crcs=check_crcs)
        self.outlet = Outlet(rules=rules, max_in_flight=max_in_flight, backoff=target_backoff, counts=counts, now=now)
        self._line = self.outlet.line
        self._source_backoff = source_backoff
        self._corrupt_fetches = 0

    # -- the source's side

    def start_at(self, start: GoOn | CannotStart, now: float) -> None:
        """An offset was chosen for a partition that has none, or whose offset is gone."""
        if isinstance(start, CannotStart):
            self.fetch_failed(f"fetch {self.source}: {start.reason}", now)
            return
        if start.lost is not None:
            self.headway.lose(self.source, *start.lost, start.reason)
        self.inlet.offset = start.offset
        self._skip_to(start.offset, now, seen=start.earliest)
        self._around.fetch_changed(self)

    def arrived(self, asked: int, fetched: FetchedPartition, end_offset: int, now: float, wall: float) -> int:
        """Part of a fetch answer without error, asked for at ``asked``; returns the bytes of it that are kept."""
        if asked != self.inlet.wanted:
            return 0  # meanwhile the offset changed or fetching stopped
        self.trouble.fetched()
        self._source_backoff.reset()
        if end_offset >= 0:
            self.headway.end_offset = end_offset
        kept = self._take_in(asked, fetched, now, wall) if fetched.records else 0
        self.headway.look(now)
        return kept

    def _take_in(self, asked: int, fetched: FetchedPartition, now: float, wall: float) -> int:
        intake = self.inlet.take_in(fetched, wall)
        if intake.skipped is not None:
            self._skip_to(intake.skipped, now, seen=intake.skipped)
        kept = 0
        if intake.batches:
            kept = intake.batches[-1].held
            self.held += kept
            self.inlet.queue.extend(intake.batches)
            self.inlet.full = self.held >= self._max_held and self._enough
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
        self.inlet.park(now + delay)
        self._around.fetch_changed(self)
        self._around.wake_later(self, delay)

    def wake(self, now: float) -> None:
        """A pause may be over."""
        if self.inlet.unpark(now):
            if self.trouble.failed:
                self.outlet.repaired()
            self._around.fetch_changed(self)
        self._around.send_changed(self)

    def shed(self) -> None:
        """Give back all that is held. Of what is in flight the answers are still wanted; what the target does not take,
        and what was not sent, is fetched again."""
        if not self._line.in_flight:
            self._start_over()
            return
        self._give_back(self.inlet.give_back(self._packed_to) + self._line.hollow())
        self.inlet.shed, self.inlet.full = True, False
        self._around.fetch_changed(self)

    def drain(self) -> None:
        """Fetch no more and give back what was not sent; see ``idle``."""
        self.inlet.closed = True
        self._give_back(self.inlet.give_back(self._packed_to))
        self._around.fetch_changed(self)

    def abandon(self) -> None:
        """The slot ends: nothing that is held counts any more."""
        self._give_back(self.held)

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._line and not self.inlet.queue

    @property
    def has_all(self) -> bool:
        """Whether everything is fetched that the source had, as far as it said."""
        return self.inlet.offset is not None and self.inlet.offset >= self.headway.end_offset

    # -- the target's side

    def adopt(self, producer: ProducerId) -> None:
        """Send under this producer id from now on, which the remote partition has never been written with."""
        self.outlet.adopt(producer)
        self._around.send_changed(self)

    @property
    def has_unsent(self) -> bool:
        return self._line.has_unsent or (bool(self.inlet.queue) and self._enough)

    @property
    def _enough(self) -> bool:
        return self.outlet.enough(self.inlet.offset or 0)

    def sendable(self, now: float) -> bool:
        """Whether ``take`` would give a batch."""
        return self.has_unsent and self.outlet.setbacks.may_send(now) and self._line.ready

    def take(self, now: float) -> Place | None:
        """The next batch to send, if ``sendable``. None if what waited turned out to carry nothing."""
        self.outlet.doubt(now)
        while not self._line.has_unsent:
            if not self.has_unsent:
                return None
            try:
                self._pack(now)
            except CorruptBatchError as trouble:
                self._cannot_pack(trouble, now)
                return None
        return self.outlet.take(now)

    def _pack(self, now: float) -> None:
        packed = self.outlet.pack(self.inlet.queue, self._packed_to)
        if packed.batches:
            return
        self._drop(packed.taken)
        for source in packed.taken:  # nothing of it was wanted: what stands before the queue goes on after it
            tail = self._line.tail
            if tail is None:
                self._move_to(source.until)
            else:
                tail.until = source.until
        self.headway.look(now)

    def _cannot_pack(self, trouble: CorruptBatchError, now: float) -> None:
        offset = self.inlet.queue[0].header.base_offset
        self.trouble.cannot_copy(offset, f"copy {self.source} to {self.target}: {trouble}")
        self._give_back(self.inlet.give_back(self._packed_to))
        self._park(FAILED_RETRY_S, now)

    def acked(self, place: Place, base_offset: int, now: float, wall: float) -> None:
        """The target has the batch."""
        for done in self.outlet.acked(place, base_offset, now):
            batch = done.batch
            seen = self.headway.copied(batch)
            self._give_back(batch.held)
            self.tally.copied(batch, wall)
            self._around.acknowledged(self, batch, done.base_offset, seen)
        self.outlet.well(now)
        self.trouble.copied_to(self.headway.position)
        self.headway.look(now)
        self._make_room()
        if self._line.settled:
            self._settle(now)
        if self._line.spent:
            self._start_over()
        self._around.send_changed(self)

    def _make_room(self) -> None:
        inlet = self.inlet
        if inlet.shed or (inlet.full and self.held <= self._max_held // 2):
            inlet.shed = inlet.full = False
            self._around.fetch_changed(self)

    def refused(self, place: Place, refusal: Refusal, now: float) -> None:
        """The target does not have the batch, or did not say."""
        self._line.refused(place, refusal)
        if self._line.settled:
            self._settle(now)
        if self._line.spent:
            self._start_over()

    def unanswered(self, words: str) -> None:
        """The target has not said anything for long; it is waited for on."""
        self.trouble.target_passing(f"copy {self.source} to {self.target}: {words}", waits=True)

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
        match self.outlet.judge(refusal, batch, now):
            case Next.AGAIN:
                self._try_again(refusal, batch, now)
            case Next.REFETCH:
                self._start_over()
            case Next.GIVE_UP:
                self._fail(refusal, batch, now)

    def _try_again(self, refusal: Refusal, batch: Outgoing | None, now: float) -> None:
        setbacks = self.outlet.setbacks
        setbacks.count(now)
        self.trouble.target_passing(sentence(self.source, self.target, batch, refusal), waits=setbacks.lasting)
        delay = setbacks.pause(now)
        if setbacks.stuck and not self.inlet.closed:  # make room for others
            self._start_over()
            self._park(setbacks.fetch_pause(delay), now)
        else:
            self._around.wake_later(self, delay)

    def _fail(self, refusal: Refusal, batch: Outgoing | None, now: float) -> None:
        offset = self.headway.position if batch is None else batch.first_offset
        self.trouble.cannot_copy(offset, sentence(self.source, self.target, batch, refusal))
        self.outlet.setbacks.count(now)
        self._start_over()
        self._park(FAILED_RETRY_S, now)

    def _start_over(self) -> None:
        """Give everything back and fetch again from the position."""
        self._drop(self.outlet.give_up())
        self._give_back(self.inlet.give_back(self.headway.position))
        self.inlet.shed = self.inlet.full = False
        self._around.fetch_changed(self)

    # -- both

    @property
    def _packed_to(self) -> int:
        """The source offset up to which everything is in the line or done with."""
        tail = self._line.tail
        return self.headway.position if tail is None else tail.until

    @property
    def oldest_waiting(self) -> int:
        """Largest timestamp (epoch ms) of the first batch that waits or is in flight; -1 if there is no such."""
        head = self._line.head
        if head is not None:
            return head.batch.max_timestamp
        return self.inlet.queue[0].header.max_timestamp if self.inlet.queue else -1

    def _skip_to(self, offset: int, now: float, *, seen: int) -> None:
        """Nothing before ``offset`` is left to copy except what waits already. Offsets before ``seen`` carry nothing;
        of those up to ``offset`` that is not known."""
        self.headway.jump(seen, offset)
        if self.inlet.queue:
            self.inlet.queue[-1].until = offset
        elif (tail := self._line.tail) is not None:
            tail.until = offset
        else:
            self._move_to(offset)
            self.headway.look(now)

    def _move_to(self, offset: int) -> None:
        """The position moves, and nothing was copied."""
        seen = self.headway.move_to(offset)
        if seen.since < seen.until:
            self._around.passed(self, seen)

    def _drop(self, gone: Iterable[SourceBatch | Outgoing]) -> None:
        self._give_back(sum(batch.held for batch in gone))

    def _give_back(self, count: int) -> None:
        """Negative: take more."""
        if count:
            self.held -= count
            self._around.release(count)
