"""Which slot copies which source partition: sticky to what runs now, balanced by weight, moving little.

Java deals partitions out in turn (mm2-compat §3.6) and starts every task anew when one topic appears. Here a partition
stays where it is unless it must move or a slot carries clearly too much, since a move stops its copying for a drain.
From nothing and with equal weights the outcome is Java's.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mm2.core.names import TopicPartition

WEIGHT = 100  # of a partition no load is known of; weights are integers, so that sums are exact on every machine
GAP_TOLERATED = 0.2  # of the mean slot: measured load wobbles by about that, and a move stops a partition for a drain
MOVES_SHARE = 0.1  # of all partitions: at most so many are stopped at a time only to even out load


def weights_of(loads: Mapping[TopicPartition, float]) -> dict[TopicPartition, int]:
    """Weights from measured loads (bytes per second, or any one unit).

    Half of the weight is for being there (a fetch session entry, metadata, offsets), half for the load: an idle
    partition weighs `WEIGHT` / 2, one with the mean load `WEIGHT`.
    """
    mean = sum(loads.values()) / len(loads) if loads else 0.0
    if mean <= 0:
        return dict.fromkeys(loads, WEIGHT)
    return {partition: WEIGHT // 2 + round(WEIGHT / 2 * load / mean) for partition, load in loads.items()}


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
    wanted = sorted(set(partitions))
    slots = [_Slot(number) for number in range(min(tasks_max, len(wanted)))]
    new: dict[TopicPartition, int] = {}
    for partition in wanted:
        number = before.get(partition, -1)
        place = slots[number].weights if 0 <= number < len(slots) else new
        place[partition] = max(1, known.get(partition, WEIGHT))
    if len(new) == len(wanted):
        _place(new, slots)
    else:
        empty = [slot for slot in slots if not slot.weights]
        _place(new, slots)
        _fill(slots, empty)
        _even_out(slots, moves=max(1, int(MOVES_SHARE * len(wanted))))
    return tuple(tuple(sorted(slot.weights)) for slot in slots)


@dataclass(slots=True)
class _Slot:
    number: int
    weights: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.weights.values())

    def nearest(self, gap: int) -> TopicPartition:
        """The partition to give to a slot lighter by ``gap`` that brings the two nearest to each other."""
        return min((abs(gap - 2 * weight), partition) for partition, weight in self.weights.items())[1]

    def lightest(self) -> TopicPartition:
        return min((weight, partition) for partition, weight in self.weights.items())[1]


def _place(weights: Mapping[TopicPartition, int], slots: list[_Slot]) -> None:
    """Give each partition, the heaviest first, to the slot that is the lightest by then."""
    lightest = [(slot.total, slot.number, slot) for slot in slots]
    heapq.heapify(lightest)
    for partition, weight in sorted(weights.items(), key=lambda item: -item[1]):
        total, number, slot = lightest[0]
        slot.weights[partition] = weight
        heapq.heapreplace(lightest, (total + weight, number, slot))


def _fill(slots: list[_Slot], empty: list[_Slot]) -> None:
    """Bring slots that had nothing up to the mean with what others carry beyond it."""
    if not empty:
        return
    mean = sum(slot.total for slot in slots) / len(slots)
    released: dict[TopicPartition, int] = {}
    for slot in slots:
        surplus = slot.total - mean
        for partition, weight in sorted(slot.weights.items(), key=lambda item: -item[1]):
            if weight <= surplus:
                surplus -= weight
                released[partition] = slot.weights.pop(partition)
    _place(released, empty)
    for slot in empty:
        if not slot.weights:  # what is beyond the mean was less than any one partition
            giver = max((other for other in slots if len(other.weights) > 1), key=lambda other: other.total)
            partition = giver.lightest()
            slot.weights[partition] = giver.weights.pop(partition)


def _even_out(slots: list[_Slot], moves: int) -> None:
    """Move one partition at a time from a heavy slot to the lightest, while that narrows a gap worth a move.

    Each move lowers the sum of the squares of the slots' weights, so calls with equal weights come to an end.
    """
    ranking = sorted((slot.total, slot.number) for slot in slots)
    tolerated = GAP_TOLERATED * sum(total for total, _ in ranking) / len(ranking)
    for _ in range(moves):
        least, lightest = ranking[0]
        heavy = _giver(slots, ranking, tolerated)
        if heavy is None:
            return
        most, giver = heavy
        partition = slots[giver].nearest(most - least)
        weight = slots[giver].weights.pop(partition)
        slots[lightest].weights[partition] = weight
        ranking.remove(heavy)
        ranking.remove((least, lightest))
        bisect.insort(ranking, (most - weight, giver))
        bisect.insort(ranking, (least + weight, lightest))


def _giver(slots: list[_Slot], ranking: list[tuple[int, int]], tolerated: float) -> tuple[int, int] | None:
    """Weight and number of the heaviest slot that can narrow its gap to the lightest by giving it a partition."""
    least, _ = ranking[0]
    worth_it = (
        (total, number)
        for total, number in reversed(ranking)
        if total - least > tolerated and total - least > min(slots[number].weights.values())
    )
    return next(worth_it, None)
