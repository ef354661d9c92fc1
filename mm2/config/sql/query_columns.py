"""Columns of a query: those that it reads, and those that it sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from sqlglot import TokenType, exp

from mm2.config.sql.parsed_query import ParsedQuery
from mm2.config.sql.query_finding import QueryFinding
from mm2.core.settings.row_query import COLUMNS, TABLE, ResultColumn

_BY_LOWER = {name.lower(): name for name in COLUMNS}
_RESULTS = ", ".join(ResultColumn)
_CLOSE = 0.6
"""Ratio from which a column counts as similar: their names are short and few."""


def check_references(query: ParsedQuery) -> Iterator[QueryFinding]:
    """Return the columns that the query reads and that records do not have."""
    for column in query.tree.find_all(exp.Column):
        if isinstance(column.this, exp.Star):
            continue
        parts = column.parts
        if len(parts) > 1 and parts[0].name.lower() == TABLE:
            parts = parts[1:]
        if parts[0].name.lower() not in _BY_LOWER:
            name = parts[0].name
            close = get_close_matches(name.lower(), sorted(_BY_LOWER), n=1, cutoff=_CLOSE)
            yield QueryFinding(
                offset=parts[0].meta.get("start", 0),
                rule=f"{TABLE} has no column {name}",
                without_text=f"reads a column that {TABLE} does not have",
                fix=f"did you mean {_BY_LOWER[close[0]]}?" if close else f"use one of {', '.join(COLUMNS)}",
            )


@dataclass(slots=True)
class ResultColumns:
    """Reads what a query selects.

    ``expressions`` are the columns that it sets; those that it selects unchanged are left out, because they are
    preserved anyway. ``end`` is the index of the token after the last column.
    """

    query: ParsedQuery
    expressions: dict[ResultColumn, str] = field(default_factory=dict)
    findings: list[QueryFinding] = field(default_factory=list)
    end: int = 0
    _seen: dict[str, int] = field(default_factory=dict)

    def read(self, select: exp.Select) -> None:
        """Read the columns of ``select``, the tree of the query."""
        tokens = self.query.tokens
        start = 2 if tokens[1].token_type is TokenType.ALL else 1
        if not select.expressions:
            self._report(tokens[1].start, "selects nothing", "write SELECT * FROM records to change nothing")
        for projection in select.expressions:
            last = self._last_token(projection, start)
            if last is None:
                return
            self._one(projection, start, last)
            self.end = last + 1
            start = last + 2
        if select.expressions and tokens[self.end].token_type is TokenType.COMMA:
            self._report(tokens[self.end].start, "no column follows the comma", "remove the comma")

    def _last_token(self, projection: exp.Expr, start: int) -> int | None:
        """Return the index of the last token of a column; None, after a finding, if it has no single name."""
        named = projection.args.get("alias") if isinstance(projection, exp.Alias) else projection
        if isinstance(named, exp.Column):
            named = named.this
        offset = named.meta.get("end") if isinstance(named, exp.Identifier | exp.Star) else None
        first = self.query.tokens[start]
        if offset is None:
            self._report(
                first.start,
                "an expression needs the name of the column that it sets",
                f"write expression AS column, with one of {_RESULTS}",
            )
            return None
        if isinstance(named, exp.Star) and (any(named.args.values()) or not _is_all(projection)):
            self._report(
                first.start, "* must stand for all columns", f"write *, or list the columns to set: {_RESULTS}"
            )
            return None
        return self.query.index_at(int(offset))

    def _one(self, projection: exp.Expr, start: int, last: int) -> None:
        first = self.query.tokens[start].start
        if _is_all(projection):
            if "*" in self._seen:
                self._report(first, "* is selected twice", "remove one of them")
            self._seen["*"] = start
            return
        name = projection.alias_or_name
        source = projection.this if isinstance(projection, exp.Alias) else projection
        plain = _plain_column(source)
        if not isinstance(projection, exp.Alias) and plain is None:
            self._report(
                first,
                "a field needs the name of the column that it sets",
                f"write field AS column, with one of {_RESULTS}",
            )
            return
        self._name(name, self.query.tokens[last].start)
        column = _result(name)
        if column is not None and plain != column.value:
            before = last - 1
            if self.query.tokens[before].token_type is TokenType.ALIAS:
                before -= 1
            self.expressions[column] = self.query.cut(start, before)

    def _name(self, name: str, offset: int) -> None:
        lower = name.lower()
        if lower in self._seen:
            rule = f"column {lower} is set twice"
            self._report(offset, rule, "remove one of them", without_text="a column is set twice")
        elif _result(name) is None:
            known = _BY_LOWER.get(lower)
            rule = f"{known} cannot be set" if known else f"a record has no {name} to set"
            hidden = "sets a column that cannot be set"
            close = get_close_matches(lower, sorted(ResultColumn), n=1, cutoff=_CLOSE)
            hint = f"did you mean {close[0]}?" if close and not known else f"set one of {_RESULTS}"
            fix = "remove it: what is not set is preserved" if known else hint
            self._report(offset, rule, fix, without_text=hidden)
        self._seen[lower] = offset

    def _report(self, offset: int, rule: str, fix: str, *, without_text: str | None = None) -> None:
        self.findings.append(QueryFinding(offset=offset, rule=rule, fix=fix, without_text=without_text))


def _is_all(projection: exp.Expr) -> bool:
    """Return whether a column with a star is ``*`` or ``records.*``."""
    if isinstance(projection, exp.Star):
        return True
    if not isinstance(projection, exp.Column) or not isinstance(projection.this, exp.Star):
        return False
    return [part.name.lower() for part in projection.parts[:-1]] == [TABLE]


def _plain_column(source: exp.Expr) -> str | None:
    """Return the column of records that ``source`` is; None if it is anything else, such as a field of one."""
    if not isinstance(source, exp.Column):
        return None
    parts = [part.name.lower() for part in source.parts]
    if len(parts) > 1 and parts[0] == TABLE:
        parts = parts[1:]
    return parts[0] if len(parts) == 1 else None


def _result(name: str) -> ResultColumn | None:
    return _RESULT_BY_NAME.get(name.lower())


_RESULT_BY_NAME: Mapping[str, ResultColumn] = {column.value: column for column in ResultColumn}
