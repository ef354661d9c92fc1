"""Java's property maps, name to text, with the line that each value came from."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.config.grammar import secrets
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import Entry


@dataclass(frozen=True, slots=True, repr=False)
class Value:
    """One property: its text and its line; ``entry`` is None for a derived value, such as `client.id` of a flow."""

    text: str
    entry: Entry | None = None

    @classmethod
    def of(cls, entry: Entry) -> Value:
        """Return the value of a line of the file."""
        return cls(entry.value, entry)

    def __repr__(self) -> str:
        return f"Value({self.entry!r})" if self.entry else f"Value({self.text!r})"

    @property
    def is_hidden(self) -> bool:
        """Whether no other user of the machine may see it: its key says so, or a config provider returned it."""
        return self.entry is not None and (self.entry.has_references or self.entry.shown == secrets.HIDDEN)

    def place(self, key: str) -> str:
        """Return file, line and key, for messages; only ``key`` if no user wrote the value."""
        return f"{self.entry.file}:{self.entry.line}: {self.entry.key}" if self.entry else key

    def refuse(self, problems: ProblemLog, rule: str, fix: str, *, is_temporary: bool = False) -> None:
        """Add an error about this value; ``is_temporary`` as in `Problem`."""
        assert self.entry is not None, f"a value that no user wrote is invalid: {rule}"
        problems.error(rule, fix, at=self.entry, is_temporary=is_temporary)

    def reason(self, rule: str) -> str:
        """Return why a client cannot be used that breaks ``rule`` with this value, safe to print."""
        assert self.entry is not None, f"a value that no user wrote is invalid: {rule}"
        value = "" if self.entry.shown == secrets.HIDDEN else f" = {self.entry.shown}"
        return f"{self.entry.key}{value}: {rule}"

    def warn(self, problems: ProblemLog, rule: str, fix: str) -> None:
        """Add a warning about this value."""
        assert self.entry is not None, f"a value that no user wrote has a warning: {rule}"
        problems.warning(rule, fix, at=self.entry)

    def shown(self, key: str) -> str:
        """Return the text, safe to print as the value of ``key``."""
        return secrets.shown(key, self.entry.shown if self.entry else self.text)


Properties = dict[str, Value]
