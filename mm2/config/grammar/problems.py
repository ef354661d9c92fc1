"""Problems of a configuration file: place, value, rule and fix.

The form, as compilers have it::

    FILE:LINE: error: key = value: rule and consequence
        fix: what to write instead
    FILE:LINE: warning: key: rule            where the value does not matter
    FILE: error: key: rule                   where no line of the file is to blame
    FILE: error: rule                        where the whole file is
    FILE:LINE: error: key: column 7: rule    in a text of several words, whose line follows with a caret under the place
        the line of the file
              ^

`problem_report` prints all problems of a file in this form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from mm2.core.printable import one_line

EMPTY = "(empty)"

COPY_INDENT = "  "
"""Indentation of the lines of a fix that a user copies."""

LONGEST_VALUE = 120
"""Maximum number of characters of a value in a message: a whole PEM block does not fit a terminal."""


class Location(Protocol):
    """A line of the file that a problem refers to."""

    @property
    def key(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def shown(self) -> str:
        """The value, safe to print."""

    @property
    def broken(self) -> bool:
        """Whether the value could not be resolved; that is reported already."""

    def masked(self, text: str) -> str:
        """Return a message about the value, safe to print."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpan:
    """A place within a value. ``file`` and ``line`` contain it: a continuation line, or a line of another file that the
    key names. ``column`` counts from 1; None: only the line is known. ``excerpt`` is the line, and a line with a caret
    under the place; empty if the line must not be printed."""

    file: str
    line: int
    column: int | None = None
    excerpt: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error or warning. ``line`` is None if no line of the file is to blame; ``value`` is safe to print.

    ``column`` and ``excerpt`` are those of a `SourceSpan` within the value. ``is_temporary``: an error that can
    disappear while this file stays as it is, such as an expired certificate in a key store: it does not prevent a node
    from starting. A warning can be temporary, too. ``str()`` returns the problem and its fix in one line, for logs and
    REST.
    """

    file: str
    line: int | None
    key: str | None
    value: str | None
    rule: str
    fix: str
    is_warning: bool
    column: int | None = None
    excerpt: tuple[str, ...] = ()
    is_temporary: bool = False

    @property
    def headline(self) -> str:
        """The problem without its fix, in one line."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        severity = "warning" if self.is_warning else "error"
        value = "" if self.value is None or self.excerpt else f" = {shortened(self.value) or EMPTY}"
        key = "" if self.key is None else f"{self.key}{value}: "
        column = "" if self.column is None else f"column {self.column}: "
        return one_line(f"{place}: {severity}: {key}{column}{self.rule}")

    @property
    def fix_lines(self) -> tuple[str, ...]:
        """The fix, line by line; commands and lines for the file have lines of their own."""
        return tuple(map(one_line, self.fix.split("\n")))

    def __str__(self) -> str:
        fix = "; ".join(line.strip() for line in self.fix_lines).replace(":; ", ": ")
        return f"{self.headline} (fix: {fix})"


class ProblemLog:
    """Collects the problems of one file. The same problem of the same line counts once, however many flows it
    affects."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._problems: dict[Problem, None] = {}

    def error(
        self,
        rule: str,
        fix: str,
        *,
        at: Location | None = None,
        key: str | None = None,
        is_temporary: bool = False,
    ) -> None:
        """Add a problem that prevents a node from starting, ``at`` a line, or about a ``key`` that no line sets.

        ``is_temporary``: as in `Problem`, whose flows only wait.
        """
        self._add(rule, fix, at, key, is_warning=False, is_temporary=is_temporary)

    def warning(
        self,
        rule: str,
        fix: str,
        *,
        at: Location | None = None,
        key: str | None = None,
        is_temporary: bool = False,
    ) -> None:
        """Add a problem that does not prevent a node from starting.

        ``is_temporary``: it comes or goes while the file stays as it is, so that ``mm2 check --strict`` accepts it.
        """
        self._add(rule, fix, at, key, is_warning=True, is_temporary=is_temporary)

    def within(
        self, at: Location, place: SourceSpan, rule: str, fix: str, *, is_warning: bool, is_temporary: bool = False
    ) -> None:
        """Add a problem at a ``place`` within the value of a line, or within the file that the value names."""
        self._add(rule, fix, at, None, place, is_warning=is_warning, is_temporary=is_temporary)

    def _add(
        self,
        rule: str,
        fix: str,
        at: Location | None,
        key: str | None,
        place: SourceSpan | None = None,
        *,
        is_warning: bool,
        is_temporary: bool = False,
    ) -> None:
        if at is None:
            line, value = None, None
        elif at.broken:
            return
        else:
            line, key, value = at.line, at.key, at.shown
            rule, fix = at.masked(rule), at.masked(fix)
        problem = Problem(
            file=self.file,
            line=line,
            key=key,
            value=value,
            rule=rule,
            fix=fix,
            is_warning=is_warning,
            is_temporary=is_temporary,
        )
        if place is not None:
            problem = replace(problem, file=place.file, line=place.line, column=place.column, excerpt=place.excerpt)
        self._problems[problem] = None

    def has_error_at(self, place: Location) -> bool:
        """Return whether this line has an error."""
        return any(
            problem.file == self.file and problem.line == place.line and not problem.is_warning
            for problem in self._problems
        )

    @property
    def failed(self) -> bool:
        """Whether any problem is an error."""
        return any(not problem.is_warning for problem in self._problems)

    @property
    def prevents_start(self) -> bool:
        """Whether any problem is an error that a node cannot wait out."""
        return any(not (problem.is_warning or problem.is_temporary) for problem in self._problems)

    def in_order(self) -> tuple[Problem, ...]:
        """All problems: errors before warnings, problems of the whole file before those of its lines, and those before
        problems of other files."""
        return tuple(
            sorted(
                self._problems,
                key=lambda problem: (
                    problem.is_warning,
                    problem.file != self.file,
                    problem.line or 0,
                    problem.column or 0,
                ),
            )
        )


def to_copy(*lines: str) -> str:
    """Return the end of a fix: commands, or lines for the file, which are printed as they are and never wrapped."""
    return "".join(f"\n{COPY_INDENT}{line}" for line in lines)


def shortened(value: str) -> str:
    """Return ``value`` cut to the length that a problem shows."""
    return value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}…"
