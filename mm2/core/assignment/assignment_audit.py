"""Check that all work is assigned exactly once, and report what is unassigned, duplicated or unexpected.

Used for tasks on nodes and for partitions in source tasks. A holder is a string: the name of a member, a node or a
source task.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Work = TypeVar("Work", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentAudit(Generic[Work]):
    """Result of an audit, sorted by the work's ``str``.

    ``assigned``: the number of items with exactly one holder. ``moving``: no holder because the item is being moved,
    which is not an error. ``unassigned``: no holder. ``duplicated``: several holders. ``unexpected``: held although not
    wanted.
    """

    assigned: int = 0
    moving: tuple[Work, ...] = ()
    unassigned: tuple[Work, ...] = ()
    duplicated: Mapping[Work, tuple[str, ...]]
    unexpected: Mapping[Work, tuple[str, ...]]


def assignment_audit(
    wanted: Iterable[Work], held: Mapping[str, Collection[Work]], *, moving: Iterable[Work] = ()
) -> AssignmentAudit[Work]:
    """Compare the ``wanted`` work with what each holder holds.

    ``moving``: work that can be without a holder for now, because it was revoked from one and not yet given to another.
    """
    everything, excused = set(wanted), set(moving)
    holders: dict[Work, list[str]] = {}
    for holder in sorted(held):
        for work in set(held[holder]):
            holders.setdefault(work, []).append(holder)
    idle = sorted(everything - holders.keys(), key=str)
    running = sorted(holders, key=str)
    return AssignmentAudit(
        assigned=sum(len(holders[work]) == 1 for work in running if work in everything),
        moving=tuple(work for work in idle if work in excused),
        unassigned=tuple(work for work in idle if work not in excused),
        duplicated={work: tuple(holders[work]) for work in running if work in everything and len(holders[work]) > 1},
        unexpected={work: tuple(holders[work]) for work in running if work not in everything},
    )
