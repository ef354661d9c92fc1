"""What is wrong with a file, said to people: every problem with its place, value, rule, consequence and repair.

The house form, one problem a line (contract: Problems)::

    FILE:LINE key = value  rule, consequence, repair
    FILE: key  rule, consequence, repair              where no line of the file is to blame
    FILE: rule, consequence, repair                   where the file as a whole is
    warning: …                                        in front of what does not keep a node from running
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

LONGEST_VALUE = 120
"""Characters of a value that a problem shows: a PEM block on one terminal line helps nobody."""


class Place(Protocol):
    """What a problem can point at: a line of the file."""

    @property
    def key(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def shown(self) -> str:
        """The value as it may be printed."""

    @property
    def broken(self) -> bool:
        """The value could not be had, and that has been said: nothing more is said about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One sentence about one place. ``str()`` gives the line to print; ``line`` None is no line of the file."""

    file: str
    line: int | None
    key: str | None
    value: str | None
    text: str
    is_warning: bool

    def __str__(self) -> str:
        place = f"{self.file}:" if self.line is None else f"{self.file}:{self.line}"
        if self.key is None:
            body = f"{place} {self.text}"
        elif self.value is None:
            body = f"{place} {self.key}  {self.text}"
        else:
            body = f"{place} {self.key} = {shortened(self.value)}  {self.text}"
        return one_line(f"warning: {body}" if self.is_warning else body)


class ProblemLog:
    """Collects the problems of one file. The same sentence about the same place counts once, however many flows it
    touches."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._problems: dict[Problem, None] = {}

    def error(self, text: str, *, at: Place | None = None, key: str | None = None) -> None:
        """Something a node cannot start with, ``at`` a line or about a ``key`` that no line has."""
        self._add(text, at, key, is_warning=False)

    def warning(self, text: str, *, at: Place | None = None, key: str | None = None) -> None:
        """Something a user should know and a node can run with."""
        self._add(text, at, key, is_warning=True)

    def _add(self, text: str, at: Place | None, key: str | None, *, is_warning: bool) -> None:
        if at is None:
            problem = Problem(file=self.file, line=None, key=key, value=None, text=text, is_warning=is_warning)
        elif at.broken:
            return
        else:
            problem = Problem(
                file=self.file, line=at.line, key=at.key, value=at.shown, text=text, is_warning=is_warning
            )
        self._problems[problem] = None

    def has_error_at(self, place: Place) -> bool:
        """True when an error was told about this line."""
        return any(problem.line == place.line and not problem.is_warning for problem in self._problems)

    @property
    def failed(self) -> bool:
        """True when there is an error among the problems."""
        return any(not problem.is_warning for problem in self._problems)

    def in_order(self) -> tuple[Problem, ...]:
        """What concerns the whole file first, then line by line."""
        return tuple(sorted(self._problems, key=lambda problem: problem.line or 0))


def one_line(text: str) -> str:
    """``text`` without line ends and other signs that do something to a terminal: they are escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def shortened(value: str) -> str:
    """``value`` as a line shows it."""
    return value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}…"
