"""Spark's messages in one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flows.sql.refusal import LONGEST, QueryRefusedError, spark_message
from mm2.core.lanes.lease import LaneQuery
from mm2.core.settings.row_query import RowQuery, RowTransform

UNRESOLVED = """[UNRESOLVED_COLUMN] A column `bar` cannot be resolved. SQLSTATE: 42703; line 1 pos 0;
'Project ['bar]
+- SubqueryAlias records
"""
SYNTAX = """
[PARSE_SYNTAX_ERROR] Syntax error at or near '1'. SQLSTATE: 42601 (line 1, pos 7)

== SQL ==
select 1 +
-------^^^
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (UNRESOLVED, "[UNRESOLVED_COLUMN] A column `bar` cannot be resolved. SQLSTATE: 42703; line 1 pos 0"),
        (SYNTAX, "[PARSE_SYNTAX_ERROR] Syntax error at or near '1'. SQLSTATE: 42601 (line 1, pos 7)"),
        ("[A] one\ntwo\n== SQL (line 1) ==\nCAST", "[A] one two"),
        ("[A] one\n\tat org.apache.spark", "[A] one"),
        ("'a'", "'a'"),
        ("", "unknown error"),
    ],
)
def test_the_first_paragraph(text: str, message: str) -> None:
    assert spark_message(text) == message


def test_a_long_message_is_cut_off() -> None:
    assert spark_message("x" * 5_000) == "x" * (LONGEST - 1) + "…"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (QueryRefusedError.of_spark("[A_B.C] 'sesame' [D]"), "[A_B.C]"),
        (QueryRefusedError.of_spark(SYNTAX), "[PARSE_SYNTAX_ERROR]"),
        (QueryRefusedError.of_spark("sesame [A]"), "error"),
        (QueryRefusedError("has a subquery: 'sesame'", "has a subquery"), "has a subquery"),
    ],
)
def test_values_of_config_providers_are_not_shown(error: QueryRefusedError, shown: str) -> None:
    query = RowQuery(columns={}, condition="a = 'sesame'", text="a = '${env:SALT}'", sha256="0", has_references=True)
    assert error.shown_for(query) == (
        f"{shown} (the rest is not shown, because the query contains values of config providers)"
    )
    assert error.shown_for(replace(query, has_references=False)) == str(error)
    assert error.shown_for(RowTransform(module="shop", function="mask")) == str(error)


def test_values_of_records_are_not_shown_where_a_query_hides_them() -> None:
    error = QueryRefusedError.of_spark("[CAST_INVALID_INPUT] The value 'sesame' cannot be cast")
    query = RowQuery(columns={}, condition="a > 1", text="a > 1", sha256="0")
    assert error.shown_for_record(LaneQuery(name="mask", action=query)) == str(error)
    assert error.shown_for_record(LaneQuery(name="mask", action=query, hides_values=True)) == (
        "[CAST_INVALID_INPUT] (the rest, which can quote the record, is shown with mm2.sql.mask.dead.letters = full)"
    )
    hidden = LaneQuery(name="mask", action=replace(query, has_references=True), hides_values=True)
    assert error.shown_for_record(hidden) == error.shown_for(hidden.action)
