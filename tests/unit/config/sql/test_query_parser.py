from __future__ import annotations

import hashlib

import pytest

from mm2.config.sql.query_parser import check_query
from mm2.core.settings.row_query import ResultColumn, RowQuery


def query(text: str) -> RowQuery:
    checked = check_query(text)
    assert checked.query is not None, checked.findings
    return checked.query


def errors(text: str) -> list[tuple[str, str]]:
    """Return the text at the place of each error, up to the next space, and its rule."""
    checked = check_query(text)
    assert checked.query is None
    return [(f"{text[one.offset :]} ".split(" ")[0], one.rule) for one in checked.findings if not one.is_warning]


def error(text: str) -> tuple[str, str]:
    (one,) = errors(text)
    return one


MASK = r"""
SELECT regexp_replace(CAST(value AS STRING), r'\d{12}', 'x')  AS value, -- the card
       concat(headers, array(named_struct('key', 'from', 'value', X'01'))) AS headers
FROM   records
WHERE  get_json_object(CAST(value AS STRING), '$.test') IS DISTINCT FROM 'true'  /* no tests */ ;
"""


def test_expressions_are_those_of_the_user() -> None:
    found = query(MASK)
    assert found.columns == {
        ResultColumn.VALUE: r"regexp_replace(CAST(value AS STRING), r'\d{12}', 'x')",
        ResultColumn.HEADERS: "concat(headers, array(named_struct('key', 'from', 'value', X'01')))",
    }
    assert found.condition == "get_json_object(CAST(value AS STRING), '$.test') IS DISTINCT FROM 'true'"
    assert found.text == (
        rf"SELECT {found.columns[ResultColumn.VALUE]} AS value, {found.columns[ResultColumn.HEADERS]} AS headers "
        f"FROM records WHERE {found.condition}"
    )
    assert found.sha256 == hashlib.sha256(found.text.encode()).hexdigest()
    assert str(found) == "sets value, headers, drops records"


def test_comments_and_spaces_do_not_change_the_digest() -> None:
    plain = query("SELECT upper('a  b') AS key FROM records WHERE offset > 5")
    assert (
        query("SELECT upper('a  b')\n\tAS key /* why */ FROM records\nWHERE offset > 5 -- end").sha256 == plain.sha256
    )
    assert query("SELECT upper('a b') AS key FROM records WHERE offset > 5").sha256 != plain.sha256


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("*", {}),
        ("key, value", {}),
        ("records.*, records.value AS KEY", {ResultColumn.KEY: "records.value"}),
        ("*, 10L AS value", {ResultColumn.VALUE: "10L"}),
        ("value AS value, `Value` AS key", {ResultColumn.KEY: "`Value`"}),
        ("upper(value) `value`", {ResultColumn.VALUE: "upper(value)"}),
        ("ALL -1 timestamp", {ResultColumn.TIMESTAMP: "-1"}),
        ("array(1, 2)[0] AS key, 1 < 2 AS value", {ResultColumn.KEY: "array(1, 2)[0]", ResultColumn.VALUE: "1 < 2"}),
        ("headers.value[0] AS value", {ResultColumn.VALUE: "headers.value[0]"}),
        ("records.headers.value AS value", {ResultColumn.VALUE: "records.headers.value"}),
        (
            "key::struct<a:int,b:int> AS value, 1.5e3D AS key",
            {ResultColumn.VALUE: "key::struct<a:int,b:int>", ResultColumn.KEY: "1.5e3D"},
        ),
    ],
)
def test_set_columns(columns: str, expected: dict[ResultColumn, str]) -> None:
    assert query(f"SELECT {columns} FROM records WHERE true").columns == expected


