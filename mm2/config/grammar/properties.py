r"""Parser of java.util.Properties files that records the line of every key.

The grammar is Java's: bytes are ISO-8859-1 with ``\uXXXX`` escapes; ``=``, ``:`` or whitespace separates key
and value; a line that ends with a backslash continues on the next one; a line that starts with ``#`` or ``!`` is a
comment; the last of two equal keys wins (java.util.Properties.load).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import javaproperties

from mm2.config.grammar import secrets
from mm2.config.grammar.problems import ProblemLog

_REGEX_KEYS = (
    *(f"{names}{ending}" for names in ("topics", "groups") for ending in ("", ".exclude", ".blacklist")),
    "config.properties.exclude",
    "config.properties.blacklist",
    "access.control.allow.origin",
    "allowlist.pattern",
)
"""Endings of the keys whose values are regular expressions."""

QUERY_KEY = re.compile(r"(?:^|\.)mm2\.sql\.[^.]*\.query$")
"""Keys whose values are SQL."""

ARROWS = re.compile("[→⇒➔⟶\u2013\u2014]")
"""Characters that editors and web pages substitute for the arrow of a flow."""
_ARROW = re.compile(rf"[-=]*(?:>|{ARROWS.pattern})")

_SHORTEST_SECRET = 6
"""Characters. Shorter texts protect nothing, and can be part of any message."""

_KEY = re.compile(r"\s*(?:\\.|[^\\=:\s])*", re.DOTALL)
FOREIGN_COMMENTS = ("//", "--", ";", "/*")
"""What starts a comment in other files. Here it is a key; several such lines are meant as different ones."""

_BLANKS = " \t\f"
_END_OF_KEY = re.compile(r"(?<!\\)(?:\\\\)*([ \t\f]*[=:]|[ \t\f])[ \t\f]*")
_SEPARATOR = re.compile(r"\A\s*[=:]?")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = frozenset("tnrfu\\:=#! \n")
"""Characters before which a backslash has a meaning, or that users escape because they have one elsewhere."""
_TWO = "\\\\"
_TO_ESCAPE = re.compile(r"[^ -~]|\\")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One key of the file. ``raw`` is the text of the file, ``value`` the same with references replaced.

    ``broken``: a reference could not be resolved; that is reported already, and nothing else is reported about the key.
    ``source`` are the lines of the file as they are, with escapes and continuation lines; empty: not known.
    ``hidden``: the value must not be printed, whatever the key: it is probably meant as that of a secret key.
    ``provided``: each reference with the text that replaced it.
    """

    file: str
    line: int
    key: str
    raw: str
    value: str
    broken: bool = False
    source: str = field(default="", compare=False)
    hidden: bool = field(default=False, compare=False)
    provided: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        return f"Entry({self.file}:{self.line} {self.key} = {self.shown})"

    @property
    def shown(self) -> str:
        """The value, safe to print. One with references is shown as it is in the file: what a config provider returns
        can be a secret under any key."""
        return secrets.HIDDEN if self.hidden else secrets.shown(self.key, self.raw)

    @property
    def has_references(self) -> bool:
        """Whether a config provider has returned the value, or a part of it."""
        return self.raw != self.value

    def masked(self, text: str) -> str:
        """Return a message about the value, safe to print: with references instead of what replaced them."""
        for reference, provided in self.provided:
            if len(provided) >= _SHORTEST_SECRET:
                text = text.replace(provided, reference)
        return text

    def resolved(self, value: str, provided: tuple[tuple[str, str], ...] = ()) -> Entry:
        """Return the same line with its references replaced."""
        return replace(self, value=value, provided=provided)


def read_file(path: Path, problems: ProblemLog) -> dict[str, Entry] | None:
    """Return all keys of ``path`` in file order, or None if the file cannot be read."""
    content = read_content(path, problems)
    return None if content is None else parse(content, problems)


