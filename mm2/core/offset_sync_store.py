"""Offset translation as Java's OffsetSyncStore does it, to the same numbers (mm2-compat §4.4).

Of each source partition at most 64 offset syncs are kept: many near the end of the log, fewer and fewer towards its
start. A group's position is translated by the last sync at or before it. Past a sync by any distance the answer is one
past the sync and never more: of the source offsets in between nobody knows how many became records of the target.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from mm2.core.formats import FormatError, OffsetSync
from mm2.core.names import TopicPartition
from mm2.core.offset_translation import NO_SYNC, NOT_READY, TooOld, Translated, Translation

SLOTS = 64  # one for each bit of an offset


class _Sync(NamedTuple):
    upstream: int
    downstream: int


class OffsetSyncStore:
    """The offset syncs of one flow, folded from their topic in its order.

    In slots 0 to 63 of a partition, u(i) being the upstream offset of slot i, where neighbours often hold one and the
    same sync, and i < j:

    A. Slot 0 is the latest sync.
    B. Different syncs are not too far apart: u(i) <= u(j) + 2^j - 2^i.
    C. Different syncs are not too close: u(i) >= u(j) + 2^max(i-2, 0). But one that repeats the upstream offset of the
       latest does not drive it out at once.
    D. Slot 63 is the earliest sync that may be used.

    Java's longs wrap around in the sums of B and C and it then takes B as true and C as false; Python's integers do not
    wrap, and come to the same, since no offset is as large as such a sum.

    A partition takes about 2.5 KB: 64 references of 8 bytes, and 120 bytes for each of usually 10 to 20 different
    syncs. A translation takes about a microsecond.
    """

    def __init__(self, *, must_read_to_end: bool) -> None:
        """``must_read_to_end``: the checkpoints of an earlier life could not be loaded. Then only the last sync of
        those read at the start may be used: an older one could give a smaller offset than was given out before."""
        self._only_last = must_read_to_end
        self._ready = False
        self._slots: dict[TopicPartition, Sequence[_Sync]] = {}

    @property
    def ready(self) -> bool:
        """True once the topic was read to its end."""
        return self._ready

    def read_to_end(self) -> None:
        """What the topic held at the start has been applied; translations are given from now on."""
        self._ready = True

    def apply(self, sync: OffsetSync) -> None:
        """Take in the next record of the offset-syncs topic. Raises FormatError for an offset below 0."""
        if sync.upstream_offset < 0 or sync.downstream_offset < 0:
            raise FormatError(f"apply offset sync of {sync.topic_partition}: an offset is below 0: {sync}")
        new = _Sync(sync.upstream_offset, sync.downstream_offset)
        old = self._slots.get(sync.topic_partition)
        if old is None or new.upstream < old[0].upstream or (self._only_last and not self._ready):
            self._slots[sync.topic_partition] = (new,) * SLOTS
        else:
            self._slots[sync.topic_partition] = _insert(old, new)

    def translate(self, topic_partition: TopicPartition, upstream_offset: int) -> Translation:
        """Translate the position ``upstream_offset``, the next offset a group would read of a source partition."""
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
        """The different syncs that are kept, the latest first, by the first slot that holds them."""
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
    """The slots after ``new``, which is not before slot 0 of ``old``.

    From slot 1 on, what has become too old for its slot (B) gives way to an old sync that fits there, so that as many
    different ones as possible are kept. Where B holds it holds for all that follow: they stay.
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
            # Too close to its left, or the same as its right: it will not be needed further on either.
            passed = not apart or offered is old[reader + 1]
            if fits or passed:
                reader += 1
            if not passed or reader >= slot:
                break
        slots[slot] = candidate
    return slots
