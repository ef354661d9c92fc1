"""Whether everything that should be replicated is run exactly once, and if not, what is not and who runs it twice.

For tasks on nodes as for partitions in slots; "who" is a text: a member's or node's name, or a slot's.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Work = TypeVar("Work", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage(Generic[Work]):
    """All in the order of their texts. ``covered``: how many are run once. ``moving``: run by nobody because it is on
    its way, which is no trouble. ``uncovered``: run by nobody, though it should. ``doubled``: run by several.
    ``stray``: run, though it should not.
    """

    covered: int = 0
    moving: tuple[Work, ...] = ()
    uncovered: tuple[Work, ...] = ()
    doubled: Mapping[Work, tuple[str, ...]]
    stray: Mapping[Work, tuple[str, ...]]


def coverage(
    wanted: Iterable[Work], held: Mapping[str, Collection[Work]], *, moving: Iterable[Work] = ()
) -> Coverage[Work]:
    """``wanted``: all that should be run. ``held``: who runs what. ``moving``: what may be run by nobody for now, since
    it was taken from one and waits to be given to another."""
    everything, excused = set(wanted), set(moving)
    holders: dict[Work, list[str]] = {}
    for holder in sorted(held):
        for work in set(held[holder]):
            holders.setdefault(work, []).append(holder)
    idle = sorted(everything - holders.keys(), key=str)
    running = sorted(holders, key=str)
    return Coverage(
        covered=sum(len(holders[work]) == 1 for work in running if work in everything),
        moving=tuple(work for work in idle if work in excused),
        uncovered=tuple(work for work in idle if work not in excused),
        doubled={work: tuple(holders[work]) for work in running if work in everything and len(holders[work]) > 1},
        stray={work: tuple(holders[work]) for work in running if work not in everything},
    )