@pytest.mark.parametrize(
    "expression",
    [
        "transform(headers, h -> named_struct('key', h.key, 'value', h.now))",
        "filter(headers, (h, vlaue) -> h.key <> 'x' AND vlaue > 0)",
        "aggregate(headers, 0, (acc, h) -> acc + 1)",
        "exists(headers, h -> h.key = 'a')",
        "extract(YEAR FROM timestamp)",
        "timestampadd(DAY, 1, timestamp)",
        "unix_timestamp(timestamp)",
        "CAST(value AS STRING) LIKE ANY ('a%', 'b%')",
        "CAST(value AS STRING) ILIKE SOME ('a%', 'b%')",
        "a_function_of_a_later_spark(value)",
        "named_struct('rand', 1).rand",
        "named_struct('current_date', 1).current_date",
        "date '2026-01-01'",
        "to_json(from_json(CAST(value AS STRING), 'a INT, b STRING'))",
        "timestampType",
        "substring(CAST(value AS STRING) FROM 1 FOR 2)",
    ],
)
def test_functions_of_one_record(expression: str) -> None:
    found = query(f"SELECT {expression} AS value FROM records WHERE {expression} IS NOT NULL")
    assert found.columns == {ResultColumn.VALUE: expression}
    assert found.condition == f"{expression} IS NOT NULL"


ROWS = ": a query is evaluated for each record by itself"


