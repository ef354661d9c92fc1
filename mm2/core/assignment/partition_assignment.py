"""Assignment of source partitions to source tasks: sticky, balanced by weight, with few moves.

Java assigns partitions round-robin (MirrorSourceConnector.taskConfigs) and restarts every task when a topic appears.
Here a partition stays in its source task unless it must move or the source task is clearly overloaded, because a move
interrupts copying for a drain. Without a previous assignment and with equal weights the result is the same as in Java.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Iterable, Mapping

from mm2.core.naming.names import TopicPartition

WEIGHT = 100  # of a partition without a known load (`partition_load`); an integer, so that sums are exact
GAP_TOLERATED = 0.2  # share of the mean source task; measured load varies by about that, and a move costs a drain
MOVES_SHARE = 0.1  # share of all partitions; at most so many move at a time only to balance load


def spread(
    partitions: Iterable[TopicPartition],
    *,
    tasks_max: int,
    previous: Mapping[TopicPartition, int] | None = None,
    weights: Mapping[TopicPartition, int] | None = None,
) -> tuple[tuple[TopicPartition, ...], ...]:
    """Spread ``partitions`` over min(``tasks_max``, number of partitions) source tasks.

    ``previous`` maps a partition to its current source task (numbers beyond the new count are ignored). ``weights`` are
    integers of at least 1; the default is `WEIGHT`. Returns the sorted partitions of source task 0, 1 and so on; the
    same input gives the same output. Raises ValueError for a ``tasks_max`` below 1.

    Invariants:
    A. Every partition is in exactly one source task, and no source task is empty.
    B. A partition leaves a source task that still exists only to fill an empty one or to balance load; to balance load,
       one call moves at most `MOVES_SHARE` of all partitions (at least 1).
    C. Unless B's limit was reached, no source task outweighs the lightest by more than the larger of its own lightest
       partition and `GAP_TOLERATED` of the mean source task: any other move would gain nothing, or too little. If the
       limit was reached, another call with the result as ``previous`` continues.
    """
    if tasks_max < 1:
        raise ValueError(f"tasks.max is {tasks_max}: must be at least 1")
    before, known = previous or {}, weights or {}
    wanted = sorted(set(partitions), key=lambda one: (one.topic, one.partition))
    source_tasks = [_SourceTask(number) for number in range(min(tasks_max, len(wanted)))]
    new: list[_Item] = []
    for rank, partition in enumerate(wanted):
        number = before.get(partition, -1)
        place = source_tasks[number].items if 0 <= number < len(source_tasks) else new
        place.append((max(1, known.get(partition, WEIGHT)), rank))
    for source_task in source_tasks:
        source_task.settle()
    if len(new) == len(wanted):
        _place(new, source_tasks)
    else:
        empty = [source_task for source_task in source_tasks if not source_task.items]
        _place(new, source_tasks)
        _fill(source_tasks, empty)
        _even_out(source_tasks, moves=max(1, int(MOVES_SHARE * len(wanted))))
    return tuple(
        tuple(wanted[rank] for rank in sorted(rank for _, rank in source_task.items)) for source_task in source_tasks
    )


_Item = tuple[int, int]  # weight of a partition, and its rank among all: cheaper to compare than names


class _SourceTask:
    """The partitions of one source task as sorted items, and the sum of their weights."""

    __slots__ = ("items", "number", "total")

    def __init__(self, number: int) -> None:
        self.number = number
        self.items: list[_Item] = []
        self.total = 0

    def settle(self) -> None:
        """Sort the items and update the total, after a caller changed `items`."""
        self.items.sort()
        self.total = sum(weight for weight, _ in self.items)

    def add(self, item: _Item) -> None:
        bisect.insort(self.items, item)
        self.total += item[0]

    def remove(self, item: _Item) -> None:
        del self.items[bisect.bisect_left(self.items, item)]
        self.total -= item[0]

    def nearest(self, gap: int) -> _Item:
        """Return the partition that minimises the difference if given to a source task lighter by ``gap``."""
        at = bisect.bisect_left(self.items, (-(-gap // 2),))  # the first of at least half the gap
        around = self.items[at : at + 1]
        if at:
            around.append(self.items[bisect.bisect_left(self.items, self.items[at - 1][:1])])  # first of that weight
        return min(around, key=lambda item: (abs(gap - 2 * item[0]), item[1]))


def _place(items: Iterable[_Item], source_tasks: list[_SourceTask]) -> None:
    """Add each partition, the heaviest first, to the source task that is the lightest at that point."""
    lightest = [(source_task.total, source_task.number, source_task) for source_task in source_tasks]
    heapq.heapify(lightest)
    for item in sorted(items, key=lambda item: (-item[0], item[1])):
        total, number, source_task = lightest[0]
        source_task.items.append(item)
        heapq.heapreplace(lightest, (total + item[0], number, source_task))
    for source_task in source_tasks:
        source_task.settle()


def _fill(source_tasks: list[_SourceTask], empty: list[_SourceTask]) -> None:
    """Fill empty source tasks up to the mean weight, from source tasks above the mean."""
    if not empty:
        return
    mean = sum(source_task.total for source_task in source_tasks) / len(source_tasks)
    released: list[_Item] = []
    for source_task in source_tasks:
        surplus = source_task.total - mean
        kept: list[_Item] = []
        for item in sorted(source_task.items, key=lambda item: (-item[0], item[1])):
            fits = item[0] <= surplus
            surplus -= item[0] if fits else 0
            (released if fits else kept).append(item)
        source_task.items = kept
        source_task.settle()
    _place(released, empty)
    for source_task in empty:
        if not source_task.items:  # every surplus was smaller than a single partition
            giver = max((other for other in source_tasks if len(other.items) > 1), key=lambda other: other.total)
            item = giver.items[0]
            giver.remove(item)
            source_task.add(item)


def _even_out(source_tasks: list[_SourceTask], moves: int) -> None:
    """Move one partition at a time from a heavy source task to the lightest, while that narrows a gap worth a move.

    Each move lowers the sum of the squares of the source tasks' weights, so calls with equal weights come to an end.
    """
    ranking = sorted((source_task.total, source_task.number) for source_task in source_tasks)
    tolerated = GAP_TOLERATED * sum(total for total, _ in ranking) / len(ranking)
    for _ in range(moves):
        lightest = source_tasks[ranking[0][1]]
        giver = _giver(source_tasks, ranking, tolerated)
        if giver is None:
            return
        for source_task in (giver, lightest):
            del ranking[bisect.bisect_left(ranking, (source_task.total, source_task.number))]
        item = giver.nearest(giver.total - lightest.total)
        giver.remove(item)
        lightest.add(item)
        for source_task in (giver, lightest):
            bisect.insort(ranking, (source_task.total, source_task.number))


def _giver(source_tasks: list[_SourceTask], ranking: list[tuple[int, int]], tolerated: float) -> _SourceTask | None:
    """Return the heaviest source task that can narrow its gap to the lightest by giving it a partition."""
    least, _ = ranking[0]
    heavy = itertools.takewhile(lambda one: one[0] - least > tolerated, reversed(ranking))
    return next(
        (source_tasks[number] for total, number in heavy if total - least > source_tasks[number].items[0][0]), None
    )
