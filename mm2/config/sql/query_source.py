"""Reads the text of a query from the properties file, or from a file of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mm2.config.grammar.problems import ProblemLog, SourceSpan
from mm2.config.grammar.properties import Entry
from mm2.config.grammar.secrets import is_secret
from mm2.config.grammar.value_places import place_in_line, place_in_value
from mm2.config.grammar.values import Value


class QuerySource(Protocol):
    """The text of a query and the places of its characters."""

    @property
    def text(self) -> str: ...
    @property
    def stored_text(self) -> str | None:
        """The text with its references to config providers; None: it has none."""

    def place(self, offset: int) -> SourceSpan:
        """Return the place of the character at ``offset``."""


@dataclass(frozen=True, slots=True)
class QueryInLine:
    """A query that is the value of a key."""

    entry: Entry

    @property
    def text(self) -> str:
        return self.entry.value

    @property
    def stored_text(self) -> str | None:
        return None if self.entry.raw == self.entry.value else self.entry.raw

    def place(self, offset: int) -> SourceSpan:
        return place_in_value(self.entry, offset)


@dataclass(frozen=True, slots=True)
class QueryInFile:
    """A query in a file of its own, whose references are not replaced."""

    path: Path
    text: str

    @property
    def stored_text(self) -> str | None:
        return None

    def place(self, offset: int) -> SourceSpan:
        before = self.text[:offset]
        line = before.count("\n")
        shown = self.text.split("\n")[line]
        column = len(before) - (before.rfind("\n") + 1)
        return place_in_line(str(self.path), line + 1, shown, column, hidden=is_secret("", shown))


def query_path(value: Value, directory: Path) -> Path:
    """Return the file that a key names; ``directory`` is that of the properties file."""
    return directory / value.text.strip()


def read_query_file(value: Value, directory: Path, problems: ProblemLog) -> QueryInFile | None:
    """Return the query in the file that a key names; None, after an error, if it cannot be read."""
    path = query_path(value, directory)
    if not value.text.strip():
        value.refuse(problems, "names no file", "write the path of a file that contains the query")
        return None
    try:
        return QueryInFile(path, path.read_text("utf-8-sig"))
    except FileNotFoundError:
        value.refuse(
            problems, f"file {path} does not exist", "correct the path: it starts at the directory of this file"
        )
    except IsADirectoryError:
        value.refuse(problems, f"{path} is a directory", "write the path of the file with the query in it")
    except UnicodeDecodeError:
        value.refuse(problems, f"file {path} is not UTF-8", "convert the file to UTF-8")
    except (OSError, ValueError) as error:  # ValueError: not a valid file name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        value.refuse(
            problems,
            f"file {path} cannot be read ({reason})",
            "check the path, and that the user running mm2 can read the file",
        )
    return None
