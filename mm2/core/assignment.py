"""Which slot copies which source partition: sticky to what runs now, balanced by weight, moving little.

Java deals partitions out in turn (mm2-compat §3.6) and starts every task anew when one topic appears. Here a partition
stays where it is unless it must move or a slot carries clearly too much, since a move stops its copying for a drain.
From nothing and with equal weights the outcome is Java's.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Iterable, Mapping

from mm2.core.names import TopicPartition

WEIGHT = 100  # of a partition no load is known of (`partition_load`); integers, so that sums are exact everywhere
GAP_TOLERATED = 0.2  # of the mean slot: measured load wobbles by about that, and a move stops a partition for a drain
MOVES_SHARE = 0.1  # of all partitions: at most so many are stopped at a time only to even out load


def spread(
    partitions: Iterable[TopicPartition],
    *,
    tasks_max: int,
    previous: Mapping[TopicPartition, int] | None = None,
    weights: Mapping[TopicPartition, int] | None = None,
) -> tuple[tuple[TopicPartition, ...], ...]:
    """Spread ``partitions`` over min(``tasks_max``, number of partitions) slots.

    ``previous`` says in which slot a partition runs now (slots beyond the present number count as gone). ``weights``
    are integers of at least 1, `WEIGHT` where a partition has none. Returns the sorted partitions of slot 0, 1 and so
    on; the same input gives the same output. Raises ValueError for a ``tasks_max`` below 1.

    Invariants:
    A. Every partition is in exactly one slot, and no slot is empty.
    B. A partition leaves a slot that still exists only to fill one that was empty, or to even out load; of the latter
       moves there are at most `MOVES_SHARE` of all partitions (at least 1) in a call.
    C. Unless B's bound was reached, no slot outweighs the lightest by more than the larger of its own lightest
       partition and `GAP_TOLERATED` of the mean slot: any other move would gain nothing, or too little. Where the bound
       was reached, another call with the outcome as ``previous`` goes on.
    """
    if tasks_max < 1:
        raise ValueError(f"tasks.max is {tasks_max}: with less than 1 task nothing is replicated")
    before, known = previous or {}, weights or {}
    wanted = sorted(set(partitions), key=lambda one: (one.topic, one.partition))
    slots = [_Slot(number) for number in range(min(tasks_max, len(wanted)))]
    new: list[_Item] = []
    for rank, partition in enumerate(wanted):
        number = before.get(partition, -1)
        place = slots[number].items if 0 <= number < len(slots) else new
        place.append((max(1, known.get(partition, WEIGHT)), rank))
    for slot in slots:
        slot.settle()
    if len(new) == len(wanted):
        _place(new, slots)
    else:
        empty = [slot for slot in slots if not slot.items]
        _place(new, slots)
        _fill(slots, empty)
        _even_out(slots, moves=max(1, int(MOVES_SHARE * len(wanted))))
    return tuple(tuple(wanted[rank] for rank in sorted(rank for _, rank in slot.items)) for slot in slots)


_Item = tuple[int, int]  # weight of a partition, and its place in the order of all: cheap to compare, unlike names


class _Slot:
    """The partitions of one slot as sorted items, and the sum of their weights."""

    __slots__ = ("items", "number", "total")

    def __init__(self, number: int) -> None:
        self.number = number
        self.items: list[_Item] = []
        self.total = 0

    def settle(self) -> None:
        """After `items` were changed from outside."""
        self.items.sort()
        self.total = sum(weight for weight, _ in self.items)

    def add(self, item: _Item) -> None:
        bisect.insort(self.items, item)
        self.total += item[0]

    def remove(self, item: _Item) -> None:
        del self.items[bisect.bisect_left(self.items, item)]
        self.total -= item[0]

    def nearest(self, gap: int) -> _Item:
        """The partition to give to a slot lighter by ``gap`` that brings the two nearest to each other."""
        at = bisect.bisect_left(self.items, (-(-gap // 2),))  # the first of at least half the gap
        around = self.items[at : at + 1]
        if at:
            around.append(self.items[bisect.bisect_left(self.items, self.items[at - 1][:1])])  # first of that weight
        return min(around, key=lambda item: (abs(gap - 2 * item[0]), item[1]))


def _place(items: Iterable[_Item], slots: list[_Slot]) -> None:
    """Give each partition, the heaviest first, to the slot that is the lightest by then."""
    lightest = [(slot.total, slot.number, slot) for slot in slots]
    heapq.heapify(lightest)
    for item in sorted(items, key=lambda item: (-item[0], item[1])):
        total, number, slot = lightest[0]
        slot.items.append(item)
        heapq.heapreplace(lightest, (total + item[0], number, slot))
    for slot in slots:
        slot.settle()


def _fill(slots: list[_Slot], empty: list[_Slot]) -> None:
    """Bring slots that had nothing up to the mean with what others carry beyond it."""
    if not empty:
        return
    mean = sum(slot.total for slot in slots) / len(slots)
    released: list[_Item] = []
    for slot in slots:
        surplus = slot.total - mean
        kept: list[_Item] = []
        for item in sorted(slot.items, key=lambda item: (-item[0], item[1])):
            fits = item[0] <= surplus
            surplus -= item[0] if fits else 0
            (released if fits else kept).append(item)
        slot.items = kept
        slot.settle()
    _place(released, empty)
    for slot in empty:
        if not slot.items:  # what is beyond the mean was less than any one partition
            giver = max((other for other in slots if len(other.items) > 1), key=lambda other: other.total)
            item = giver.items[0]
            giver.remove(item)
            slot.add(item)


def _even_out(slots: list[_Slot], moves: int) -> None:
    """Move one partition at a time from a heavy slot to the lightest, while that narrows a gap worth a move.

    Each move lowers the sum of the squares of the slots' weights, so calls with equal weights come to an end.
    """
    ranking = sorted((slot.total, slot.number) for slot in slots)
    tolerated = GAP_TOLERATED * sum(total for total, _ in ranking) / len(ranking)
    for _ in range(moves):
        lightest = slots[ranking[0][1]]
        giver = _giver(slots, ranking, tolerated)
        if giver is None:
            return
        for slot in (giver, lightest):
            del ranking[bisect.bisect_left(ranking, (slot.total, slot.number))]
        item = giver.nearest(giver.total - lightest.total)
        giver.remove(item)
        lightest.add(item)
        for slot in (giver, lightest):
            bisect.insort(ranking, (slot.total, slot.number))


def _giver(slots: list[_Slot], ranking: list[tuple[int, int]], tolerated: float) -> _Slot | None:
    """The heaviest slot that can narrow its gap to the lightest by giving it a partition."""
    least, _ = ranking[0]
    heavy = itertools.takewhile(lambda one: one[0] - least > tolerated, reversed(ranking))
    return next((slots[number] for total, number in heavy if total - least > slots[number].items[0][0]), None)
