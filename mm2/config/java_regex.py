r"""Java's regular expressions, compiled by the `regex` package.

A pattern is read by Java's grammar (java.util.regex of Java 17) and written anew, so that nothing means something else
here: ``.`` stops at Java's line ends, ``\w`` and ``\p{Alpha}`` are ASCII, so is ``(?i)``, ``\h`` is spelt out,
``{e<=1}`` is not fuzzy matching. What Java refuses is refused, and so is what cannot be the same: the flags d, m, u, U
and x, ``\N{…}``, ``\G``, ``\R``, ``\X``, ``\b{g}`` and properties of java.lang.Character.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import regex

from mm2.config.java_regex_sets import (
    JavaRegexError,
    PatternText,
    cases,
    code_point,
    literal,
    named_set,
    read_set,
    unsupported_escape,
)

_LINE_END = r"\n\r\x85\u2028\u2029"
_AT_END = rf"(?=(?:\r\n|[{_LINE_END}])?\Z)"
"""Where Java's $ and \\Z match: at the end, or before one last line end."""

_ANCHORS = {
    "A": r"\A",
    "Z": _AT_END,
    "z": r"\Z",
    "b": r"\b",
    "B": r"\B",
}
_GROUPS = ("?:", "?=", "?!", "?>", "?<=", "?<!")
_FLAGS = regex.compile("(?P<on>[a-zA-Z]*)(?P<off>(?:-[a-zA-Z]*)?)(?P<end>[:)])")
_QUANTIFIER = regex.compile(r"[?*+]|\{(?P<number>[0-9]+)(?:,(?P<number>[0-9]*))?\}")

MOST_REPEATED = 1_000
"""Topic names end at 249 signs, and `regex` builds what a number asks for: {100000000} would take gigabytes."""


@lru_cache(maxsize=256)  # the same few lists are compiled for every flow of a file
def compile_java(pattern: str) -> regex.Pattern[str]:
    """Compile for ``fullmatch``, Java's ``matches``. Raises JavaRegexError with a reason for people."""
    translated = _Translator(_unquoted(pattern)).translate()
    try:
        return regex.compile(translated, regex.V1)
    except regex.error as error:
        raise JavaRegexError(f"is no Java regular expression: {error}") from error


def _unquoted(pattern: str) -> str:
    r"""Replace ``\Q…\E`` by what it quotes, each sign escaped; without ``\E`` it quotes the rest."""
    out: list[str] = []
    rest = pattern
    while rest:
        if rest.startswith(r"\Q"):
            quoted, _, rest = rest[2:].partition(r"\E")
            out += [char if char.isalnum() else f"\\{char}" for char in quoted]
            continue
        size = 2 if rest.startswith("\\") else 1
        out.append(rest[:size])
        rest = rest[size:]
    return "".join(out)


