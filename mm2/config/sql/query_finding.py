"""Problems of a query."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFinding:
    """A rule that the query breaks at character ``offset`` of its text, and the fix.

    ``without_text`` is the rule without any part of the query; None: ``rule`` contains none.
    """

    offset: int
    rule: str
    fix: str
    is_warning: bool = False
    without_text: str | None = None

    @property
    def hidden(self) -> QueryFinding:
        """The same without any part of the query."""
        return self if self.without_text is None else replace(self, rule=self.without_text, without_text=None)


class QuerySyntaxError(Exception):
    """The query cannot be parsed, so nothing else of it can be checked."""

    def __init__(self, finding: QueryFinding) -> None:
        super().__init__(finding.rule)
        self.finding = finding
