"""Who may copy which partition at this moment: assignments become grants in two steps, so there are never two owners.

A partition that changes its slot is first taken from the old one; only when that slot reports that it no longer runs
it (its offset is stored by then) is it granted to the new one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mm2.core.names import TopicPartition

Partitions = frozenset[TopicPartition]


class SlotTable:
    """The slots of one flow.

    Invariant (A): after every call, a partition is granted to at most one slot, and to none while another slot still
    held it at its last word.
    """

    def __init__(self) -> None:
        self._wanted: dict[int, Partitions] = {}
        self._held: dict[int, Partitions] = {}

    def assign(self, wanted: Mapping[int, Collection[TopicPartition]]) -> None:
        """What each slot should run in the end. A slot left out should run nothing."""
        self._wanted = {slot: frozenset(partitions) for slot, partitions in wanted.items()}

    def heard(self, slot: int, running: Collection[TopicPartition]) -> None:
        """A slot's word, given under its newest orders, of what it runs; nothing when no lane runs it."""
        self._held[slot] = frozenset(running)

    def holds(self, slot: int) -> bool:
        """Whether the slot may still be running something."""
        return bool(self._held.get(slot))

    def grants(self) -> dict[int, Partitions]:
        """The grants of now; slots with an empty set have (or soon will have) nothing to run."""
        slots = sorted(self._wanted.keys() | self._held.keys())
        holders: dict[TopicPartition, set[int]] = {}
        for slot, partitions in self._held.items():
            for partition in partitions:
                holders.setdefault(partition, set()).add(slot)
        granted = {
            slot: frozenset(p for p in self._wanted.get(slot, frozenset()) if holders.get(p, {slot}) == {slot})
            for slot in slots
        }
        for slot, partitions in granted.items():  # from now on the slot may run them, until it says otherwise
            self._held[slot] = self._held.get(slot, frozenset()) | partitions
        return granted
