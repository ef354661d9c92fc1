"""Filters over names: topics, groups, topic settings (mm2-compat §1.3, Filters)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import regex

from mm2.config.java_regex import compile_java
from mm2.config.java_regex_sets import JavaRegexError
from mm2.config.problems import ProblemLog
from mm2.config.values import Value


@dataclass(frozen=True, slots=True)
class NamePattern:
    """Names and Java regular expressions, joined by ``|``; a name matches as a whole. Without any, nothing matches."""

    elements: tuple[str, ...]
    _compiled: regex.Pattern[str] | None = field(compare=False)

    @classmethod
    def of(cls, elements: tuple[str, ...]) -> NamePattern:
        """Compile. Raises JavaRegexError."""
        return cls(elements, compile_java("|".join(elements)) if elements else None)

    def __call__(self, name: str) -> bool:
        return self._compiled is not None and self._compiled.fullmatch(name) is not None


NOTHING = NamePattern.of(())


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFilter:
    """A predicate: included and not excluded."""

    include: NamePattern
    exclude: NamePattern

    def __call__(self, name: str) -> bool:
        return self.include(name) and not self.exclude(name)


@dataclass(frozen=True, slots=True)
class PropertyFilter:
    """A predicate over names of topic settings: everything that is not excluded."""

    exclude: NamePattern

    def __call__(self, name: str) -> bool:
        return not self.exclude(name)


def read_pattern(
    name: str, elements: tuple[str, ...], properties: Mapping[str, Value], problems: ProblemLog
) -> NamePattern:
    """The pattern of property ``name``. What is no pattern is told to ``problems`` and matches nothing."""
    try:
        return NamePattern.of(elements)
    except JavaRegexError as error:
        properties[name].refuse(problems, f"{error}. Correct the list; a backslash is written twice in the file.")
        return NOTHING
