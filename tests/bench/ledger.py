"""CPU time of a process and its descendants, including those that have exited.

A process reports two numbers: its own CPU time, and that of its exited children that it waited for (the kernel adds
both numbers of such a child to the second one of its parent). A plain sum of all numbers would count an exited child
twice, and omit one that its parent did not wait for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Identity = tuple[int, float]  # pid and creation time: pids are reused


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The numbers of one process in one sample, in CPU-seconds."""

    process: Identity
    parent: Identity | None
    own: float
    waited: float


class CpuLedger:
    """All processes ever seen, by their last sample.

    A. A process's own CPU time counts once, whether it runs or has exited.
    B. The waited-for time of a process represents its exited children. It counts if it exceeds the sum of their last
       samples, since it includes their time after that, and children that existed only between two samples.
    C. An exited process that no parent waited for counts by its last sample: up to one interval is lost.
    D. A process whose parent exited belongs to the process that adopted it, from its next sample.
    """

    def __init__(self) -> None:
        self._last: dict[Identity, Sighting] = {}
        self._alive: set[Identity] = set()

    def note(self, sightings: Iterable[Sighting]) -> None:
        """Add a sample of all running processes. Processes of the previous sample that are missing have exited.

        Read parents before their children: a child that exits in between is then counted one sample late, never
        twice.
        """
        seen = {one.process: one for one in sightings}
        self._last.update(seen)
        self._alive = set(seen)

    def total(self) -> float:
        """Return the CPU-seconds of all processes so far."""
        children: dict[Identity | None, list[Sighting]] = {}
        for one in self._last.values():
            children.setdefault(one.parent if one.parent in self._last else None, []).append(one)

        def cost(one: Sighting) -> float:
            living = ended = 0.0
            for child in children.get(one.process, ()):
                if child.process in self._alive:
                    living += cost(child)
                else:
                    ended += cost(child)
            return one.own + living + max(one.waited, ended)

        return sum(cost(one) for one in children.get(None, ()))
