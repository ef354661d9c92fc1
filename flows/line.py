"""The batches of one partition on their way to the target: in order, numbered, at most a window of them in flight.

An idempotent broker takes a partition's batches only in the order of their sequences, and knows the last five again
when they come twice. So up to five may be in flight, and whatever happens to one of them, no other can overtake it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

from flows.batch.outgoing import NO_SEQUENCE, NOT_IDEMPOTENT, Outgoing, ProducerId, next_sequence
from flows.outcomes import Refusal

IDEMPOTENT_WINDOW = 5
"""A broker remembers a producer's last five batches of a partition (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""


class Sent(Enum):
    """Where a batch of the line is."""

    NOT_YET = auto()
    IN_FLIGHT = auto()
    REFUSED = auto()
    ACKED = auto()


@dataclass(slots=True)
class Place:
    """One batch's place in the line. ``maybe_appended`` stays set once an attempt ended without a certain answer."""

    batch: Outgoing
    sent: Sent = Sent.NOT_YET
    sent_at: float = 0.0
    base_offset: int = -1
    refusal: Refusal | None = None
    maybe_appended: bool = False


class Line:
    """Invariants:

    (A) Places are in source order without a gap, and batches go out in that order.
    (B) Under one producer id the sequences of the batches not acknowledged follow one another.
    (C) After a refusal nothing goes out until everything in flight has come back (`settled`); then the first goes
        alone, so that the others are not refused again with it.
    (D) Only the first places, a window of them, go out, whatever became of those behind the first: so a batch whose
        answer was lost is still among those the broker remembers when it is sent again.
    (E) Until the target acknowledged a batch of this producer id, the window is one: a broker without memory of the
        producer would take any sequence as its first. Without idempotence that holds for ever.
    """

    def __init__(self, *, max_in_flight: int) -> None:
        self.producer: ProducerId | None = None
        self._places: deque[Place] = deque()
        self._max_window = min(max_in_flight, IDEMPOTENT_WINDOW)
        self._window = 1
        self._in_flight = 0
        self._unsent = 0
        self._refused = False
        self._hollow = False
        self._next_sequence = 0

    def __len__(self) -> int:
        return len(self._places)

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def has_unsent(self) -> bool:
        """Whether a batch waits to be sent (again)."""
        return self._unsent > 0

    @property
    def ready(self) -> bool:
        """Whether ``take`` may be called: the next batch, in the line or to be appended, is within the window."""
        if self._refused or self._hollow or self.producer is None:
            return False
        for index, place in enumerate(self._places):
            if index == self._window:
                return False
            if place.sent is Sent.NOT_YET:
                return True
        return len(self._places) < self._window

    @property
    def settled(self) -> bool:
        """Whether a refusal waits to be dealt with and nothing is in flight any more."""
        return self._refused and not self._in_flight

    @property
    def maybe_appended(self) -> bool:
        """Whether the target may have a batch that it did not acknowledge."""
        return any(place.maybe_appended for place in self._places)

    @property
    def head(self) -> Place | None:
        return self._places[0] if self._places else None

    @property
    def tail(self) -> Outgoing | None:
        return self._places[-1].batch if self._places else None

    def adopt(self, producer: ProducerId) -> None:
        """Number what is not acknowledged from 0 on, under another producer id. Nothing may be in flight."""
        assert not self._in_flight
        self.producer = producer
        self._window = 1
        self._next_sequence = 0
        for place in self._places:
            place.batch.sequence = NO_SEQUENCE

    def disown(self) -> None:
        """The broker does not accept this producer id any more: nothing goes out until another is adopted."""
        self.producer = None

    def doubt(self) -> None:
        """The target may have forgotten the producer id: send one alone first."""
        self._window = 1

    def append(self, batches: list[Outgoing], *, maybe_appended: bool = False) -> None:
        """Packed batches join the end; ``maybe_appended``: they were sent before."""
        self._places.extend(Place(batch, maybe_appended=maybe_appended) for batch in batches)
        self._unsent += len(batches)

    def take(self) -> Place:
        """The next to send, stamped. The line must be ready and have one unsent."""
        assert self.producer is not None
        place = next(place for place in self._places if place.sent is Sent.NOT_YET)
        batch = place.batch
        if batch.sequence == NO_SEQUENCE and self.producer != NOT_IDEMPOTENT:
            batch.sequence = self._next_sequence
            self._next_sequence = next_sequence(self._next_sequence, batch.count)
        batch.stamp(self.producer)
        place.sent = Sent.IN_FLIGHT
        self._in_flight += 1
        self._unsent -= 1
        return place

    def acked(self, place: Place, base_offset: int) -> list[Place]:
        """The target has it, from ``base_offset`` on (-1: it does not say). Returns what is done with, in order."""
        self._in_flight -= 1
        place.sent = Sent.ACKED
        place.base_offset = base_offset
        if self.producer != NOT_IDEMPOTENT:
            self._window = self._max_window
        done: list[Place] = []
        while self._places and self._places[0].sent is Sent.ACKED:
            done.append(self._places.popleft())
        self._hollow &= bool(self._places)
        return done

    def refused(self, place: Place, refusal: Refusal) -> None:
        """The target does not have it, or did not say."""
        self._in_flight -= 1
        self._refused = True
        place.sent = Sent.REFUSED
        place.refusal = refusal
        place.maybe_appended |= refusal.maybe_appended

    def settle(self) -> Refusal | None:
        """Everything came back: what was refused is to be sent again. Returns why the first one was refused, which
        decides what happens next."""
        assert self.settled
        self._refused = False
        self._window = 1
        refusal = self._places[0].refusal if self._places else None
        for place in self._places:
            if place.sent is Sent.REFUSED:
                place.sent, place.refusal = Sent.NOT_YET, None
                self._unsent += 1
        return refusal

    def replace_head(self, parts: list[Outgoing]) -> None:
        """Put the parts of the first batch in its place; they share its sequences."""
        whole = self._places.popleft().batch
        sequence = whole.sequence
        for part in parts:
            part.sequence = sequence
            if sequence != NO_SEQUENCE:
                sequence = next_sequence(sequence, part.count)
        self._places.extendleft(map(Place, reversed(parts)))
        self._unsent += len(parts) - 1

    def hollow(self) -> int:
        """Let go of all records while something is in flight: only answers are wanted. The bytes held until now."""
        self._hollow = True
        return sum(place.batch.hollow() for place in self._places)

    @property
    def spent(self) -> bool:
        """Whether all answers have come and what is left has no records: it has to be fetched and packed again."""
        return self._hollow and not self._in_flight and bool(self._places)

    def cuts(self) -> list[int]:
        """Where batches ended that the target may have, and those numbered after them: to be packed again, they must
        end there again."""
        return [place.batch.until for place in self._places if place.batch.sequence != NO_SEQUENCE]

    def clear(self) -> list[Outgoing]:
        """Give up what is in the line; sequences go on from its first batch. Nothing may be in flight."""
        assert not self._in_flight
        if self._places and self._places[0].batch.sequence != NO_SEQUENCE:
            self._next_sequence = self._places[0].batch.sequence
        gone = [place.batch for place in self._places]
        self._places.clear()
        self._unsent = 0
        self._refused = self._hollow = False
        return gone