@pytest.mark.parametrize(
    ("text", "at", "rule"),
    [
        ("", "", "is empty"),
        ("-- only a comment", "--", "is empty"),
        (" ; ", "", "is empty"),
        ("SELECT key FROM records; SELECT 1", ";", "must be one statement"),
        ("SELECT (key FROM records", "FROM", "syntax error at or near FROM: expecting )"),
        ("SELECT key FROM records WHERE", "WHERE", "syntax error at or near WHERE"),
        ("SELECT 'key FROM records", "'key", "' is not closed"),
        ("SELECT key, `value FROM records -- '", "`value", "` is not closed"),
        ("SELECT /* key FROM records", "/*", "/* is not closed"),
        ("SELECT {# key FROM records", "SELECT", "cannot be read as SQL"),
        ("SELECT |> UNION FROM records WHERE INTERVAL", "SELECT", "cannot be read as SQL"),
        ("+ --", "+", "is not a statement of SQL"),
        ("SELECT key, FROM records", ",", "no column follows the comma"),
        ("SELECT FROM records", "FROM", "selects nothing"),
        ("VALUES (1)", "VALUES", "must be one SELECT: it starts with VALUES"),
        ("FROM records SELECT key", "FROM", "must be one SELECT: it starts with FROM"),
        ("(SELECT key FROM records)", "(SELECT", "must be one SELECT: it starts with ("),
        ("DROP TABLE records", "DROP", "must be one SELECT: it starts with DROP"),
        ("SELECT key FROM records UNION ALL SELECT key FROM records", "UNION", f"UNION is not possible{ROWS}"),
        ("SELECT key FROM records EXCEPT SELECT key FROM records", "EXCEPT", f"EXCEPT is not possible{ROWS}"),
        ("WITH r AS (SELECT 1) SELECT key FROM r", "WITH", "WITH is not possible"),
        ("SELECT key FROM records |> WHERE true", "|>", "|> is not supported"),
        ("SELECT DISTINCT key FROM records", "DISTINCT", f"DISTINCT is not possible{ROWS}"),
        ("SELECT key FROM records GROUP BY key", "GROUP", f"GROUP BY is not possible{ROWS}"),
        ("SELECT key FROM records WHERE offset > 1 ORDER BY key", "ORDER", f"ORDER BY is not possible{ROWS}"),
        ("SELECT key FROM records LIMIT 3", "LIMIT", f"LIMIT is not possible{ROWS}"),
        ("SELECT key FROM records WHERE offset > 1 OFFSET 3", "OFFSET", f"OFFSET is not possible{ROWS}"),
        ("SELECT key FROM records, records", ",", f"a join is not possible{ROWS}"),
        ("SELECT key FROM records JOIN x", "JOIN", f"a join is not possible{ROWS}"),
        ("SELECT key FROM records LATERAL VIEW f(key) AS a", "LATERAL", f"LATERAL VIEW is not possible{ROWS}"),
        ("SELECT key FROM records TABLESAMPLE (3 ROWS)", "TABLESAMPLE", f"TABLESAMPLE is not possible{ROWS}"),
        ("SELECT key FROM records FOR SYSTEM_TIME AS OF 1", "SELECT", "VERSION is not possible"),
        ("SELECT /*+ REPARTITION(3) */ key FROM records", "/*+", "a hint is not possible"),
        ("SELECT key INTO x FROM records", "INTO", "INTO is not possible"),
        ("SELECT key FROM records WHERE key = :a", ":a", "a parameter is not possible"),
        ("SELECT f(key) OVER (PARTITION BY key) AS key FROM records", "OVER", f"OVER is not possible{ROWS}"),
        ("SELECT TRANSFORM(key) USING 'cat' AS (x) FROM records", "USING", "TRANSFORM … USING is not possible"),
        (
            "SELECT key FROM records WHERE key IN (SELECT 1)",
            "SELECT",
            f"a subquery is not possible{ROWS}",
        ),
        ("SELECT 1 AS key", "", "has no FROM records"),
        ("SELECT key -- why FROM records", "", "has no FROM records (-- makes the rest of the line a comment)"),
        ("SELECT key FROM recrods", "recrods", "must read records: there is no other table"),
        ("SELECT key FROM main.records", "main.records", "must read records: there is no other table"),
        (
            "SELECT f(key, [1]) IS DISTINCT FROM 1 AS key FROM range(3)",
            "range(3)",
            "must read records: there is no other table",
        ),
        ("SELECT key FROM records  r", "r", "records cannot have another name"),
        ("SELECT vlaue AS key FROM records", "vlaue", "records has no column vlaue"),
        ("SELECT * FROM records WHERE records.wholly = 1", "wholly", "records has no column wholly"),
        ("SELECT 1 + 2 FROM records", "1", "an expression needs the name of the column that it sets"),
        ("SELECT key AS (a, b) FROM records", "key", "an expression needs the name of the column that it sets"),
        ("SELECT headers.key FROM records", "headers.key", "a field needs the name of the column that it sets"),
        ("SELECT * EXCEPT (key) FROM records", "*", "* must stand for all columns"),
        ("SELECT headers.* FROM records", "headers.*", "* must stand for all columns"),
        ("SELECT *, * FROM records", "*", "* is selected twice"),
        ("SELECT key, 1 AS KEY FROM records", "KEY", "column key is set twice"),
        ("SELECT topic FROM records", "topic", "topic cannot be set"),
        ("SELECT 1 AS TimestampTYPE FROM records", "TimestampTYPE", "timestampType cannot be set"),
        ("SELECT key AS vale FROM records", "vale", "a record has no vale to set"),
        ("SELECT key AS wholly FROM records", "wholly", "a record has no wholly to set"),
        ("SELECT count(*) AS key FROM records", "count(*)", f"count is an aggregate function{ROWS}"),
        ("SELECT `sum`(1) AS key FROM records", "`sum`(1)", f"sum is an aggregate function{ROWS}"),
        ("SELECT * FROM records WHERE any(true)", "any(true)", f"any is an aggregate function{ROWS}"),
        ("SELECT lag(key) AS key FROM records", "lag(key)", f"lag is a window function{ROWS}"),
        (
            "SELECT explode(headers) AS key FROM records",
            "explode(headers)",
            "explode returns several rows: a record stays one record, or is dropped",
        ),
        (
            "SELECT builtin.rand() AS key FROM records",
            "rand()",
            "rand is not deterministic: a record that is copied again would differ",
        ),
        ("SELECT now() AS key FROM records", "now()", "now depends on when the query runs, not on the record"),
        (
            "SELECT * FROM records WHERE timestamp < current_timestamp",
            "current_timestamp",
            "current_timestamp depends on when the query runs, not on the record",
        ),
        (
            "SELECT * FROM records WHERE timestamp < TIMESTAMP ' Now'",
            "TIMESTAMP",
            "TIMESTAMP ' Now' depends on when the query runs, not on the record",
        ),
        (
            "SELECT unix_timestamp() AS key FROM records",
            "unix_timestamp()",
            "unix_timestamp() depends on when the query runs, not on the record",
        ),
        ("SELECT user() AS key FROM records", "user()", "user depends on the Spark session, not on the record"),
        (
            "SELECT input_file_name() AS key FROM records",
            "input_file_name()",
            "input_file_name is about files: records do not come from files",
        ),
        (
            "SELECT reflect('a', 'b') AS key FROM records",
            "reflect('a',",
            "reflect calls any method of a Java class, which Spark cannot check",
        ),
    ],
)
def test_rules(text: str, at: str, rule: str) -> None:
    assert error(text) == (at, rule)


def test_all_errors_are_reported_in_the_order_of_the_text() -> None:
    found = errors("SELECT rand() AS vlaue, kye AS key FROM records WHERE sum(value) > now()")
    assert [at for at, _ in found] == ["rand()", "vlaue,", "kye", "sum(value)", "now()"]


