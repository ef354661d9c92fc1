"""Properties as Java knows them, name to text, each with the line it came from."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.config import secrets
from mm2.config.problems import ProblemLog
from mm2.config.properties import Entry


@dataclass(frozen=True, slots=True, repr=False)
class Value:
    """One property: its text and the line it came from, ``entry`` None when a rule filled it in."""

    text: str
    entry: Entry | None = None

    @classmethod
    def of(cls, entry: Entry) -> Value:
        """What a line of the file says."""
        return cls(entry.value, entry)

    def __repr__(self) -> str:
        return f"Value({self.entry!r})" if self.entry else f"Value({self.text!r})"

    def refuse(self, problems: ProblemLog, rule: str) -> None:
        """Report that this value cannot be."""
        assert self.entry is not None, f"a value no user wrote is wrong: {rule}"
        problems.error(rule, at=self.entry)

    def warn(self, problems: ProblemLog, sentence: str) -> None:
        """Report what a user should know about this value."""
        assert self.entry is not None, f"a value no user wrote is warned of: {sentence}"
        problems.warning(sentence, at=self.entry)

    def shown(self, key: str) -> str:
        """The text as it may be printed under ``key``."""
        return secrets.shown(key, self.entry.shown if self.entry else self.text)


Properties = dict[str, Value]
