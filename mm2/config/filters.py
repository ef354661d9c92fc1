"""Filters over names: topics, groups, topic settings (mm2-compat §1.3, Filters)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import regex

from mm2.config.java_regex import compile_java
from mm2.config.java_regex_sets import JavaRegexError
from mm2.config.problems import ProblemLog
from mm2.config.values import Value
from mm2.core.plugins import Plugin, PluginError


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

    def matching(self, name: str) -> str | None:
        """The first element that matches ``name`` by itself, for people: what the file says of this name. None where
        none does, and where elements mean something only when joined."""
        for element in self.elements:
            with contextlib.suppress(JavaRegexError):
                if compile_java(element).fullmatch(name) is not None:
                    return element
        return None


NOTHING = NamePattern.of(())


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFilter:
    """A predicate: included and not excluded."""

    include: NamePattern
    exclude: NamePattern

    def __call__(self, name: str) -> bool:
        return self.include(name) and not self.exclude(name)

    def refusal(self, name: str, key: str) -> str | None:
        """By which line of the file ``name`` is left out, as a sentence; None when it is not. ``key`` is that of the
        includes, ``groups`` or ``topics``; ``<key>.exclude`` that of the others."""
        if self.exclude(name):
            return f"{key}.exclude leaves it out: {self.exclude.matching(name) or ', '.join(self.exclude.elements)}"
        if not self.include(name):
            return f"{key} does not name it: {', '.join(self.include.elements) or 'it is empty'}"
        return None


@dataclass(frozen=True, slots=True)
class OwnFilter:
    """A predicate that a user's class is asked for. All but `refusal` raise PluginError."""

    plugin: Plugin
    method: str

    def __call__(self, name: str) -> bool:
        return self.plugin.ask_whether(self.method, name)

    def refusal(self, name: str, key: str) -> str | None:  # key: one of a filter that is not asked
        """Why ``name`` is left out, as a sentence, also where the class does not answer; None when it is not."""
        try:
            return None if self(name) else f"{self.plugin.name} leaves it out"
        except PluginError as error:
            return str(error)


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
