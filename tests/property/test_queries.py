"""Any text is a query or has problems within it; what is accepted has the form that the data plane relies on."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from mm2.config.sql.query_functions import KINDS, FunctionKind
from mm2.config.sql.query_parser import check_query
from mm2.core.settings.row_query import RowQuery

TEXT = r"""
SELECT FROM records WHERE key value offset AS headers ( ) , * . + - = 'a' "b" `c` r'\d' 10L x'1F' CASE WHEN
THEN ELSE END AND OR NOT IN LIKE ANY DISTINCT IS NULL -> [ ] { } : ? ; @ $ % GROUP BY ORDER LIMIT JOIN ON
UNION WITH OVER sum transform h :: int struct < > INTERVAL 1 day TIMESTAMP 'now' /* */ -- ' \ |> SHOW DROP
VALUES LATERAL VIEW explode USING FILTER PIVOT EXISTS CAST STRING current_date {#
"""
WORDS = (*TEXT.split(), "\n")

SOUP = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)

FORBIDDEN = sorted(name for name, kind in KINDS.items() if kind is not FunctionKind.DETERMINISTIC and "/" not in name)


def check(text: str) -> RowQuery | None:
    checked = check_query(text)
    assert all(0 <= finding.offset <= len(text) for finding in checked.findings)
    assert (checked.query is None) is any(not finding.is_warning for finding in checked.findings)
    return checked.query


@given(st.one_of(st.text(), SOUP, st.builds("SELECT {} FROM records WHERE {}".format, SOUP, SOUP)))
@example("SELECT |> UNION FROM records WHERE INTERVAL")
@example("+ --")
def test_any_text(text: str) -> None:
    check(text)


EXPRESSIONS = st.recursive(
    st.sampled_from(["key", "records.value", "'a, b'", "10L", r"r'\d'", "headers[0].key", "/* x */ 1", "X'00'", "-1"]),
    lambda inner: st.one_of(
        st.builds("upper( {})".format, inner),
        st.builds("({} ||  {})".format, inner, inner),
        st.builds("CASE WHEN {} IS DISTINCT FROM {} THEN {} END".format, inner, inner, inner),
        st.builds("concat({},{}, -- x\n{})".format, inner, inner, inner),
        st.builds("transform(headers, h -> {})".format, inner),
        st.builds("CAST({} AS map<string,int>)".format, inner),
    ),
    max_leaves=6,
)
BARE = str.maketrans("", "", " \n")


def bare(text: str) -> str:
    """Return ``text`` without comments and spaces, to compare texts that differ only in these."""
    return text.replace("/* x */", "").replace("-- x\n", "").translate(BARE)


@given(
    expressions=st.lists(EXPRESSIONS, min_size=1, max_size=3),
    condition=st.none() | EXPRESSIONS,
    alias=st.sampled_from([" AS ", " "]),
)
def test_expressions_are_cut_as_they_are_written(expressions: list[str], condition: str | None, alias: str) -> None:
    names = ("key", "headers", "timestamp")
    columns = ", ".join(f"{one}{alias}{name}" for one, name in zip(expressions, names, strict=False))
    query = check(f"SELECT {columns} FROM records" + (f" WHERE {condition}" if condition is not None else ""))
    assert query is not None
    expected = {name: one for one, name in zip(expressions, names, strict=False) if (one, name) != ("key", "key")}
    assert {name: bare(one) for name, one in query.columns.items()} == {
        name: bare(one) for name, one in expected.items()
    }
    assert (query.condition is None) is (condition is None)
    assert bare(query.condition or "") == bare(condition or "")
    again = check(query.text)
    assert again == query


@given(
    function=st.sampled_from(FORBIDDEN),
    inside=st.sampled_from(["{}", "upper({})", "(1 + {})", "transform(headers, h -> {})"]),
)
def test_forbidden_functions_are_found_everywhere(function: str, inside: str) -> None:
    call = inside.format(f"{function}(value)")
    assert check(f"SELECT {call} AS value FROM records") is None
    assert check(f"SELECT * FROM records WHERE {call} = 1") is None
