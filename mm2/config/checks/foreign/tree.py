"""Access to the content of a manifest: each value must have the expected type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


class NotUnderstood(ValueError):
    """A manifest cannot be read, or has another structure than expected."""


class UnreadableYaml(NotUnderstood):
    """The message has the line and the reason, and nothing else of the file, which may contain secrets."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")


@dataclass(frozen=True, slots=True)
class Tree:
    """A mapping and its path, such as ``spec.clusters[0]``. Methods raise NotUnderstood for values of another type."""

    path: str
    entries: Mapping[str, object]

    @classmethod
    def of(cls, node: object, path: str = "") -> Tree:
        """Return ``node`` as a mapping. A missing one is empty."""
        if node is None:
            node = {}
        if not isinstance(node, dict):
            raise NotUnderstood(path)
        return cls(path, node)

    @property
    def names(self) -> tuple[str, ...]:
        """The keys that have a value."""
        return tuple(key for key, value in self.entries.items() if value is not None)

    def place(self, key: str) -> str:
        """Return the path of ``key``."""
        return f"{self.path}.{key}" if self.path else key

    def child(self, key: str) -> Tree:
        """Return the mapping at ``key``."""
        return Tree.of(self.entries.get(key), self.place(key))

    def children(self, key: str) -> Iterator[Tree]:
        """Return the mappings of the sequence at ``key``."""
        items = self.entries.get(key)
        if not isinstance(items, list):
            raise NotUnderstood(self.place(key))
        return (Tree.of(item, f"{self.place(key)}[{number}]") for number, item in enumerate(items))

    def text(self, key: str) -> str | None:
        """Return the scalar at ``key``, None if it is missing."""
        value = self.entries.get(key)
        if isinstance(value, dict | list):
            raise NotUnderstood(self.place(key))
        return value if isinstance(value, str | None) else json.dumps(value)

    def required(self, key: str) -> str:
        """Return the scalar at ``key``, which must not be empty."""
        value = self.text(key)
        if not value:
            raise NotUnderstood(self.place(key))
        return value
