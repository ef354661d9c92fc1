"""A rewritten query gives the rows of the query as it was written, and fails for single records only."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession

from flows.sql.lane_query import checked, fed_rows, used_columns
from flows.sql.rows import ERROR, FAILED, FRAME, OFFSET, RESULT
from mm2.core.lanes.lease import LaneQuery
from mm2.core.settings.row_query import COLUMNS, RowQuery
from tests.integration.sql.queries import FRAME_NUMBER, Row, lane_query, rows_with_fillers, visible_rows

TEXT = "CAST(value AS STRING)"
NUMBER = f"CAST({TEXT} AS INT)"

QUERIES = {
    "sets a string": lane_query(value=f"regexp_replace({TEXT}, '[0-9]', '*')"),
    "fails in a column": lane_query(value=f"CAST({NUMBER} + 1 AS STRING)"),
    "fails in the condition": lane_query(f"{NUMBER} > 2"),
    "fails in both": lane_query(f"{NUMBER} > 2", key=f"CAST(10 / ({NUMBER} - 5) AS STRING)"),
    "has common subexpressions": lane_query(
        f"{NUMBER} + {NUMBER} > 2 AND {NUMBER} < 9", value=f"CAST({NUMBER} AS STRING)"
    ),
    "uses a value several times": lane_query(f"{NUMBER} BETWEEN 1 AND 6", value=f"CAST(nullif({NUMBER}, 3) AS STRING)"),
    "drops what would fail": lane_query(f"{TEXT} RLIKE '^[0-9]+$'", value=f"CAST(2 * {NUMBER} AS STRING)"),
    "has a condition that can be NULL": lane_query(f"get_json_object({TEXT}, '$.test') = 'true'"),
    "sets all": lane_query(
        "records.key IS NOT NULL",
        key="concat(records.value, key)",
        value="CAST(NULL AS BINARY)",
        headers="filter(headers, h -> h.key <> 'a')",
        timestamp="timestamp + INTERVAL 1 DAY",
    ),
    "sets headers of strings": lane_query(headers="array(named_struct('key', topic, 'value', CAST(offset AS STRING)))"),
    "fails in headers": lane_query(headers="array(element_at(headers, 1))"),
    "fails in a lambda": lane_query(
        headers="transform(headers, h -> struct(h.key, CAST(CAST(CAST(h.value AS STRING) AS INT) AS STRING)))"
    ),
    "fails in the timestamp": lane_query(timestamp=f"to_timestamp({TEXT})"),
    "sets constants": lane_query("true", key="NULL", value="'same'", headers="array()"),
    "always fails": lane_query(value="CAST('x' AS INT) || 'y'"),
    "changes nothing": lane_query(),
}
VALUES = (
    None,
    b"",
    b"1",
    b"3",
    b"5",
    b"12",
    b"x",
    b"\xff\xfe",
    b'{"test": true}',
    b'{"test"',
    b"2024-02-30",
    b"2024-02-03",
)
KEYS = (None, b"", b"k")
HEADERS: tuple[list[tuple[str, bytes | None]], ...] = ([], [("a", b"1"), ("a", None), ("b", b"x")], [("c", b"4")])


def generated(chance: random.Random) -> list[Row]:
    """A record of each value, at random with each key and each list of headers: every draw has records for which a
    query of `QUERIES` fails, and others for which it does not."""
    times = len(VALUES) // len(KEYS)
    keys, headers = chance.sample(KEYS * times, len(VALUES)), chance.sample(HEADERS * times, len(VALUES))
    return [
        Row(10 + 2 * at, key, value, listed, chance.randrange(2**41))
        for at, (key, value, listed) in enumerate(zip(keys, VALUES, headers, strict=True))
    ]


Result = dict[str, Any]


def as_written(session: SparkSession, query: LaneQuery, rows: Sequence[Row]) -> Iterator[Result]:
    """What Spark returns for the query of the user: the lane runner should get the same, and failed records besides."""
    action = query.action
    assert isinstance(action, RowQuery)
    records = visible_rows(session, rows)
    records.createOrReplaceTempView("records")
    columns = ", ".join(("*", *(f"{expression} AS new_{name}" for name, expression in action.columns.items())))
    try:
        found = session.sql(f"SELECT {columns} FROM records WHERE {action.condition or 'true'}").collect()
    except PySparkException:
        if len(rows) > 1:
            half = len(rows) // 2
            yield from as_written(session, query, rows[:half])
            yield from as_written(session, query, rows[half:])
        else:
            yield _result(records.collect()[0].asDict(recursive=True), dict.fromkeys(action.columns), failed=True)
    else:
        for row in (one.asDict(recursive=True) for one in found):
            changed = {str(name): _as_bytes(row[f"new_{name}"]) for name in action.columns}
            yield _result(row, changed, failed=False)


def _result(row: Result, changed: Mapping[str, Any], *, failed: bool) -> Result:
    untouched = {name: row[name] for name in ("key", "value", "timestamp", "headers")}
    return {**untouched, **changed, FAILED: failed, ERROR: None, OFFSET: row["offset"], FRAME: FRAME_NUMBER}


def _as_bytes(value: Any) -> Any:
    """A value as the record has it: strings are written as UTF-8."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [{"key": name, "value": _as_bytes(of)} for name, of in (header.values() for header in value)]
    return value


