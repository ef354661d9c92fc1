"""The batches of one partition that are being sent: in order, with sequences, and at most a window of them in flight.

For an idempotent producer, a broker accepts a partition's batches only in the order of their sequences, and recognizes
the last five when they are repeated. So up to five may be in flight, and none can overtake another that fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise

from flows.batch.target_batch import NO_SEQUENCE, NOT_IDEMPOTENT, ProducerId, TargetBatch, next_sequence
from flows.partition.timeouts import TIMEOUTS
from flows.target.produce_errors import ProduceError

IDEMPOTENT_WINDOW = 5
"""A broker retains a producer's last five batches of a partition (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""


class SendState(Enum):
    """Progress of a batch on its way to the target."""

    UNSENT = auto()
    SENT = auto()
    FAILED = auto()
    ACKNOWLEDGED = auto()


@dataclass(slots=True)
class InFlightBatch:
    """One batch. ``maybe_appended``: an attempt ended without a definite result."""

    batch: TargetBatch
    state: SendState = SendState.UNSENT
    sent_at: float = 0.0
    base_offset: int = -1
    error: ProduceError | None = None
    maybe_appended: bool = False


class InFlightBatches:
    """A state machine without I/O and clock; ``now`` is monotonic seconds.

    (A) Batches are in source order without a gap, and are sent in that order.
    (B) With one producer id, the sequences of unacknowledged batches are consecutive.
    (C) After a failure nothing is sent until every batch in flight has been answered (`is_settled`); then the first
        batch is sent alone, so that the others are not rejected again with it.
    (D) Only the first batches, up to the window, are sent, even if later ones are acknowledged: so a batch whose
        response was lost is still among those that the broker retains when it is sent again.
    (E) Until the target has acknowledged a batch with this producer id, the window is one: a broker without state of
        the producer accepts any sequence as its first. Without idempotence it stays one.
    (F) Cleared batches that the target may have are packed again with the same boundaries, so that the target
        recognizes them by their sequences; with another producer id it would not.
    (G) Batches after one that is left out take over its sequences, since the target has none of them; if it possibly
        has one, they are sent with another producer id, since it would take them for that one.
    """

    def __init__(self, *, max_in_flight: int, now: float, probe_after_s: float = TIMEOUTS.probe_after_s) -> None:
        self._probe_after_s = probe_after_s
        self.producer_id: ProducerId | None = None
        self.in_flight = 0
        self._batches: deque[InFlightBatch] = deque()
        self._boundaries: deque[int] = deque()  # ends of batches that were sent, cleared, and are to be sent again
        self._max_window = min(max_in_flight, IDEMPOTENT_WINDOW)
        self._window = 1
        self._unsent = 0
        self._failed = False
        self._payloads_dropped = False
        self._next_sequence = 0
        self._last_acknowledged = self._sent_since = now

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def has_unsent(self) -> bool:
        """Whether a batch waits to be sent (again)."""
        return self._unsent > 0

    @property
    def can_send(self) -> bool:
        """Whether `send` may be called: the next batch, present or to be appended, is within the window."""
        if self._failed or self._payloads_dropped or self.producer_id is None:
            return False
        for index, entry in enumerate(self._batches):
            if index == self._window:
                return False
            if entry.state is SendState.UNSENT:
                return True
        return len(self._batches) < self._window

    @property
    def has_failed(self) -> bool:
        """Whether a failure is to be handled, as soon as nothing is in flight."""
        return self._failed

    @property
    def is_settled(self) -> bool:
        """Whether a failure is to be handled and nothing is in flight."""
        return self._failed and not self.in_flight

    @property
    def needs_refetch(self) -> bool:
        """Whether all responses have arrived and the remaining batches have no payload."""
        return self._payloads_dropped and not self.in_flight and bool(self._batches)

    @property
    def is_uncertain(self) -> bool:
        """Whether the target may have records that it has not acknowledged without a gap."""
        return bool(self.in_flight or self.repeats_next)

    @property
    def repeats_next(self) -> bool:
        """Whether the next batch to send is a repetition, or completes others that the target has."""
        return bool(self._boundaries) or any(
            entry.maybe_appended or entry.state is SendState.ACKNOWLEDGED for entry in self._batches
        )

    @property
    def resend_boundary(self) -> int | None:
        """The source offset at which the next batch has to end, if it repeats an earlier one."""
        return self._boundaries[0] if self._boundaries else None

    @property
    def last_boundary(self) -> int | None:
        """The source offset up to which the target may have records that are to be sent again."""
        return self._boundaries[-1] if self._boundaries else None

    @property
    def held_bytes(self) -> int:
        """The bytes that the batches hold."""
        return sum(entry.batch.held_bytes for entry in self._batches)

    @property
    def first(self) -> TargetBatch | None:
        return self._batches[0].batch if self._batches else None

    @property
    def last(self) -> TargetBatch | None:
        return self._batches[-1].batch if self._batches else None

    def unanswered_for(self, now: float) -> float:
        """Return for how many seconds batches have been in flight without an acknowledgement; 0 if none is."""
        return now - max(self._last_acknowledged, self._sent_since) if self.in_flight else 0.0

    def set_producer_id(self, producer_id: ProducerId) -> None:
        """Switch to another producer id, with sequences from 0. Nothing may be in flight."""
        assert not self.in_flight
        self.producer_id = producer_id
        self._window = 1
        self._next_sequence = 0
        self._boundaries.clear()
        for entry in self._batches:
            entry.batch.sequence = NO_SEQUENCE

    def clear_producer_id(self) -> None:
        """Stop sending until another producer id is set: the broker no longer accepts this one."""
        self.producer_id = None

    def truncated(self, offset: int) -> None:
        """The records from ``offset`` on are others now or cannot be read, so no batch after it can be repeated.

        The target would take other records for a repetition by their sequences: they need another producer id.
        """
        if self._boundaries and self._boundaries[-1] > offset:
            self._boundaries.clear()
            self.clear_producer_id()

    def append(self, batches: list[TargetBatch], *, resend: bool = False) -> None:
        """Add packed batches at the end; ``resend``: they end at `resend_boundary`, which is removed.

        If the source does not have any of their records any more, the sequences of what follows would be those of the
        batch that the target may have, and it would take it for that one: it needs another producer id.
        """
        if resend:
            self._boundaries.popleft()
            if not batches:
                self._boundaries.clear()
                self.clear_producer_id()
        self._batches.extend(InFlightBatch(batch, maybe_appended=resend) for batch in batches)
        self._unsent += len(batches)

    def send(self, now: float) -> InFlightBatch:
        """Stamp and return the next batch to send. `can_send` and `has_unsent` must be true.

        An error while it is numbered or stamped changes nothing; `cannot_send` reports it.
        """
        assert self.producer_id is not None
        entry = self._next_unsent
        batch = entry.batch
        if batch.sequence == NO_SEQUENCE and self.producer_id != NOT_IDEMPOTENT:
            following = next_sequence(self._next_sequence, batch.count)
            batch.sequence = self._next_sequence
            try:
                batch.stamp(self.producer_id)
            except Exception:
                batch.sequence = NO_SEQUENCE
                raise
            self._next_sequence = following
        else:
            batch.stamp(self.producer_id)
        if not self.in_flight:
            self._sent_since = now
        entry.state = SendState.SENT
        entry.sent_at = now
        self.in_flight += 1
        self._unsent -= 1
        return entry

    @property
    def _next_unsent(self) -> InFlightBatch:
        return next(entry for entry in self._batches if entry.state is SendState.UNSENT)

    def cannot_send(self, error: ProduceError) -> None:
        """The next batch to send could not be stamped: it has failed without a request."""
        entry = self._next_unsent
        self._failed = True
        self._unsent -= 1
        entry.state = SendState.FAILED
        entry.error = error

    def probe_after_silence(self, now: float) -> None:
        """After a long idle time, send one batch alone first, since the target may have dropped the producer id."""
        if not self._batches and now - self._last_acknowledged > self._probe_after_s:
            self.send_alone()

    def send_alone(self) -> None:
        """Send the next batch alone: the window is one until it is acknowledged."""
        self._window = 1

    def acknowledged(self, entry: InFlightBatch, base_offset: int, now: float) -> list[InFlightBatch]:
        """The target has the batch, from ``base_offset`` on (-1: unknown).

        Removes and returns the batches that are now acknowledged without a gap, in order.
        """
        self.in_flight -= 1
        entry.state = SendState.ACKNOWLEDGED
        entry.base_offset = base_offset
        self._last_acknowledged = now
        if self.producer_id != NOT_IDEMPOTENT:
            self._window = self._max_window
        done: list[InFlightBatch] = []
        while self._batches and self._batches[0].state is SendState.ACKNOWLEDGED:
            done.append(self._batches.popleft())
        self._payloads_dropped &= bool(self._batches)
        return done

    def failed(self, entry: InFlightBatch, error: ProduceError) -> None:
        """The target does not have the batch, or did not answer."""
        self.in_flight -= 1
        self._failed = True
        entry.state = SendState.FAILED
        entry.error = error
        entry.maybe_appended |= error.maybe_appended

    def settle(self) -> ProduceError | None:
        """Mark failed batches to be sent again. Returns the error of the first batch, which decides what to do next."""
        assert self.is_settled
        self._failed = False
        self.send_alone()
        error = self._batches[0].error if self._batches else None
        for entry in self._batches:
            if entry.state is SendState.FAILED:
                entry.state, entry.error = SendState.UNSENT, None
                self._unsent += 1
        return error

    def replace_first(self, parts: list[TargetBatch]) -> None:
        """Replace the first batch by its parts, which share its sequences."""
        replaced = self._batches.popleft()
        sequence = replaced.batch.sequence
        for part in parts:
            part.sequence = sequence
            if sequence != NO_SEQUENCE:
                sequence = next_sequence(sequence, part.count)
        self._batches.extendleft(
            InFlightBatch(part, maybe_appended=replaced.maybe_appended) for part in reversed(parts)
        )
        self._unsent += len(parts) - 1

    def leave_out_first(self) -> TargetBatch | None:
        """Remove and return the first batch, which the target has rejected; None if all were cleared since then.

        Nothing may be in flight.
        """
        assert not self.in_flight
        left_out = self._batches.popleft() if self._batches else None
        if left_out is not None:
            self._unsent -= 1
            if left_out.batch.sequence != NO_SEQUENCE:
                self._next_sequence = left_out.batch.sequence
        maybe_appended = [entry.maybe_appended for entry in (left_out, *self._batches) if entry is not None]
        if self.producer_id != NOT_IDEMPOTENT and (self._boundaries or any(maybe_appended)):
            self.producer_id = None
        self._boundaries.clear()
        for entry in self._batches:
            entry.batch.sequence, entry.maybe_appended = NO_SEQUENCE, False
        return left_out.batch if left_out is not None else None

    def roll_back(self) -> list[TargetBatch]:
        """Remove and return all batches: the transaction with what the target has of them is aborted.

        Nothing may be in flight.
        """
        removed = self.clear()
        self._boundaries.clear()
        return removed

    def drop_payloads(self) -> int:
        """Drop all records while batches are in flight; only responses are awaited. Returns the bytes released."""
        self._payloads_dropped = True
        return sum(entry.batch.drop_payload() for entry in self._batches)

    def clear(self) -> list[TargetBatch]:
        """Remove and return all batches, to be fetched and packed again; sequences resume from the first of them.

        Nothing may be in flight.
        """
        assert not self.in_flight
        if self._boundaries or any(entry.maybe_appended for entry in self._batches):
            ends = [entry.batch.next_offset for entry in self._batches if entry.batch.sequence != NO_SEQUENCE]
            self._boundaries.extendleft(reversed(ends))
        removed = [entry.batch for entry in self._batches]
        if removed and removed[0].sequence != NO_SEQUENCE:
            self._next_sequence = removed[0].sequence
        self._batches.clear()
        self._unsent = 0
        self._failed = self._payloads_dropped = False
        return removed

    def broken_invariants(self) -> Iterator[tuple[str, bool]]:
        """Yield the letter of each invariant that can be checked from inside, and whether it is broken."""
        batches, states = [entry.batch for entry in self._batches], [entry.state for entry in self._batches]
        yield "in flight A", any(one.next_offset > two.first_offset for one, two in pairwise(batches))
        yield "in flight A", SendState.SENT in states[states.index(SendState.UNSENT) :] if self._unsent else False
        numbered = [one for one in batches if one.sequence != NO_SEQUENCE]
        follows = all(next_sequence(one.sequence, one.count) == two.sequence for one, two in pairwise(numbered))
        yield "in flight B", not follows or numbered != batches[: len(numbered)]
        yield "in flight C", self.in_flight != states.count(SendState.SENT)
        yield "in flight C", self._unsent != states.count(SendState.UNSENT)
        yield "in flight F", list(self._boundaries) != sorted(self._boundaries)
