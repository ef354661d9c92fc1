"""What is different between two files: values for who takes it over, and for who shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mm2.config.problems import LONGEST_VALUE, one_line, shortened
from mm2.config.reach import Reach
from mm2.core.names import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One key, as it is written in the new file, or in the old one where no line says it any more (``line`` None).

    ``old`` and ``new`` may be printed; None: no value. ``content``: the value is the same, but the file that it names
    has other contents. ``is_list``: the values are lists, parted by commas.
    """

    file: str
    line: int | None
    key: str
    old: str | None
    new: str | None
    reach: Reach
    content: bool = False
    is_list: bool = False

    def __str__(self) -> str:
        """In the form of problems: ``FILE:LINE key = value  (was value)``."""
        place = f"{self.file}:" if self.line is None else f"{self.file}:{self.line}"
        return one_line(f"{place} {self._body()}")

    def _body(self) -> str:
        if self.content:
            return f"{self.key} = {shortened(self.new or '')}  (the file has other contents)"
        if self.is_list and max(len(self.old or ""), len(self.new or "")) > LONGEST_VALUE:
            return f"{self.key}  ({self._items()})"
        was = "was not set" if self.old is None else f"was {shortened(self.old)}"
        if self.line is not None:
            return f"{self.key} = {shortened(self.new or '')}  ({was})"
        now = "is not set any more" if self.new is None else f"= {shortened(self.new)} by default now"
        return f"{self.key} {now}  ({was})"

    def _items(self) -> str:
        """Long lists look alike where they are cut off: say which of their elements came and went."""
        old, new = _elements(self.old), _elements(self.new)
        came = [item for item in new if item not in old]
        went = [item for item in old if item not in new]
        parts = [
            f"{word} {shortened(', '.join(items))}" for word, items in (("now also", came), ("without", went)) if items
        ]
        return "; ".join(parts) or "in another order"


def _elements(text: str | None) -> list[str]:
    return text.split(", ") if text else []


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDiff:
    """A flow that both files have, and what is different about it."""

    flow: Flow
    changes: tuple[Change, ...]

    @property
    def reach(self) -> Reach:
        """The deepest of its changes."""
        return deepest(self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """Two files. ``appeared`` and ``vanished``: flows that only the new one, only the old one has. ``node``: what
    concerns the node as a whole. ``idle``: lines that are different and change no setting of this node."""

    file: str
    appeared: tuple[Flow, ...]
    vanished: tuple[Flow, ...]
    changed: tuple[FlowDiff, ...]
    node: tuple[Change, ...]
    idle: tuple[Change, ...]

    @property
    def reach(self) -> Reach:
        """How deep it goes as a whole. NOTHING: all can stay as it is."""
        flows = Reach.FLOW if self.appeared or self.vanished else Reach.NOTHING
        return max(flows, deepest(self.node), *(flow.reach for flow in self.changed), Reach.NOTHING)

    @property
    def says_the_same(self) -> bool:
        """Whether no line means anything else: at most comments, order and blanks differ."""
        return not (self.appeared or self.vanished or self.changed or self.node or self.idle)

    def to_take_over(self) -> tuple[Flow, ...]:
        """Flows that go on, with other settings."""
        return tuple(diff.flow for diff in self.changed if diff.reach is Reach.RUNNING)


def deepest(changes: Iterable[Change]) -> Reach:
    """How deep they go together."""
    return max((change.reach for change in changes), default=Reach.NOTHING)