@pytest.mark.parametrize("kind", QUERIES)
def test_the_rows_are_those_of_the_query_as_it_was_written(
    session: SparkSession, rng: random.Random, kind: str
) -> None:
    rows, query = generated(rng), QUERIES[kind]
    found = [row.asDict(recursive=True) for row in checked(rows_with_fillers(session, rows), query).collect()]
    records, fillers = found[:-3], found[-3:]
    assert records == list(as_written(session, query, rows))
    failed = {one[FAILED] for one in records}
    if kind.startswith("fails"):
        assert failed == {True, False}, "the query fails for some records, as its name says"
    elif kind.startswith("always"):
        assert failed == {True}
    elif kind.startswith(("sets", "drops", "changes")):
        assert failed == {False}
    assert [{name: one[name] for name in (FAILED, OFFSET, FRAME)} for one in fillers] == [
        {FAILED: False, OFFSET: None, FRAME: FRAME_NUMBER}
    ] * 3


def test_the_error_of_a_frame_passes(session: SparkSession) -> None:
    rows = rows_with_fillers(session, [Row(1)], error="batch at offset 2: corrupt")
    result = checked(rows, lane_query("key = 'other'", value="'x'"))
    assert tuple(result.columns) == RESULT
    assert [row[ERROR] for row in result.collect()] == ["batch at offset 2: corrupt", None, None]


@pytest.mark.parametrize("condition", [None, "raise_error(topic IS NULL) IS NULL OR true", "true"])
def test_nothing_is_evaluated_for_a_filler(session: SparkSession, condition: str | None) -> None:
    def unguarded(rows: DataFrame, expression: Column) -> Column:
        return expression

    query = lane_query(
        condition and "if(topic IS NULL, raise_error('c'), true)", value="if(topic IS NULL, raise_error('v'), 'x')"
    )
    rows = rows_with_fillers(session, [Row(1)])
    assert [row.value for row in checked(rows, query, guard=unguarded).collect()] == [
        b"x",
        None,
        None,
        None,
    ]


def test_an_expression_is_evaluated_once_for_a_record(session: SparkSession) -> None:
    """Each occurrence in the plan that runs is evaluated."""
    query = lane_query(f"{TEXT} <> 'condition'", value=f"concat({TEXT}, 'value')", key=f"concat({TEXT}, 'key')")
    plan = checked(rows_with_fillers(session, [Row(1)]), query)._jdf.queryExecution().executedPlan().toString()
    assert [plan.count(one) for one in ("= condition", ", value)", ", key)")] == [1, 1, 1]


def test_a_regular_expression_without_stack_does_not_end_spark(session: SparkSession) -> None:
    """It ends only its own lane. TryEval lets errors of the JVM pass."""
    query = lane_query(value=f"regexp_replace({TEXT}, '(a|b)*c', 'x')")
    with pytest.raises(Py4JJavaError, match="StackOverflowError"):
        checked(rows_with_fillers(session, [Row(1, value=b"ab" * 2_000_000)]), query).collect()
    assert not checked(rows_with_fillers(session, [Row(1, value=b"ab")]), query).collect()[0][FAILED]


@pytest.mark.parametrize(
    ("query", "used"),
    [
        (lane_query(value="upper(CAST(value AS STRING))"), "key value headers timestamp"),
        (lane_query("records.partition = 0", value="topic"), "key topic partition headers timestamp"),
        (
            lane_query(key="CAST(offset AS STRING)", value="'x'", headers="array()", timestamp="timestamp"),
            "offset timestamp",
        ),
        (lane_query(headers="transform(headers, h -> struct(h.key, key))"), "key value headers timestamp"),
        (lane_query(), "key value headers timestamp"),
        *(
            (
                lane_query(
                    f"{name.upper()} IS NULL",
                    key="'k'",
                    value="'v'",
                    headers="array()",
                    timestamp="timestamp_millis(0)",
                ),
                name,
            )
            for name in COLUMNS
        ),
        (
            lane_query("RECORDS.Value IS NULL", value="UPPER(CAST(`TOPIC` AS STRING))"),
            "key value topic headers timestamp",
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else one.action.text,
)
def test_the_feeder_fills_the_columns_that_are_read_or_kept(session: SparkSession, query: LaneQuery, used: str) -> None:
    found = used_columns(fed_rows(session, "token", COLUMNS), query)
    assert found == set(used.split())
    narrow = fed_rows(session, "token", found)
    assert checked(narrow, query).columns == list(RESULT)
    assert dict(narrow.dtypes) == dict(fed_rows(session, "token", COLUMNS).dtypes)
