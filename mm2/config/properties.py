r"""A file of java.util.Properties, with the line of every key.

The grammar is Java's: bytes are ISO-8859-1 with ``\uXXXX`` escapes; ``=``, ``:`` or a blank parts key and value; a line
that ends in a backslash goes on in the next one; ``#`` and ``!`` start comments; the last of two equal keys counts
(mm2-compat §1.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

import javaproperties

from mm2.config import secrets
from mm2.config.problems import ProblemLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One key of the file. ``raw`` is what stands there, ``value`` what counts once config providers were asked.

    ``broken``: a provider could not give the value; a problem says so, and nothing else should be said about it.
    """

    file: str
    line: int
    key: str
    raw: str
    value: str
    broken: bool = False

    def __repr__(self) -> str:
        return f"Entry({self.file}:{self.line} {self.key} = {self.shown})"

    @property
    def shown(self) -> str:
        """The value as it may be printed."""
        return secrets.HIDDEN if secrets.is_secret(self.key, self.raw) else secrets.shown(self.key, self.value)

    def resolved(self, value: str) -> Entry:
        """The same line, its references replaced."""
        return replace(self, value=value)


def read_file(path: Path, problems: ProblemLog) -> dict[str, Entry] | None:
    """All keys of ``path`` in file order, or None when it cannot be read at all; either way ``problems`` tells."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        problems.error(
            "does not exist. Give the path of a mm2.properties file; mm2.properties.example is one to start from."
        )
        return None
    except IsADirectoryError:
        problems.error("is a directory. Give the path of the mm2.properties file in it.")
        return None
    except OSError as error:
        problems.error(
            f"cannot be read ({error.strerror}). Check the path, and that the user who runs mm2 may read it."
        )
        return None
    return _parse(content, problems)


def _parse(content: bytes, problems: ProblemLog) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    lines = _Lines(content)
    while not lines.at_end:
        entry = _next_entry(lines, problems)
        if entry is None:
            continue
        if (earlier := entries.pop(entry.key, None)) is not None:
            problems.warning(
                f"is set again in line {entry.line}, and the last one counts, as in Java. Remove one of the two.",
                at=earlier,
            )
        entries[entry.key] = entry
    return entries


class _Lines:
    """The physical lines of the file, counted as the grammar takes them: after an error the rest can still be read."""

    def __init__(self, content: bytes) -> None:
        text = content.decode("iso-8859-1")
        self._lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self.taken = 0

    @property
    def at_end(self) -> bool:
        return self.taken >= len(self._lines)

    def readline(self) -> str:
        if self.at_end:
            return ""
        self.taken += 1
        return self._lines[self.taken - 1] + "\n"

    def since(self, line: int) -> str:
        return "\n".join(self._lines[line - 1 : self.taken])


def _next_entry(lines: _Lines, problems: ProblemLog) -> Entry | None:
    first = lines.taken + 1
    try:
        element = next(_elements(lines), None)
    except javaproperties.InvalidUEscapeError:
        _report_bad_escape(lines, first, problems)
        return None
    if not isinstance(element, javaproperties.KeyValue):
        return None
    entry = Entry(file=problems.file, line=first, key=element.key, raw=element.value, value=element.value)
    _warn_of_utf8(entry, element.source, problems)
    return entry


def _elements(lines: _Lines) -> Iterator[javaproperties.PropertiesElement]:
    # The parser reads lazily: asked for one element, it takes no line beyond it.
    return iter(javaproperties.parse(cast(IO[str], lines)))


def _report_bad_escape(lines: _Lines, first: int, problems: ProblemLog) -> None:
    source = lines.since(first)
    key, _, value = source.partition("=")
    broken = Entry(file=problems.file, line=first, key=key.strip(), raw=value.strip(), value=value.strip())
    problems.error(
        "has a \\u that four hexadecimal digits must follow, or Java refuses the whole file. "
        "Write a backslash itself as \\\\.",
        at=broken,
    )


def _warn_of_utf8(entry: Entry, source: str, problems: ProblemLog) -> None:
    if source.isascii():
        return
    try:
        meant = source.encode("iso-8859-1").decode("utf-8")
    except UnicodeDecodeError:
        return  # real ISO-8859-1, as the grammar wants it
    escapes = ", ".join(f"{char} as {_escape(char)}" for char in sorted(set(meant)) if not char.isascii())
    problems.warning(
        f"is written in UTF-8, but the file is read as ISO-8859-1, as Java does: other characters arrive. "
        f"Write {escapes}.",
        at=entry,
    )


def _escape(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
