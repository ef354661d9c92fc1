"""The static check of a query: everything that can be known without Spark.

Types and functions that do not exist are found by Spark when the flow starts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from operator import attrgetter

from sqlglot import exp

from mm2.config.sql.parsed_query import ParsedQuery, parse
from mm2.config.sql.query_clauses import check_clauses
from mm2.config.sql.query_columns import ResultColumns, check_references
from mm2.config.sql.query_finding import QueryFinding, QuerySyntaxError
from mm2.config.sql.query_functions import check_functions, check_strings
from mm2.core.settings.row_query import RowQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedQuery:
    """The result of `check_query`. ``query`` is None if ``findings`` contain an error; they are in the order of the
    text."""

    query: RowQuery | None
    findings: tuple[QueryFinding, ...]


def check_query(text: str, stored_text: str | None = None) -> CheckedQuery:
    """Check the query ``text``. Never raises.

    ``stored_text`` is the query with its references to config providers, if there are any: it is what `RowQuery.text`
    contains, so that no secret is stored. Findings then contain no part of ``text``.
    """
    checked = _checked(text, stored_text)
    if stored_text is None:
        return checked
    return replace(checked, findings=tuple(finding.hidden for finding in checked.findings))


def _checked(text: str, stored_text: str | None) -> CheckedQuery:
    try:
        parsed = parse(text)
    except QuerySyntaxError as error:
        return CheckedQuery(query=None, findings=(error.finding,))
    findings = list(check_clauses(parsed))
    if findings or not isinstance(parsed.tree, exp.Select):
        return CheckedQuery(query=None, findings=_in_order([*findings, *check_functions(parsed)]))
    columns = ResultColumns(parsed)
    columns.read(parsed.tree)
    findings = [*columns.findings, *check_references(parsed), *check_functions(parsed), *check_strings(parsed)]
    query = None
    if all(finding.is_warning for finding in findings):
        query = _query(parsed, columns, stored_text)
        if query.changes_nothing:
            findings.append(_NO_EFFECT)
    return CheckedQuery(query=query, findings=_in_order(findings))


_NO_EFFECT = QueryFinding(
    offset=0,
    rule="changes nothing and drops nothing: records are copied as they are, only slower",
    fix="set a column, add a condition, or remove the query",
    is_warning=True,
)


def _query(parsed: ParsedQuery, columns: ResultColumns, stored_text: str | None) -> RowQuery:
    """Return a query without errors. Its tokens are ``SELECT columns FROM records [WHERE condition]``."""
    last = len(parsed.tokens) - 1
    where = columns.end + 2
    text = parsed.cut(0, last) if stored_text is None else " ".join(stored_text.split())
    return RowQuery(
        columns=columns.expressions,
        condition=parsed.cut(where + 1, last) if where < last else None,
        text=text,
        sha256=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        has_references=stored_text is not None,
    )


def _in_order(findings: list[QueryFinding]) -> tuple[QueryFinding, ...]:
    """Return ``findings`` by their place, one for each place."""
    by_offset = {finding.offset: finding for finding in reversed(findings)}
    return tuple(sorted(by_offset.values(), key=attrgetter("offset")))
