"""The static check of a query: everything that can be known without Spark.

Types and functions that do not exist are found by Spark when the flow starts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from sqlglot import TokenType, exp

from mm2.config.sql.parsed_query import FORM, ParsedQuery, nesting, parse
from mm2.config.sql.query_columns import ResultColumns, check_references
from mm2.config.sql.query_finding import QueryFinding, QuerySyntaxError
from mm2.config.sql.query_functions import check_functions, check_strings
from mm2.core.settings.row_query import TABLE, RowQuery

_ALLOWED = frozenset({"expressions", "from_", "where"})

_CLAUSES: Mapping[str, tuple[str, tuple[TokenType, ...]]] = {
    "cluster": ("CLUSTER BY", (TokenType.CLUSTER_BY,)),
    "distinct": ("DISTINCT", (TokenType.DISTINCT,)),
    "distribute": ("DISTRIBUTE BY", (TokenType.DISTRIBUTE_BY,)),
    "group": ("GROUP BY", (TokenType.GROUP_BY,)),
    "having": ("HAVING", (TokenType.HAVING,)),
    "hint": ("a hint", (TokenType.HINT,)),
    "into": ("INTO", (TokenType.INTO,)),
    "joins": ("a join", (TokenType.JOIN, TokenType.COMMA)),
    "laterals": ("LATERAL VIEW", (TokenType.LATERAL,)),
    "limit": ("LIMIT", (TokenType.LIMIT, TokenType.FETCH)),
    "offset": ("OFFSET", (TokenType.OFFSET,)),
    "order": ("ORDER BY", (TokenType.ORDER_BY,)),
    "qualify": ("QUALIFY", (TokenType.QUALIFY,)),
    "sort": ("SORT BY", (TokenType.SORT_BY,)),
    "windows": ("WINDOW", (TokenType.WINDOW,)),
    "with_": ("WITH", (TokenType.WITH,)),
}
"""Clauses by sqlglot's name of the argument, and the tokens at which they start."""

_TABLE_CLAUSES: Mapping[str, tuple[str, tuple[TokenType, ...]]] = {
    "joins": _CLAUSES["joins"],
    "laterals": _CLAUSES["laterals"],
    "pivots": ("PIVOT", (TokenType.PIVOT, TokenType.UNPIVOT)),
    "sample": ("TABLESAMPLE", (TokenType.TABLE_SAMPLE,)),
}

_SET_OPERATIONS: Mapping[type[exp.Expr], tuple[str, tuple[TokenType, ...]]] = {
    exp.Union: ("UNION", (TokenType.UNION,)),
    exp.Except: ("EXCEPT", (TokenType.EXCEPT,)),
    exp.Intersect: ("INTERSECT", (TokenType.INTERSECT,)),
}

_INSIDE: Mapping[type[exp.Expr], tuple[str, tuple[TokenType, ...]]] = {
    exp.Window: ("OVER", (TokenType.OVER,)),
    exp.Filter: ("FILTER", (TokenType.FILTER,)),
    exp.QueryTransform: ("TRANSFORM … USING", (TokenType.USING,)),
    exp.Parameter: ("a parameter", (TokenType.PARAMETER,)),
    exp.Placeholder: ("a parameter", (TokenType.PLACEHOLDER, TokenType.COLON)),
    exp.SessionParameter: ("a session parameter", (TokenType.SESSION_PARAMETER,)),
    exp.Values: ("VALUES", (TokenType.VALUES,)),
}
"""What no expression may contain."""


_NO_ROWS = ("a hint", "a parameter", "a session parameter", "INTO", "TRANSFORM … USING", "VALUES", "VERSION", "WITH")
"""What would be possible row by row, but has no meaning here."""


def check_clauses(query: ParsedQuery) -> Iterator[QueryFinding]:
    """Return what is more than ``SELECT … FROM records WHERE …``; the first finding can be the only one."""
    tree, first = query.tree, query.tokens[0]
    for kind, (what, types) in _SET_OPERATIONS.items():
        if isinstance(tree, kind):
            yield _not_possible(query, what, types)
            return
    if isinstance(tree, exp.Select) and tree.args.get("with_"):
        yield _not_possible(query, *_CLAUSES["with_"])
        return
    if not isinstance(tree, exp.Select) or first.token_type is not TokenType.SELECT:
        rule = "must be one SELECT"
        yield QueryFinding(offset=first.start, rule=f"{rule}: it starts with {first.text}", fix=FORM, without_text=rule)
        return
    pipe = query.offset_of(TokenType.PIPE_GT)
    if pipe:
        yield QueryFinding(offset=pipe, rule="|> is not supported", fix=FORM)
        return
    for name, value in tree.args.items():
        if value and name not in _ALLOWED:
            yield _not_possible(query, *_CLAUSES.get(name, (name.upper().replace("_", " "), ())))
    yield from _check_table(query, tree)
    yield from _check_inside(query, tree)


def _check_table(query: ParsedQuery, tree: exp.Select) -> Iterator[QueryFinding]:
    source = tree.args.get("from_")
    if source is None:
        comment = " (-- makes the rest of the line a comment)" if "--" in query.text else ""
        yield QueryFinding(offset=len(query.text), rule=f"has no FROM {TABLE}{comment}", fix=FORM)
        return
    table = source.this
    index = _from(query) + 1
    after = query.tokens[index]
    if not isinstance(table, exp.Table) or table.name.lower() != TABLE or table.args.get("db"):
        yield QueryFinding(
            offset=after.start, rule=f"must read {TABLE}: there is no other table", fix=f"write FROM {TABLE}"
        )
        return
    if table.args.get("alias"):
        yield QueryFinding(
            offset=query.tokens[index + 1].start,
            rule=f"{TABLE} cannot have another name",
            fix=f"write FROM {TABLE}, and refer to columns by their names",
        )
    for name, value in table.args.items():
        if value and name not in ("this", "alias"):
            yield _not_possible(query, *_TABLE_CLAUSES.get(name, (name.upper().replace("_", " "), ())))


def _from(query: ParsedQuery) -> int:
    """Return the index of the FROM of the statement: the first one outside of parentheses, but not that of IS DISTINCT
    FROM."""
    tokens = query.tokens
    depths = nesting(tokens)
    found = (
        index
        for index, (token, depth) in enumerate(zip(tokens, depths, strict=True))
        if token.token_type is TokenType.FROM and not depth and tokens[index - 1].token_type is not TokenType.DISTINCT
    )
    return next(found, 0)


def _check_inside(query: ParsedQuery, tree: exp.Select) -> Iterator[QueryFinding]:
    inner = [node for node in tree.find_all(exp.Query) if node is not tree and not isinstance(node, exp.Table)]
    if inner:
        yield QueryFinding(
            offset=query.offset_of(TokenType.SELECT),
            rule="a subquery is not possible: a query is evaluated for each record by itself",
            fix="write the values into the query, as in topic IN ('a', 'b')",
        )
        return
    for kind, (what, types) in _INSIDE.items():
        if tree.find(kind) is not None:
            yield _not_possible(query, what, types)


def _not_possible(query: ParsedQuery, what: str, types: tuple[TokenType, ...]) -> QueryFinding:
    reason = "" if what in _NO_ROWS else ": a query is evaluated for each record by itself"
    return QueryFinding(
        offset=query.offset_of(*types),
        rule=f"{what} is not possible{reason}",
        fix=f"remove {f'the {what[2:]}' if what.startswith('a ') else what}",
    )


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
