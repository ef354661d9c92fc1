"""Reader of the part of YAML that Kubernetes manifests are usually written in.

Block mappings and sequences of plain and quoted scalars, ``|`` blocks, ``{}`` and ``[]``. Everything else, such as
anchors, tags, flow collections and scalars of several lines, raises NotUnderstood: no value is ever guessed.
"""

from __future__ import annotations

import json
import re
from typing import TypeAlias, Union

Node: TypeAlias = Union[str, list["Node"], dict[str, "Node"], None]  # noqa: UP007 (strings have no |)

_KEY = re.compile(r"""(?:"(?P<double>[^"\\]*)"|'(?P<single>[^']*)'|(?P<plain>\w[\w.$/:-]*?))\s*:(?:\s+(?P<rest>.*))?""")
_QUOTED = re.compile(r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*(?:#.*)?""")
_COMMENT = re.compile(r"(?:^|\s+)#.*")
_BLOCK = re.compile(r"\|(?P<strip>-?)(?:\s+#.*)?")
_NOT_PLAIN = tuple("&*!|>%@`[]{},?\"'")
_EMPTY: dict[str, Node] = {"": None, "~": None, "null": None, "{}": {}, "[]": []}


class NotUnderstood(ValueError):
    """The text is not YAML, or uses more of YAML than this reader supports."""


def read_yaml(text: str) -> Node:
    """Return the one document in ``text``. Scalars are returned as text. Raises NotUnderstood."""
    return _Reader(text).document()


class _Reader:
    """The lines of a document and the number of those that were read."""

    def __init__(self, text: str) -> None:
        self._lines = text.replace("\r\n", "\n").split("\n")
        self._read = 0
        if "\t" in text:
            raise NotUnderstood("a tab")

    def document(self) -> Node:
        node = self._node(self._indent()) if self._skip() else None
        if self._skip():
            raise NotUnderstood(f"line {self._read + 1}")
        return node

    def _skip(self) -> bool:
        """Skip empty lines and comments. Return whether a line follows."""
        while self._read < len(self._lines) and not _COMMENT.sub("", self._lines[self._read]).strip():
            self._read += 1
        return self._read < len(self._lines)

    def _indent(self) -> int:
        line = self._lines[self._read]
        return len(line) - len(line.lstrip(" "))

    def _at(self, indent: int, *, item: bool) -> bool:
        """Return whether the next line has this indentation, and is an item of a sequence or not."""
        return self._skip() and self._indent() == indent and self._is_item() == item

    def _is_item(self) -> bool:
        return f"{self._lines[self._read].lstrip(' ')} ".startswith("- ")

    def _node(self, indent: int) -> Node:
        return self._sequence(indent) if self._is_item() else self._mapping(indent)

    def _sequence(self, indent: int) -> list[Node]:
        items = []
        while self._at(indent, item=True):
            rest = self._lines[self._read][indent + 1 :]
            if _KEY.fullmatch(rest.strip()) or rest.lstrip().startswith("- "):
                self._lines[self._read] = " " * (indent + 1) + rest
                items.append(self._node(self._indent()))
            else:
                self._read += 1
                items.append(self._value(rest.strip(), indent))
        return items

    def _mapping(self, indent: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        while self._at(indent, item=False):
            match = _KEY.fullmatch(self._lines[self._read].strip())
            if match is None:
                raise NotUnderstood(f"line {self._read + 1}")
            key = match["double"] or match["single"] or match["plain"] or ""
            if key in entries:
                raise NotUnderstood(f"{key} twice")
            self._read += 1
            entries[key] = self._value(match["rest"] or "", indent, in_mapping=True)
        return entries

    def _value(self, rest: str, indent: int, *, in_mapping: bool = False) -> Node:
        if block := _BLOCK.fullmatch(rest):
            text = self._block(indent)
            return text if block["strip"] or not text else f"{text}\n"
        if _COMMENT.sub("", rest):
            return _scalar(rest)
        if self._skip() and (self._indent() > indent or (in_mapping and self._at(indent, item=True))):
            return self._node(self._indent())
        return None

    def _block(self, indent: int) -> str:
        start = self._read
        while self._read < len(self._lines) and (not self._lines[self._read].strip() or self._indent() > indent):
            self._read += 1
        lines = [line if line.strip() else "" for line in self._lines[start : self._read]]
        indents = [len(line) - len(line.lstrip(" ")) for line in lines if line]
        if indents and min(indents) < indents[0]:
            raise NotUnderstood(f"line {start + 1}")
        return "\n".join(line[min(indents, default=0) :] for line in lines).rstrip("\n")


def _scalar(text: str) -> Node:
    if quoted := _QUOTED.fullmatch(text):
        inner = quoted["text"]
        return inner[1:-1].replace("''", "'") if inner[0] == "'" else _double_quoted(inner)
    plain = _COMMENT.sub("", text).strip()
    if plain in _EMPTY:
        return _EMPTY[plain]
    if plain.startswith(_NOT_PLAIN) or f"{plain} ".startswith("- ") or ": " in plain or plain.endswith(":"):
        raise NotUnderstood(plain)
    return plain


def _double_quoted(text: str) -> str:
    try:
        return str(json.loads(text))  # the escapes of JSON are also YAML's
    except ValueError as error:
        raise NotUnderstood(text) from error
