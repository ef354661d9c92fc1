"""The differences between two files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mm2.config.grammar.problems import LONGEST_VALUE, shortened
from mm2.config.keys.update_mode import UpdateMode
from mm2.core.naming.names import Flow
from mm2.core.printable import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One changed key, with its line in the new file; ``line`` is None if the new file does not set it.

    ``old`` and ``new`` are safe to print; None: no value. ``content``: the value is the same, but the file that it
    names has different content. ``provided``: the lines are the same, but a config provider returns another value.
    ``is_list``: the values are comma-separated lists.
    """

    file: str
    line: int | None
    key: str
    old: str | None
    new: str | None
    update_mode: UpdateMode
    content: bool = False
    provided: bool = False
    is_list: bool = False

    def __str__(self) -> str:
        """Return ``FILE:LINE: key = value (was value)``, the form of problems."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return one_line(f"{place}: {self._body()}")

    def _body(self) -> str:
        if self.content:
            return f"{self.key} = {shortened(self.new or '')} (the content of the file changed)"
        if self.provided:
            return f"{self.key} = {shortened(self.new or '')} (its config provider returns another value)"
        if self.is_list and max(len(self.old or ""), len(self.new or "")) > LONGEST_VALUE:
            return f"{self.key} ({self._items()})"
        was = "was not set" if self.old is None else f"was {shortened(self.old)}"
        if self.line is not None:
            return f"{self.key} = {shortened(self.new or '')} ({was})"
        now = "removed" if self.new is None else f"removed, default {shortened(self.new)}"
        return f"{self.key} {now} ({was})"

    def _items(self) -> str:
        """Return the added and removed elements, for lists that are too long to be shown as a whole."""
        old, new = _elements(self.old), _elements(self.new)
        came = [item for item in new if item not in old]
        went = [item for item in old if item not in new]
        parts = [
            f"{word} {shortened(', '.join(items))}" for word, items in (("added", came), ("removed", went)) if items
        ]
        return "; ".join(parts) or "order changed"


def _elements(text: str | None) -> list[str]:
    return text.split(", ") if text else []


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDiff:
    """The changes of a flow that both files contain."""

    flow: Flow
    changes: tuple[Change, ...]

    @property
    def update_mode(self) -> UpdateMode:
        """The highest update mode of the changes."""
        return deepest(self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """The difference of two files. ``appeared`` and ``vanished``: flows that only the new, only the old file contains.
    ``node``: changes of the node itself. ``idle``: changed lines without effect on this node."""

    file: str
    appeared: tuple[Flow, ...]
    vanished: tuple[Flow, ...]
    changed: tuple[FlowDiff, ...]
    node: tuple[Change, ...]
    idle: tuple[Change, ...]

    @property
    def update_mode(self) -> UpdateMode:
        """The highest update mode of all changes."""
        flows = UpdateMode.FLOW if self.appeared or self.vanished else UpdateMode.NOTHING
        return max(flows, deepest(self.node), *(flow.update_mode for flow in self.changed), UpdateMode.NOTHING)

    @property
    def keys(self) -> tuple[str, ...]:
        """The changed keys, and the flows that were added or removed."""
        flows = [f"{flow} (added)" for flow in self.appeared] + [f"{flow} (removed)" for flow in self.vanished]
        changes = [*(change for diff in self.changed for change in diff.changes), *self.node, *self.idle]
        return tuple(dict.fromkeys([*flows, *(change.key for change in changes)]))

    @property
    def says_the_same(self) -> bool:
        """Whether only comments, order and whitespace differ."""
        return not (self.appeared or self.vanished or self.changed or self.node or self.idle)

    def to_take_over(self) -> tuple[Flow, ...]:
        """Return the flows that are reconfigured without restart."""
        return tuple(diff.flow for diff in self.changed if diff.update_mode is UpdateMode.RUNNING)


def deepest(changes: Iterable[Change]) -> UpdateMode:
    """Return the highest update mode of ``changes``."""
    return max((change.update_mode for change in changes), default=UpdateMode.NOTHING)
