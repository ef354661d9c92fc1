"""CPU time of a process and of everything it starts, kept so that the dead count too.

A process tells two numbers: what it burned itself, and what those of its children burned that ended and that it waited
for (the kernel adds a child's two numbers to the second one of its parent). Adding all numbers up as they are would
count a child twice once it has ended, and lose one that nobody waits for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Identity = tuple[int, float]  # pid and time of creation: a pid alone is given to others later


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What one process told at one look, in CPU-seconds."""

    process: Identity
    parent: Identity | None
    own: float
    waited: float


class CpuLedger:
    """All processes ever seen, by their last sighting.

    A. What a process burned itself counts once, whether it lives or has ended.
    B. What a process waited for stands for its ended children, and counts where it is more than was seen of them:
       the rest of their lives after the last look, and children that came and went between two looks.
    C. An ended process that nobody waited for counts as it was last seen: up to one interval of it is lost.
    D. A process whose parent ended belongs to whoever adopted it, as of its next sighting.
    """

    def __init__(self) -> None:
        self._last: dict[Identity, Sighting] = {}
        self._alive: set[Identity] = set()

    def note(self, sightings: Iterable[Sighting]) -> None:
        """One look: everything that lives. Who was seen before and is missing now has ended.

        Parents are to be read before their children: a child that ends in between is then counted a look late,
        never twice.
        """
        seen = {one.process: one for one in sightings}
        self._last.update(seen)
        self._alive = set(seen)

    def total(self) -> float:
        """CPU-seconds of all of them so far."""
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
