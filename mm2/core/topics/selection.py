"""Which source topics enter and leave the selection of a flow, from one round of discovery to the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from mm2.core.naming.names import Flow

MOST_NAMES = 100
"""Topics that a line of the log names."""

MOST_SHOWN = 6
"""Topics that a reason names; /flows has a field with all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What was found in a round.

    ``selected``: the topics that were selected. ``present``: the topics that existed on the source then, as far as the
    node's principal sees them; None: unknown, because another node was the leader. ``left``: see `next_selection`.
    """

    selected: frozenset[str] = frozenset()
    present: frozenset[str] | None = None
    left: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionChange:
    """Topics by what has changed, each sorted.

    ``new`` are topics that were created. ``added`` existed before, or another file did not select them. ``dropped``
    exist and are not selected any more.
    """

    new: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def lines(self, flow: Flow) -> Iterable[tuple[bool, str]]:
        """Return the lines for the log, and whether each is a warning: one for many topics."""
        if self.new:
            yield False, f"{counted(self.new)} selected: {named(self.new, MOST_NAMES)}"
        if self.added:
            yield (
                True,
                f"{counted(self.added)} entered the selection with a changed file, and will be copied to"
                f" {flow.target}: {named(self.added, MOST_NAMES)}",
            )
        if self.dropped:
            yield (
                True,
                f"{counted(self.dropped)} left the selection, and will not be copied any more although"
                f" {_exist(self.dropped)} on {flow.source}: {named(self.dropped, MOST_NAMES)}",
            )


def unselected(
    before: Selection, copied: Collection[str], *, selected: Collection[str], present: Collection[str]
) -> frozenset[str]:
    """Return the topics that were replicated before, exist, and are not selected now.

    ``copied``: topics with a stored source offset, also of earlier leaders.
    """
    return before.selected.union(before.left, copied).intersection(present).difference(selected)


def next_selection(
    before: Selection,
    *,
    selected: Collection[str],
    failed: Collection[str],
    present: Collection[str],
    dropped: Collection[str],
    excluded: Collection[str],
    file_changed: bool,
) -> tuple[Selection, SelectionChange]:
    """Return the selection of this round, and what has changed since ``before``.

    ``failed``: the selected topics with an error, which has its own message. ``dropped``: those of `unselected` that
    the topic filter does not select. ``excluded``: those of them that topics.exclude names, so that this is intended;
    the others are ``left`` as long as they exist. ``file_changed``: the previous leader had another file.
    """
    chosen = frozenset(selected)
    left = frozenset(dropped).difference(excluded)
    entered = chosen.difference(before.selected, failed)
    if before.present is not None:
        added = entered.intersection(before.present)
    else:
        added = entered if file_changed else frozenset()
    gone = before.selected.intersection(dropped) | (left - before.left)
    change = SelectionChange(
        new=tuple(sorted(entered - added)), added=tuple(sorted(added)), dropped=tuple(sorted(gone))
    )
    return Selection(selected=chosen, present=frozenset(present), left=left), change


def left_reason(left: Collection[str], flow: Flow) -> str | None:
    """Return the reason that is shown while topics that were replicated are not selected; None: there are none."""
    if not left:
        return None
    names = sorted(left)
    return (
        f"{counted(names)} {'was' if len(names) == 1 else 'were'} replicated and {'is' if len(names) == 1 else 'are'}"
        f" not selected any more, although {_exist(names)} on {flow.source}: {named(names, MOST_SHOWN)}; select them"
        f" again, or add them to {flow}.topics.exclude if that is intended"
    )


def counted(topics: Collection[str]) -> str:
    """Return the number of topics in words."""
    return "1 topic" if len(topics) == 1 else f"{len(topics):,} topics"


def named(topics: Collection[str], most: int) -> str:
    """Return the first ``most`` of the topics, and how many more there are."""
    names = list(topics)
    more = len(names) - most
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:most])} and {more:,} more"


def _exist(topics: Collection[str]) -> str:
    return "it exists" if len(topics) == 1 else "they exist"