def test_errors_of_clauses_and_functions_are_reported_together() -> None:
    assert [at for at, _ in errors("SELECT sum(value) AS value FROM records GROUP BY key")] == ["sum(value)", "GROUP"]


def test_nested_too_deeply() -> None:
    text = f"SELECT {'(' * 3000}1{')' * 3000} AS key FROM records"
    assert error(text)[1] == "expressions are nested too deeply"


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("SELECT vlaue AS key FROM records", "did you mean value?"),
        ("SELECT * FROM records WHERE timestamptype = 1 AND Timestamptpye = 1", "did you mean timestampType?"),
        ("SELECT * FROM records WHERE wholly = 1", "use one of key, value, topic, partition, offset, timestamp, "),
        ("SELECT key AS haeders FROM records", "did you mean headers?"),
        ("SELECT key AS wholly FROM records", "set one of key, value, headers, timestamp"),
        ("SELECT topic FROM records", "remove it: what is not set is preserved"),
        ("SELECT key FROM records JOIN x", "remove the join"),
        ("SELECT key FROM records LIMIT 1", "remove LIMIT"),
    ],
)
def test_fixes(text: str, fix: str) -> None:
    (found,) = check_query(text).findings
    assert found.fix.startswith(fix)


def warnings(text: str) -> list[tuple[str, str]]:
    checked = check_query(text)
    assert checked.query is not None
    assert all(one.is_warning for one in checked.findings)
    return [(text[one.offset :][:2], one.rule) for one in checked.findings]


def test_dropped_escapes() -> None:
    written = r"'\d\b\\d\n\065\1\'\%'"
    assert warnings(rf"SELECT regexp_replace(value, {written}, r'\d') AS value FROM records") == [
        (r"\d", r"\d is only d in a text of Spark SQL"),
        (r"\b", r"\b is a backspace in a text of Spark SQL"),
        (r"\1", r"\1 is only 1 in a text of Spark SQL"),
    ]


@pytest.mark.parametrize("text", ["SELECT * FROM records", "SELECT key, value FROM records;"])
def test_a_query_that_changes_nothing(text: str) -> None:
    assert warnings(text) == [("SE", "changes nothing and drops nothing: records are copied as they are, only slower")]
    assert query(text).changes_nothing
    assert str(query(text)) == "changes nothing"


def test_stored_text_has_references() -> None:
    text = "SELECT sha2(concat(key, '{}'), 256) AS key\n FROM  records"
    one, other = (check_query(text.format(salt), text.format("${env:SALT}")).query for salt in ("sesame", "seed"))
    assert one is not None
    assert other is not None
    assert one.text == "SELECT sha2(concat(key, '${env:SALT}'), 256) AS key FROM records"
    assert one.sha256 == other.sha256
    assert one.has_references
    assert not query("SELECT value AS key FROM records").has_references
    assert one.columns == {ResultColumn.KEY: "sha2(concat(key, 'sesame'), 256)"} != other.columns


@pytest.mark.parametrize(
    "text",
    [
        "SELECT upper(value) AS value FROM records WHERE sesame sesame",
        "SELECT * FROM records WHERE sesame = 1",
        "SELECT * FROM records WHERE records.sesame = 1",
        "sesame",
        "SELECT value AS sesame FROM records",
        "SELECT sesame FROM records",
        "SELECT value AS key, key AS sesame, topic AS sesame FROM records",
        r"SELECT '\sesame' AS key FROM records",
        "SELECT upper('sesame AS key FROM records",
        "SELECT value AS key FROM sesame",
        "SELECT value AS key FROM records AS sesame",
        "SELECT sesame(value FROM records",
        "SELECT CAST(value AS sesame) AS key FROM records GROUP BY sesame",
        "SELECT INTERVAL 'sesame' AS key, rand() AS value FROM records",
    ],
)
def test_findings_contain_no_value_of_a_config_provider(text: str) -> None:
    findings = check_query(text, text.replace("sesame", "${env:SALT}")).findings
    assert findings
    assert [one for one in findings if "sesame" in f"{one!r}" or r"\s" in f"{one.rule}"] == []
    assert all(one.rule and one.fix for one in findings)