def read_content(path: Path, problems: ProblemLog) -> bytes | None:
    """Return the bytes of ``path``, or None if the file cannot be read. Reads once: ``path`` can be a pipe."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        problems.error("does not exist", "check the path, or start from a copy of mm2.properties.example")
    except IsADirectoryError:
        problems.error("is a directory", "give the path of the mm2.properties file in it")
    except OSError as error:
        problems.error(
            f"cannot be read ({error.strerror})", "check the path, and that the user running mm2 can read the file"
        )
    return None


def parse(content: bytes, problems: ProblemLog) -> dict[str, Entry]:
    """Return all keys of ``content`` in file order."""
    entries: dict[str, Entry] = {}
    lines = _Lines(content)
    while not lines.at_end:
        entry = _next_entry(lines, problems)
        if entry is None:
            continue
        earlier = entries.pop(entry.key, None)
        if earlier is not None and (_is_split_flow(earlier) or earlier.key.startswith(FOREIGN_COMMENTS)):
            entries[f"{earlier.key} {earlier.value}"] = earlier
        elif earlier is not None:
            problems.warning(
                f"is set again in line {entry.line}, which wins, as in Java",
                f"write the elements of both lines in line {entry.line}, and remove this line"
                if entry.key.endswith(_REGEX_KEYS)
                else f"remove this line; if its value is the one that was meant, write it in line {entry.line} first",
                at=earlier,
            )
        entries[entry.key] = entry
    return entries


def _is_split_flow(entry: Entry) -> bool:
    """Return whether a space or an equals sign has split the key of a flow, as in ``A -> B.enabled = true``,
    ``A-> B.enabled`` or ``A->B .enabled``.

    Several such lines are meant as different keys, although all have the key A.
    """
    if "." in entry.key:
        return False
    value = as_utf8(entry.value)
    behind_arrow = entry.key.endswith(("->", "=>")) or ("->" in entry.key and value.startswith("."))
    return behind_arrow or _ARROW.match(value) is not None


def as_utf8(text: str) -> str:
    """Return ``text`` as it was typed, if the file is UTF-8."""
    try:
        return text.encode("iso-8859-1").decode("utf-8")
    except UnicodeError:
        return text


class _Lines:
    """The physical lines of the file, counted as they are parsed: after an error the rest can still be parsed."""

    def __init__(self, content: bytes) -> None:
        text = content.decode("iso-8859-1")
        self._lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self.taken = 0

    @property
    def at_end(self) -> bool:
        return self.taken >= len(self._lines)

    def logical(self) -> str | None:
        """Return the next logical line, with its continuation lines; None for a comment or an empty line.

        Each line is read once, so that lists of thousands of lines take linear time.
        """
        first = self._next()
        if not first or first[0] in "#!":
            return None
        parts = [first]
        while _is_continued(parts[-1]):
            parts[-1] = parts[-1][:-1]
            if self.at_end:
                break
            parts.append(self._next())
        return "".join(parts) or None

    def _next(self) -> str:
        self.taken += 1
        return self._lines[self.taken - 1].lstrip(_BLANKS)

    def since(self, line: int) -> str:
        return "\n".join(self._lines[line - 1 : self.taken])


def _next_entry(lines: _Lines, problems: ProblemLog) -> Entry | None:
    first = lines.taken + 1
    line = lines.logical()
    if line is None:
        return None
    end = _END_OF_KEY.search(line)
    key, value = (line, "") if end is None else (line[: end.start(1)], line[end.end() :])
    try:
        key, value = javaproperties.unescape(key), javaproperties.unescape(value)
    except javaproperties.InvalidUEscapeError:
        _report_bad_escape(lines, first, problems)
        return None
    source = lines.since(first) + "\n"
    entry = Entry(file=problems.file, line=first, key=key, raw=value, value=value, source=source)
    _warn_of_utf8(entry, source, problems)
    _warn_of_lost_backslash(entry, source, problems)
    return entry


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _report_bad_escape(lines: _Lines, first: int, problems: ProblemLog) -> None:
    source = lines.since(first)
    key = cast(re.Match[str], _KEY.match(source))[0]
    value = _SEPARATOR.sub("", source[len(key) :], count=1).strip()
    broken = Entry(file=problems.file, line=first, key=key.strip(), raw=value, value=value)
    problems.error(
        "has a \\u without four hexadecimal digits after it: Java rejects the whole file",
        "write \\\\ for a backslash, or four digits as in \\u00e9",
        at=broken,
    )


def _warn_of_utf8(entry: Entry, source: str, problems: ProblemLog) -> None:
    if source.isascii():
        return
    try:
        meant = source.encode("iso-8859-1").decode("utf-8")
    except UnicodeDecodeError:
        return  # real ISO-8859-1, as the grammar requires
    if ARROWS.search(meant.partition(".")[0]):
        return  # mm2.config.checks.unknown_keys suggests ->
    escapes = ", ".join(f"{_escape(char)} for {char}" for char in sorted(set(meant)) if not char.isascii())
    problems.warning(
        "contains UTF-8 characters, which are misread: properties files are ISO-8859-1",
        f"write {escapes}",
        at=entry,
    )


def _warn_of_lost_backslash(entry: Entry, source: str, problems: ProblemLog) -> None:
    r"""Warn if a regular expression or a query contains a backslash that Java drops, such as that of ``orders\d+``.

    Other values are not checked: there an escaped character mostly stands for itself.
    """
    is_query = QUERY_KEY.search(entry.key) is not None
    if not (is_query or entry.key.endswith(_REGEX_KEYS)):
        return
    escapes = _ESCAPE.findall(source, cast(re.Match[str], _KEY.match(source)).end())
    lost = list(dict.fromkeys(char for char in escapes if char not in _ESCAPED))
    if lost:
        written = ", ".join(f"\\{char}" for char in lost)
        problems.warning(
            f"the backslash of {written} is dropped, as in Java",
            f"write each backslash twice: {', '.join(f'{_TWO}{char}' for char in lost)}"
            + (f"; in SQL also make the text a raw string: r'{_TWO}{lost[0]}'" if is_query else ""),
            at=entry,
        )


def escaped(value: str) -> str:
    """Return ``value`` as a properties file contains it."""
    return _TO_ESCAPE.sub(lambda match: _TWO if match[0] == "\\" else _escape(match[0]), value)


def _escape(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