class _Translator:
    """One pass over the pattern. ``flags`` are those in force where the pass is: i and s, until their group ends."""

    def __init__(self, pattern: str) -> None:
        self.text = PatternText(pattern)
        self.groups = 0
        self.names: set[str] = set()
        self.flags = ""

    def translate(self) -> str:
        out = self._alternatives()
        if not self.text.at_end:
            raise JavaRegexError("is no Java regular expression: a ) has no ( before it")
        return out

    def _alternatives(self) -> str:
        out: list[str] = []
        while not self.text.at_end and self.text.peek() != ")":
            if self.text.take_if("|"):
                out.append("|")
                continue
            atom, repeatable = self._atom()
            out.append(atom + self._quantifier() if repeatable else atom)
        return "".join(out)

    def _atom(self) -> tuple[str, bool]:
        """One piece, and whether a quantifier may follow it."""
        char = self.text.take()
        if char == "(":
            return self._group()
        return self._single(char), True

    def _single(self, char: str) -> str:
        if char in "*+?{":
            raise JavaRegexError(
                f"cannot be honoured: {char} must follow something to repeat"
                + (" and hold numbers (a comma parts the list, so {1,3} cannot be written)" if char == "{" else "")
            )
        readers: dict[str, Callable[[], str]] = {
            "[": lambda: read_set(self.text, self._ignores_case),
            "\\": self._escape,
            ".": lambda: "(?s:.)" if "s" in self.flags else f"[^{_LINE_END}]",
            "^": lambda: r"\A",
            "$": lambda: _AT_END,
        }
        return readers[char]() if char in readers else self._literal(char)

    @property
    def _ignores_case(self) -> bool:
        return "i" in self.flags

    def _literal(self, char: str) -> str:
        both = cases(char, self._ignores_case)
        return both if len(both) == len(literal(char)) else f"[{both}]"

    def _quantifier(self) -> str:
        match = _QUANTIFIER.match(self.text.pattern, self.text.position)
        if match is None:
            return ""
        if any(len(number) > 4 or int(number or 0) > MOST_REPEATED for number in match.captures("number")):
            raise JavaRegexError(
                f"cannot be honoured: a number in {{…}} may be {MOST_REPEATED} at most, longer than names are"
            )
        self.text.position = match.end()
        mode = self.text.take() if self.text.next_is("?") or self.text.next_is("+") else ""
        return match[0] + mode

    def _group(self) -> tuple[str, bool]:
        outer = self.flags
        for opening in _GROUPS:
            if self.text.take_if(opening):
                return self._rest_of_group(f"({opening}", outer), True
        if self.text.take_if("?<"):
            name = self.text.take_until(">")
            if not regex.fullmatch("[a-zA-Z][a-zA-Z0-9]*", name) or name in self.names:
                raise JavaRegexError(f"is no Java regular expression: {name!r} cannot name a group, or does already")
            self.names.add(name)
            self.groups += 1
            return self._rest_of_group(f"(?P<{name}>", outer), True
        if self.text.take_if("?"):
            return self._flag_group(outer)
        self.groups += 1
        return self._rest_of_group("(", outer), True

    def _rest_of_group(self, opening: str, outer: str) -> str:
        with self.text.nested():
            body = self._alternatives()
        if not self.text.take_if(")"):
            raise JavaRegexError("is no Java regular expression: a ( has no ) after it")
        self.flags = outer
        return f"{opening}{body})"

    def _flag_group(self, outer: str) -> tuple[str, bool]:
        """``(?i)``, ``(?s-i)`` and ``(?i:…)``."""
        match = _FLAGS.match(self.text.pattern, self.text.position)
        if match is None:
            raise JavaRegexError("is no Java regular expression: (? is followed by nothing that Java knows")
        strange = sorted(set(match["on"] + match["off"]) - {"i", "s", "-"})
        if strange:
            raise JavaRegexError(f"cannot be honoured: flags other than i and s have no equal here ({strange[0]})")
        self.text.position = match.end()
        self.flags = "".join(flag for flag in "is" if flag in outer + match["on"] and flag not in match["off"])
        return (self._rest_of_group("(?:", outer), True) if match["end"] == ":" else ("", False)

    def _escape(self) -> str:
        char = self.text.take()
        if (point := code_point(self.text, char)) is not None:
            return self._literal(point)
        if char == "b" and self.text.next_is("{g}"):
            raise unsupported_escape("b{g}")
        if char in _ANCHORS:
            return _ANCHORS[char]
        if char == "k" and self.text.take_if("<"):
            return self._named_reference(self.text.take_until(">"))
        if char in "123456789":
            return self._reference(char)
        return f"[{named_set(self.text, char, self._ignores_case)}]"

    def _named_reference(self, name: str) -> str:
        if name not in self.names:
            raise JavaRegexError(f"is no Java regular expression: there is no group {name!r} to refer to")
        return self._cased(f"(?P={name})")

    def _reference(self, digits: str) -> str:
        # A further digit belongs to the number only while such a group exists.
        while self.text.next_is_digit() and int(digits + self.text.peek()) <= self.groups:
            digits += self.text.take()
        if int(digits) > self.groups:
            raise JavaRegexError(f"cannot be honoured: there is no group {digits} to refer to, so it could never match")
        return self._cased(rf"\g<{digits}>")

    def _cased(self, reference: str) -> str:
        return f"(?{'i' if self._ignores_case else ''}:{reference})"
