"""Offset translation with the same results as Java's OffsetSyncStore.

At most 64 offset syncs are kept per source partition: many near the end of the log, fewer and fewer towards its start.
A group's position is translated by the last sync at or before it. A position after the sync, at any distance, becomes
the offset one after the sync: it is unknown how many of the source offsets in between became records of the target.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.offset_translation import NO_SYNC, NOT_READY, TooOld, Translated, Translation
from mm2.core.wire.formats import FormatError, OffsetSync

SLOTS = 64  # one for each bit of an offset


class _Sync(NamedTuple):
    upstream: int
    downstream: int


class OffsetSyncStore:
    """The offset syncs of one flow, built from the records of their topic in order.

    Invariants of slots 0 to 63 of a partition, for i < j. u(i) is the upstream offset of slot i; adjacent slots often
    contain the same sync:

    A. Slot 0 is the latest sync.
    B. Different syncs are not too far apart: u(i) <= u(j) + 2^j - 2^i.
    C. Different syncs are not too close: u(i) >= u(j) + 2^max(i-2, 0). Exception: a sync with the same upstream offset
       as the latest one does not replace it immediately.
    D. Slot 63 is the earliest sync that can be used.

    In Java the sums of B and C can overflow, and Java then treats B as true and C as false. Python's integers do not
    overflow, with the same result, since no offset is as large as such a sum.

    A partition takes about 2.5 KB: 64 references of 8 bytes, and 120 bytes for each of usually 10 to 20 different
    syncs. A translation takes about a microsecond.
    """

    def __init__(self, *, must_read_to_end: bool) -> None:
        """``must_read_to_end``: earlier checkpoints could not be loaded. Then only the last of the syncs read at the
        start can be used: an older one could give a smaller offset than an earlier checkpoint."""
        self._only_last = must_read_to_end
        self._ready = False
        self._slots: dict[TopicPartition, Sequence[_Sync]] = {}

    @property
    def ready(self) -> bool:
        """Whether the topic has been read to its end."""
        return self._ready

    def read_to_end(self) -> None:
        """Record that the initial content of the topic has been applied; enables translation."""
        self._ready = True

    def apply(self, sync: OffsetSync) -> None:
        """Apply the next record of the offset-syncs topic. Raises FormatError for an offset below 0."""
        if sync.upstream_offset < 0 or sync.downstream_offset < 0:
            raise FormatError(f"invalid offset sync of {sync.topic_partition}: negative offset: {sync}")
        new = _Sync(sync.upstream_offset, sync.downstream_offset)
        old = self._slots.get(sync.topic_partition)
        if old is None or new.upstream < old[0].upstream or (self._only_last and not self._ready):
            self._slots[sync.topic_partition] = (new,) * SLOTS
        else:
            self._slots[sync.topic_partition] = _insert(old, new)

    def translate(self, topic_partition: TopicPartition, upstream_offset: int) -> Translation:
        """Translate the position ``upstream_offset``, the next offset a group would read from a source partition."""
        if not self._ready:
            return NOT_READY
        slots = self._slots.get(topic_partition)
        if slots is None:
            return NO_SYNC
        slot = bisect_left(slots, -upstream_offset, key=_falling)
        if slot == SLOTS:
            return TooOld(first=slots[-1].upstream)
        sync = slots[slot]
        if sync.upstream == upstream_offset:
            return Translated(offset=sync.downstream, behind=0)
        return Translated(offset=sync.downstream + 1, behind=upstream_offset - sync.upstream - 1)

    def syncs(self, topic_partition: TopicPartition) -> dict[int, OffsetSync]:
        """Return the distinct syncs, the latest first, by the first slot that contains them."""
        kept: dict[int, OffsetSync] = {}
        before: _Sync | None = None
        for slot, sync in enumerate(self._slots.get(topic_partition, ())):
            if sync is not before:
                kept[slot] = OffsetSync(
                    topic_partition=topic_partition, upstream_offset=sync.upstream, downstream_offset=sync.downstream
                )
            before = sync
        return kept


def _falling(sync: _Sync) -> int:
    return -sync.upstream


def _recent(newer: _Sync, older: _Sync, i: int, j: int) -> bool:
    """Invariant B for ``newer`` in slot ``i`` and ``older`` in slot ``j``."""
    return newer is older or newer.upstream <= older.upstream + (1 << j) - (1 << i)


def _apart(newer: _Sync, older: _Sync, i: int) -> bool:
    """Invariant C for ``newer`` in slot ``i`` and ``older`` in any later one."""
    return newer is older or newer.upstream >= older.upstream + (1 << max(i - 2, 0))


def _insert(old: Sequence[_Sync], new: _Sync) -> list[_Sync]:
    """Return the slots after adding ``new``, which is not before slot 0 of ``old``.

    From slot 1 on, a sync that is too old for its slot (B) is replaced by an old sync that fits there, so that as many
    distinct ones as possible are kept. If B holds for a slot, it holds for all later ones: they stay.
    """
    slots = list(old)
    slots[0] = candidate = new
    reader = 0  # slot of ``old`` to consider next
    for slot in range(1, SLOTS):
        left = slots[slot - 1]
        if _recent(left, slots[slot], slot - 1, slot):
            break
        while True:
            offered = old[reader]
            apart = _apart(left, offered, slot - 1)
            fits = (
                apart
                and _recent(left, offered, slot - 1, slot)
                and (slot == SLOTS - 1 or _apart(offered, slots[slot + 1], slot))
            )
            if fits:
                candidate = offered
            # Too close to its left neighbour, or the same as its right one: later slots do not need it either.
            passed = not apart or offered is old[reader + 1]
            if fits or passed:
                reader += 1
            if not passed or reader >= slot:
                break
        slots[slot] = candidate
    return slots
