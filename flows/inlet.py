"""The source's half of one partition: where to fetch, when not to, and what was fetched and waits."""

from __future__ import annotations

from collections import deque

from flows.batch.outgoing import SourceBatch
from flows.intake import Intake, take_in
from flows.patience import EARLY_S
from mm2.kafka.raw_fetch import FetchedPartition


class Inlet:
    """``offset`` None: not known yet. Invariants:

    (A) ``offset`` is where the last waiting batch ends, or where fetching was told to go on.
    (B) Nothing is taken in that was not asked for at ``wanted``: an answer that comes after fetching was stopped or
        went elsewhere changes nothing.
    """

    def __init__(self, offset: int | None, *, check_crcs: bool) -> None:
        self.offset = offset
        self.queue: deque[SourceBatch] = deque()
        self.full = False  # what waits must be acknowledged first
        self.shed = False  # the same, and what waited was given back, because the target takes nothing
        self.closed = False  # the partition leaves: nothing is fetched any more
        self._check_crcs = check_crcs
        self._parked_until: float | None = None

    @property
    def open(self) -> bool:
        """Whether something is to be fetched, once it is known from where."""
        return not (self.closed or self.full or self.shed or self._parked_until is not None)

    @property
    def wanted(self) -> int | None:
        """The offset to fetch from; None while nothing is to be fetched."""
        return self.offset if self.open else None

    @property
    def needs_start(self) -> bool:
        """Whether an offset has to be chosen before anything can be fetched."""
        return self.offset is None and self.open

    def park(self, until: float) -> None:
        """Fetch nothing before ``until``, monotonic seconds."""
        self._parked_until = until

    def unpark(self, now: float) -> bool:
        """Whether a pause is over by now."""
        if self._parked_until is None or now < self._parked_until - EARLY_S:
            return False
        self._parked_until = None
        return True

    def take_in(self, fetched: FetchedPartition, wall: float) -> Intake:
        """Read what came for ``wanted`` and go on after it. Its batches are for the caller to queue."""
        assert self.offset is not None
        intake = take_in(fetched, self.offset, check_crcs=self._check_crcs, arrived=wall)
        self.offset = intake.next_offset
        return intake

    def give_back(self, offset: int) -> int:
        """Let go of what waits and fetch from ``offset`` again; how many bytes that were."""
        count = sum(batch.held for batch in self.queue)
        self.queue.clear()
        self.offset = offset
        return count
