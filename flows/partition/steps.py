"""The steps of a partition: which may follow which, and the record of what has happened."""

from __future__ import annotations

from collections.abc import Mapping

from mm2.core.lanes.partition_steps import EVENTS_KEPT, LONGEST_EVENT, FetchStep, PartitionEvent, SendStep, StepReport
from mm2.core.naming.names import TopicPartition

_F, _S = FetchStep, SendStep

_ACTIVE = frozenset(set(_F) - {_F.STOPPED, _F.DRAINING, _F.AWAITS_START})

FETCH_TRANSITIONS: Mapping[FetchStep, frozenset[FetchStep]] = {
    _F.STOPPED: frozenset(),  # a lease with the acceptance replaces the partition
    _F.DRAINING: frozenset({_F.STOPPED}),  # by a loss that is found while it drains
    **{step: _ACTIVE | {_F.STOPPED, _F.DRAINING} for step in _ACTIVE},
    _F.PAUSED: _ACTIVE | {_F.STOPPED, _F.DRAINING, _F.AWAITS_START},
    _F.AWAITS_START: _ACTIVE | {_F.STOPPED, _F.DRAINING},
}
"""The steps that can be shown next. Several can apply at a time, of which the first in the order of `FetchStep` is
shown, so the end of one uncovers any that has started meanwhile. The start is chosen once."""

NOTED: frozenset[str] = frozenset(set(_F) - {_F.AWAITS_START, _F.FULL, _F.LIMITED, _F.FETCHING}) | {
    _S.ROLLING_BACK,
    _S.AWAITS_SIZE_LIMIT,
    _S.BACKOFF,
}
"""The steps that are events; the others belong to each start, or come and go with single batches."""


CLOCK_TOLERANCE_S = 0.1
"""Wall clock and monotonic clock are read one after the other, and the wall clock is slewed."""


class InvariantError(AssertionError):
    """A partition contradicts one of its invariants. The message contains its story."""


class ObservedSide:
    """The step of one side of a partition, as it was noticed last, since ``since`` monotonic seconds."""

    __slots__ = ("is_held_up", "since", "step", "told")

    def __init__(self, step: str, now: float) -> None:
        self.step = step
        self.since = now
        self.told: tuple[str, str | None] = (step, None)  # the last event
        self.is_held_up = False  # since the last event, nothing has been copied or fetched


class Story:
    """The last `EVENTS_KEPT` events of a partition: transitions, errors and decisions, never single batches.

    Called by the partition, on its lane's event loop. ``now`` is monotonic seconds.
    """

    __slots__ = ("_epoch", "_events", "_has_news", "_unreported", "fetching", "sending", "unexpected")

    def __init__(self, fetching: FetchStep, now: float) -> None:
        self.fetching = ObservedSide(fetching, now)
        self.sending = ObservedSide(SendStep.IDLE, now)
        self.unexpected: str | None = None  # a step that `FETCH_TRANSITIONS` does not allow
        self._epoch = 0.0  # the time at 0 monotonic seconds, in epoch seconds
        self._events: list[tuple[float, str]] = []  # an empty list takes a tenth of the memory of an empty deque
        self._unreported: list[tuple[float, str]] = []
        self._has_news = False

    def add(self, text: str, now: float) -> None:
        """Something has happened, or was decided."""
        self.started(text, now)
        self._has_news = True

    def started(self, text: str, now: float) -> None:
        """The partition has started; a partition with no other event does not report it."""
        event = now, text if len(text) <= LONGEST_EVENT else f"{text[: LONGEST_EVENT - 1]}…"
        for kept in (self._events, self._unreported):
            kept.append(event)
            del kept[:-EVENTS_KEPT]

    def entered(self, side: ObservedSide, step: str, reason: str | None, now: float) -> None:
        """The side of the partition is at ``step``. The same step for the same reason is one event."""
        if side.step != step:
            if side is self.fetching and FetchStep(step) not in FETCH_TRANSITIONS[FetchStep(side.step)]:
                self.unexpected = f"{side.step} is followed by {step}"
            side.step, side.since = step, now
        if step in NOTED and side.told != (step, reason):
            side.told = (step, reason)
            side.is_held_up = True
            self.add(f"{self._name(side)}: {step}{(reason and f': {reason}') or ''}", now)

    def advanced(self, side: ObservedSide, now: float) -> None:
        """The side of the partition makes progress: tell it if it did not before."""
        if side.is_held_up:
            side.is_held_up = False
            side.told = ("", None)
            self.add(f"{self._name(side)} resumed", now)

    def _name(self, side: ObservedSide) -> str:
        return "fetching" if side is self.fetching else "sending"

    def at(self, now: float, wall: float) -> None:
        """It is ``wall`` epoch seconds. Times in reports stay the same unless the clock was set."""
        if abs(wall - now - self._epoch) > CLOCK_TOLERANCE_S:
            self._epoch = wall - now

    def report(self, side: ObservedSide, reason: str | None) -> StepReport:
        """Return the step of a side; ``reason``: why it is held up."""
        return StepReport(side.step, self._epoch + side.since, reason)

    def take_news(self, source: TopicPartition) -> list[PartitionEvent]:
        """Return the events since the last call, oldest first."""
        if not self._has_news:
            return []
        self._has_news = False
        news = [PartitionEvent(source.topic, source.partition, self._epoch + at, text) for at, text in self._unreported]
        self._unreported.clear()
        return news

    def __str__(self) -> str:
        return "\n".join(f"{at:.3f} {text}" for at, text in self._events)
