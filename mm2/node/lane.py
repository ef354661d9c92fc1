"""One lane as its node knows it: its orders, who holds its lease, and what it said last."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mm2.core.lease import LaneProgress, LeaseRefusedError, SlotLease, SlotProgress
from mm2.core.names import Flow, TopicPartition
from mm2.core.slot_words import PartitionStates, SlotWord

FIRST_RESTART_S = 0.5
LONGEST_RESTART_S = 30.0
"""A lane that fails at once is started again after 0.5 s, then twice as long each time: a broken set-up must not burn
CPU, and a cured one should not wait minutes."""

HEALTHY_AFTER_S = 60.0
"""A lane that ran this long failed for a new reason: its waiting time starts from the first step again."""

SlotKey = tuple[Flow, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneWord:
    """What a lane said last of a slot, under which session, and whether under its newest orders.

    ``slot`` is the same object as long as there is no news, and so is each of its partitions (`SlotWord`, B).
    ``states`` is another object only when the state or the error of a partition is another. ``running``: the partitions
    that the slot may still be copying.
    """

    session: str
    current: bool
    slot: SlotProgress
    states: PartitionStates
    running: frozenset[TopicPartition]


@dataclass(slots=True, kw_only=True)
class Lane:
    """``version`` counts its orders, which are ``slots``; ``removed`` are slots that were taken from it, each with the
    version of the first orders without it. ``ordered_at``, ``granted_at``, ``heard_at``: seconds of a monotonic clock,
    of what was last asked of the engine, given to the lane, and heard of it."""

    number: int
    token: str
    attempt: int = -1
    pid: int = -1
    session: str | None = None
    version: int = 0
    ordered_at: float | None = None
    granted_at: float | None = None
    heard_at: float | None = None
    failures: int = 0
    not_before: float = 0.0
    progress: LaneProgress | None = None
    words: dict[SlotKey, SlotWord] = field(default_factory=dict)
    unplaced: bool = False
    starved_until: float | None = None
    slots: dict[SlotKey, SlotLease] = field(default_factory=dict)
    removed: dict[SlotKey, int] = field(default_factory=dict)
    error: str | None = None

    # -- its lease

    def begin(self, session: str, attempt: int, pid: int, now: float) -> None:
        """A process has got the lease."""
        self.session, self.attempt, self.pid = session, attempt, pid
        self.granted_at = self.heard_at = now
        self.progress, self.words, self.removed = None, {}, {}
        self.starved_until = None

    def end(self, token: str, error: str | None, now: float, *, wanted: bool) -> None:
        """The lease is void, and so is what was said under it. ``wanted``: it should have gone on, so that it waits
        before it is started again, under ``token``."""
        ran = now - self.granted_at if self.granted_at is not None else 0.0
        if not wanted:  # it left because it had nothing to do
            self.failures, self.not_before = 0, now
        else:
            self.failures = 1 if ran > HEALTHY_AFTER_S else self.failures + 1
            self.not_before = now + min(FIRST_RESTART_S * 2 ** (self.failures - 1), LONGEST_RESTART_S)
        self.token = token
        self.attempt = -1
        self.session = self.ordered_at = self.granted_at = self.heard_at = self.progress = None
        self.words = {}
        self.unplaced = False
        self.error = error

    # -- what it says

    def take(self, progress: LaneProgress, now: float) -> bool:
        """Its newest progress; whether it says anything new. Raises LeaseRefusedError when it begins a slot with a part
        of what there is to say."""
        before, self.heard_at, self.error = self.progress, now, None
        words, news = {}, False
        for slot in progress.slots:
            key = (slot.flow, slot.slot)
            word = words[key] = self.words.get(key) or _first_word(slot)
            news |= word.take(slot)
        news |= before is None or before.version != progress.version or words.keys() != self.words.keys()
        self.words = words
        self.progress = replace(progress, slots=tuple(word.progress for word in words.values()))
        self.removed = {key: version for key, version in self.removed.items() if version > progress.version}
        return news

    @property
    def current(self) -> bool:
        """Whether it has said something under its newest orders."""
        return self.progress is not None and self.progress.version == self.version

    def word(self, key: SlotKey) -> LaneWord | None:
        """What it said last of a slot; None when it has not said anything yet."""
        word = self.words.get(key)
        if self.session is None or self.progress is None or word is None:
            return None
        return LaneWord(
            session=self.session, current=self.current, slot=word.progress, states=word.states, running=word.running
        )

    def may_run(self, key: SlotKey) -> bool:
        """Whether it may be running the slot, whatever its orders are."""
        if self.session is None:
            return False
        if key in self.removed:  # it may have begun it, and has not carried out the orders without it
            return True
        if self.progress is None:  # it has its first orders, and has not said anything yet
            return key in self.slots
        word = self.words.get(key)
        return word is not None and not word.progress.drained

    @property
    def drained(self) -> bool:
        """Whether none of its slots runs, or each has said that it is drained."""
        if self.session is None or not self.slots:
            return True
        if self.progress is None:
            return False
        never_begun = self.current  # of slots it was to drain before they had begun
        return all(word.progress.drained if (word := self.words.get(key)) else never_begun for key in self.slots)

    # -- what is shown

    @property
    def preference(self) -> tuple[bool, int, int]:
        """The lane with the least of it gets the next slot."""
        partitions = sum(len(lease.partitions) + 1 for lease in self.slots.values())
        return self.starved_until is not None, partitions, self.number

    @property
    def description(self) -> str:
        """``A->B slots 1, 3; A->C slot 0`` for the Spark UI."""
        by_flow: dict[Flow, list[int]] = {}
        for flow, slot in self.slots:
            by_flow.setdefault(flow, []).append(slot)
        listed = "; ".join(
            f"{flow} slot{'s' if len(slots) > 1 else ''} {', '.join(map(str, sorted(slots)))}"
            for flow, slots in sorted(by_flow.items())
        )
        return listed or "no slots yet"


def _first_word(slot: SlotProgress) -> SlotWord:
    try:
        return SlotWord(slot)
    except ValueError as error:
        raise LeaseRefusedError(str(error)) from error
