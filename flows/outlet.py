"""The target's half of one partition: what is packed and on its way, and what a refusal means for it."""

from __future__ import annotations

from collections import Counter, deque
from enum import Enum, auto

from flows.batch.choice import BatchRules, Reason, for_long_link
from flows.batch.outgoing import Outgoing, ProducerId, SourceBatch
from flows.batch.pack import Packed, pack, repack, split
from flows.line import Line, Place
from flows.outcomes import Refusal, Verdict
from flows.patience import DOUBT_AFTER_S, LONG_LINK_S
from flows.setbacks import Setbacks
from mm2.kafka.backoff import Backoff


class Next(Enum):
    """What is to be done after a refusal."""

    GO_ON = auto()
    AGAIN = auto()  # send it again after a pause
    REFETCH = auto()  # its records were let go of: fetch them again
    GIVE_UP = auto()  # until something changes at the target


class Outlet:
    """Invariants:

    (A) What the target may have of a batch that is fetched and packed again is packed as before, so that it knows it
        again by its sequence; under another producer id nothing is a repetition.
    (B) A batch that the target calls too large is split, and those after it are packed smaller, until `repaired`.
    """

    def __init__(
        self, *, rules: BatchRules, max_in_flight: int, backoff: Backoff, counts: Counter[Reason], now: float
    ) -> None:
        self.line = Line(max_in_flight=max_in_flight)
        self.setbacks = Setbacks(backoff)
        self._rules = rules
        self._far_rules = for_long_link(rules)
        self._counts = counts
        self._limit: int | None = None  # the target refused batches not much larger
        self._cuts: deque[int] = deque()  # where batches ended that were sent, given back, and are to be sent again
        self._last_ack = self._sent_since = now
        self._quickest_ack = 0.0

    def adopt(self, producer: ProducerId) -> None:
        """Send under this producer id from now on."""
        self.line.adopt(producer)
        self._cuts.clear()

    # -- packing and sending

    def enough(self, fetched_to: int) -> bool:
        """Whether what is to be packed as before is there as a whole."""
        return not self._cuts or fetched_to >= self._cuts[0]

    def pack(self, queue: deque[SourceBatch], packed_to: int) -> Packed:
        """Move what goes into the next batch from ``queue`` to the line. Raises CorruptBatchError."""
        rules = self._far_rules if self._quickest_ack > LONG_LINK_S else self._rules
        again = bool(self._cuts)
        if again:
            packed = repack(queue, packed_to, self._cuts.popleft(), rules, self._counts)
        else:
            packed = pack(queue, packed_to, rules, self._limit, self._counts)
        if packed.batches:
            self.line.append(packed.batches, maybe_appended=again)
        return packed

    def take(self, now: float) -> Place:
        """The next batch of the line to send."""
        if not self.line.in_flight:
            self._sent_since = now
        place = self.line.take()
        place.sent_at = now
        return place

    def doubt(self, now: float) -> None:
        """After a long silence the target may have forgotten the producer id."""
        if not self.line and now - self._last_ack > DOUBT_AFTER_S:
            self.line.doubt()

    def give_up(self) -> list[Outgoing]:
        """Everything out of the line, to be fetched and packed again. Nothing may be in flight."""
        if self.line.maybe_appended or self._cuts:
            self._cuts.extendleft(reversed(self.line.cuts()))
        return self.line.clear()

    # -- answers

    def acked(self, place: Place, base_offset: int, now: float) -> list[Place]:
        """The target has the batch; returns those that are done with, which are the first of the line."""
        # the quickest of late; an old one fades within two dozen batches
        self._quickest_ack = min(now - place.sent_at, self._quickest_ack * 1.1 + 0.001)
        return self.line.acked(place, base_offset)

    def well(self, now: float) -> None:
        """The target took something."""
        self._last_ack = now
        self.setbacks.over()

    def quiet_for(self, now: float) -> float:
        """Seconds for which batches have been in flight without any being acknowledged; 0 if none is."""
        return now - max(self._last_ack, self._sent_since) if self.line.in_flight else 0.0

    def judge(self, refusal: Refusal, batch: Outgoing | None, now: float) -> Next:
        """What a refusal asks for; ``batch`` None: it was not even sent."""
        match refusal.verdict:
            case Verdict.IN_TURN | Verdict.NEW_PRODUCER if batch is not None:
                # Out of order although it was its turn: the target lost what came before, or the producer's memory.
                self.line.disown()
                return Next.AGAIN
            case Verdict.NOT_IDEMPOTENT:
                self.line.disown()
                return Next.GO_ON
            case Verdict.SPLIT if batch is not None and batch.count > 1:
                self._limit = batch.size // 2
                self._counts[Reason.TOO_LARGE] += 1
                if self.line.spent:
                    return Next.REFETCH
                self.line.replace_head(split(batch, self._limit, self._rules.level))
                return Next.GO_ON
            case Verdict.RETRY if not self.setbacks.hopeless(refusal, now):
                return Next.AGAIN
        return Next.GIVE_UP

    def repaired(self) -> None:
        """A FAILED partition is tried again: the target's limit may be another one now."""
        self._limit = None
