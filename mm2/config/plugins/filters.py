"""Filters of names: topics, consumer groups, topic configs.

Kafka: DefaultTopicFilter, DefaultGroupFilter, DefaultConfigPropertyFilter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from mm2.config.grammar.problems import ProblemLog, shortened
from mm2.config.grammar.values import Value
from mm2.config.regex.java_characters import JavaRegexError
from mm2.config.regex.java_regex import MATCHED_WITHIN_S, JavaPattern, SlowMatchError, compile_java
from mm2.core.plugins import Plugin, PluginError


class SlowPatternError(PluginError):
    """Whether a regular expression of the file selects a name is unknown, because that takes too long to find out."""


@dataclass(frozen=True, slots=True)
class NamePattern:
    """Names and Java regular expressions, joined by ``|`` and matched against whole names.

    An empty list matches nothing. Calling it raises SlowPatternError. ``key``: where the list is in the file.
    """

    elements: tuple[str, ...]
    _compiled: JavaPattern | None = field(compare=False)
    key: str = field(compare=False)

    @classmethod
    def of(cls, elements: tuple[str, ...], key: str) -> NamePattern:
        """Compile ``elements``. Raises JavaRegexError."""
        return cls(elements, compile_java("|".join(elements)) if elements else None, key)

    def __call__(self, name: str) -> bool:
        try:
            return self._compiled is not None and self._compiled.matches(name)
        except SlowMatchError:
            raise SlowPatternError(
                f"{self.key} = {shortened(self._slow_element(name))}: the regular expression takes more than"
                f" {MATCHED_WITHIN_S * 1000:.0f} ms for the name {name[:LONGEST_NAME]}, so it is unknown whether it"
                " matches; write it without nested repetitions such as (a|aa)+ or (a+)+"
            ) from None

    def matching(self, name: str) -> str | None:
        """Return the first element that matches ``name`` by itself, for messages.

        None if there is none, as with elements that are only valid when joined: ``(a,b)`` is split into ``(a`` and
        ``b)``.
        """
        for element in self.elements:
            with contextlib.suppress(JavaRegexError, SlowMatchError):
                if compile_java(element).matches(name):
                    return element
        return None

    def _slow_element(self, name: str) -> str:
        """Return the first element that is slow by itself; the whole list if there is none."""
        for element in self.elements:
            try:
                compile_java(element).matches(name)
            except SlowMatchError:
                return element
            except JavaRegexError:
                continue
        return ", ".join(self.elements)


LONGEST_NAME = 249
"""Characters of a name in messages: all of a topic name. Names of groups can be longer."""

LONGEST_RUN = 20
"""Elements of one group or set that commas split, at most. A limit, or long lists would take quadratic time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFilter:
    """A predicate: the name is included and not excluded. Calling it can raise SlowPatternError."""

    include: NamePattern
    exclude: NamePattern

    def __call__(self, name: str) -> bool:
        return self.include(name) and not self.exclude(name)

    def refusal(self, name: str, key: str) -> str | None:
        """Return which property rejects ``name``, or why that is unknown, for messages; None if it is selected.

        ``key`` is that of the includes, ``groups`` or ``topics``; the excludes have ``<key>.exclude``.
        """
        try:
            if self.exclude(name):
                return f"excluded by {key}.exclude: {self.exclude.matching(name) or ', '.join(self.exclude.elements)}"
            if not self.include(name):
                return f"not matched by {key}: {', '.join(self.include.elements) or 'it is empty'}"
        except SlowPatternError as error:
            return str(error)
        return None


@dataclass(frozen=True, slots=True)
class OwnFilter:
    """A predicate implemented by a user's class. Calling it can raise PluginError."""

    plugin: Plugin
    method: str

    def __call__(self, name: str) -> bool:
        return self.plugin.ask_whether(self.method, name)

    def refusal(self, name: str, key: str) -> str | None:  # key: as in NameFilter, unused
        """Return why ``name`` is rejected, for messages, or the error of the class; None if it is selected."""
        try:
            return None if self(name) else f"excluded by {self.plugin.name}"
        except PluginError as error:
            return str(error)


@dataclass(frozen=True, slots=True)
class PropertyFilter:
    """A predicate for names of topic configs: what is not excluded. Calling it can raise SlowPatternError."""

    exclude: NamePattern

    def __call__(self, name: str) -> bool:
        return not self.exclude(name)


def read_pattern(
    name: str, elements: tuple[str, ...], properties: Mapping[str, Value], problems: ProblemLog
) -> NamePattern:
    """Return the pattern of property ``name``, or one that matches nothing if an element is invalid.

    Every invalid element is added to ``problems``.
    """
    value = properties.get(name)
    try:
        return NamePattern.of(elements, name if value is None else value.place(name))
    except JavaRegexError as error:
        for place, text, reason in _invalid_elements(elements) or [("the list", "|".join(elements), error)]:
            escaping = " (in the file, write a backslash as \\\\)" if "\\" in text else ""
            properties[name].refuse(problems, f"{place} {reason}", f"{reason.fix}{escaping}")
        return NamePattern.of((), name)


def _invalid_elements(elements: tuple[str, ...]) -> list[tuple[str, str, JavaRegexError]]:
    """Return place, text and error of each element that is invalid, also when joined with the elements that follow.

    Java splits ``(a,b)`` at the comma and joins the parts to ``(a|b)``, which is valid.
    """
    found = []
    index = 0
    while index < len(elements):
        length, error = _valid_run(elements[index:])
        if error is not None:
            found.append((f'element {index + 1} "{shortened(elements[index])}"', elements[index], error))
        index += length
    return found


def _valid_run(elements: tuple[str, ...]) -> tuple[int, JavaRegexError | None]:
    """Return how many of the first ``elements``, the fewest, are valid when joined; else 1 and the first's error."""
    errors = []
    for length in range(1, min(len(elements), LONGEST_RUN) + 1):
        try:
            compile_java("|".join(elements[:length]))
        except JavaRegexError as error:
            errors.append(error)
        else:
            return length, None
    return 1, errors[0]
