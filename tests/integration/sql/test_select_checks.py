"""What Spark does not accept, or what would not give the same result for each record, is refused before any is read."""

from __future__ import annotations

import base64
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from flows.spark.lane_job import LaneJob
from flows.sql.lane_query import checked, evaluate, fed_rows, used_columns
from flows.sql.record_error import message_for
from flows.sql.refusal import QueryRefusedError
from flows.sql.rows import RESULT
from flows.sql.session import SqlSession
from mm2.core.lanes.engine_orders import FailedRecord, LaneStart
from mm2.core.lanes.lease import LaneQuery, LeaseEndpoint
from mm2.core.settings.row_query import COLUMNS, RowQuery, RowTransform
from tests.integration.sql.queries import Row, lane_query, rows_with_fillers
from tests.lab.batches import Batch, Record

REFUSED = {
    "value has the type int; it must be binary or string": lane_query(value="partition"),
    "headers has the type map<string,string>": lane_query(headers="map('a', 'b')"),
    "headers has the type array<struct<value:string,key:string>>": lane_query(
        headers="array(named_struct('value', 'v', 'key', 'k'))"
    ),
    "headers has the type array<struct<col1:string>>": lane_query(headers="array(struct('k'))"),
    "timestamp has the type binary; it must be timestamp": lane_query(timestamp="value"),
    '"1" of type "INT" is not a boolean': lane_query("1"),
    "Cannot resolve routine `mask_card`": lane_query(value="mask_card(value)"),
    "`amount` cannot be resolved": lane_query("amount > 1"),
    "`_mm2_offset` cannot be resolved": lane_query("_mm2_offset > 1"),
    "`_MM2_OFFSET` cannot be resolved": lane_query("_MM2_OFFSET > 1"),
    "[PARSE_SYNTAX_ERROR]": lane_query(value="upper(value"),
    "(Spark plans Aggregate)": lane_query(value="CAST(max(offset) AS STRING)"),
    "(Spark plans Generate)": lane_query(value="explode(array('a', 'b'))"),
    "(Spark plans Window)": lane_query(value="lag(value) OVER (ORDER BY offset)"),
    "has a subquery": lane_query("offset > (SELECT 1)"),
    "has a subquery: exists": lane_query("EXISTS (SELECT 1)"),
    "is not deterministic: uuid()": lane_query(key="uuid()"),
    "is not deterministic: (rand": lane_query("rand() < 0.5"),
    "is not deterministic: reflect": lane_query(value="reflect('java.lang.System', 'getProperty', 'user.home')"),
    "depends on when it runs": lane_query(timestamp="current_timestamp()"),
    "such as current_timestamp(): current_user()": lane_query(value="current_user()"),
    "depends on when it runs or on the Spark session": lane_query(value="version()"),
    "such as current_timestamp(): convert_timezone(current_timezone()": lane_query(
        timestamp="convert_timezone('UTC', timestamp)"
    ),
    "relative to now: CAST('yesterday' AS TIMESTAMP)": lane_query("timestamp >= 'yesterday'"),
    "relative to now: CAST(coalesce('now', 'x') AS TIMESTAMP)": lane_query("timestamp >= nvl('now', 'x')"),
    "relative to now: CAST('today' AS DATE)": lane_query("year('today') = 2026"),
    "relative to now: CAST('tomorrow' AS DATE)": lane_query("make_date(2020, 1, 1) < to_date('tomorrow')"),
    "relative to now: CAST('10:15' AS TIMESTAMP)": lane_query("timestamp >= to_timestamp('10:15')"),
    "aes_encrypt without an IV (mode ECB needs none)": lane_query(value="aes_encrypt(value, 'abcdefghijklmnop')"),
    "aes_encrypt without an IV": lane_query(value="base64(aes_encrypt(value, key, 'GCM', 'DEFAULT', ''))"),
    "is not deterministic: kll_sketch_merge_bigint(": lane_query(value="kll_sketch_merge_bigint(key, value)"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(session: SparkSession, reason: str) -> None:
    with pytest.raises(QueryRefusedError) as caught:
        checked(rows_with_fillers(session, [Row(1)]), REFUSED[reason])
    assert "mask: " not in str(caught.value), "the node names the query"
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("reason", REFUSED)
def test_values_of_config_providers_are_not_shown(session: SparkSession, reason: str) -> None:
    with pytest.raises(QueryRefusedError) as caught:
        checked(rows_with_fillers(session, [Row(1)]), with_references(REFUSED[reason]))
    assert str(caught.value).endswith("(the rest is not shown, because the query contains values of config providers)")
    quoted = ("INT", "map<", "`", "'", "struct<value", "offset", "uuid(", "rand", "user.home", "current_user()")
    assert not [one for one in quoted if one in str(caught.value)]


@pytest.mark.parametrize(
    "value",
    [
        "aes_encrypt(value, 'abcdefghijklmnop', upper('ecb'))",
        "aes_encrypt(value, 'abcdefghijklmnop', 'GCM', 'DEFAULT', substr(sha2(value, 256), 1, 12))",
        "CAST(to_timestamp('2024-01-01 10:15:00') AS STRING)",
        "CAST(timestamp > TIMESTAMP 'epoch' AS STRING)",
        "CAST(to_date(CAST(NULL AS STRING)) AS STRING)",
        "CAST(to_date(raise_error('x')) AS STRING)",
    ],
)
def test_expressions_that_give_the_same_each_time(session: SparkSession, value: str) -> None:
    rows = checked(rows_with_fillers(session, [Row(1)]), lane_query(value=value))
    assert rows.collect() == rows.collect()


def with_references(query: LaneQuery) -> LaneQuery:
    assert isinstance(query.action, RowQuery)
    return replace(query, action=replace(query.action, has_references=True))


def plans_in_the_ui(session: SparkSession, query: LaneQuery) -> list[str]:
    """Run a query, and return the plans that Spark's UI and its REST interface have of it."""
    rows = checked(rows_with_fillers(session, [Row(0)]), query)
    bus, store = session._jsc.sc().listenerBus(), session._jsparkSession.sharedState().statusStore()
    bus.waitUntilEmpty()
    before = store.executionsCount()
    evaluate(rows, query)
    bus.waitUntilEmpty()
    executions = store.executionsList()
    found = [executions.apply(number) for number in range(executions.size())]
    return [one.physicalPlanDescription() for one in found][before:]


def test_the_ui_has_no_plan_of_a_query_with_values_of_config_providers(session: SparkSession) -> None:
    query = lane_query("topic <> 'open-sesame'", value="sha2(concat(value, 'open-sesame'), 256)")
    (plan,) = plans_in_the_ui(session, query)
    assert "open-sesame" in plan
    assert plans_in_the_ui(session, with_references(query)) == []


def test_a_refused_query_ends_its_lane_for_good(session: SparkSession) -> None:
    spark = session.sparkContext
    start = LaneStart(lane=4, token="t" * 32, description="A->B lane 4", query=lane_query(value="mask_card(value)"))
    job = LaneJob(spark, SqlSession(spark), LeaseEndpoint(url="http://127.0.0.1:1"), start, memory="")
    job.start()
    job.join(60)
    assert job.end.refused
    assert "mask_card" in (job.end.error or "")


@pytest.mark.parametrize("missing", [("pyarrow",), ("pandas", "pyarrow")])
def test_packages_that_are_not_installed(session: SparkSession, missing: tuple[str, ...]) -> None:
    with (
        patch("flows.sql.session.find_spec", lambda name: None if name in missing else name),
        pytest.raises(QueryRefusedError, match=r"requirements-runtime\.lock"),
    ):
        SqlSession(session.sparkContext).open()


# -- functions


def transform(directory: Path, monkeypatch: pytest.MonkeyPatch, body: str, name: str) -> LaneQuery:
    """A query that calls ``change`` of a new module ``name``."""
    text = f"from pyspark.sql import functions as F\nfrom pyspark.sql.functions import udf\n\n{textwrap.dedent(body)}"
    (directory / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(directory)
    return LaneQuery(name="own", action=RowTransform(module=name, function="change"))


def test_a_function_returns_columns(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
        def change(records):
            number = records["value"].cast("string").cast("int")
            return {"value": (number + 1).cast("string"), "key": F.col("records.topic"), "where": number != 2}
        """
    query = transform(tmp_path, monkeypatch, body, "mm2_test_own_columns")
    rows = rows_with_fillers(session, [Row(1, value=b"1"), Row(2, value=b"2"), Row(3, value=b"x")])
    result = checked(rows, query)
    assert tuple(result.columns) == RESULT
    assert [(row.key, row.value, row["_mm2_failed"]) for row in result.collect()[:2]] == [
        (b"t", b"2", False),
        (None, None, True),
    ]


def test_a_function_names_columns_in_any_case(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
        def change(records):
            value = F.upper(F.col("Value").cast("string"))
            return {"value": value, "where": records["TOPIC"] == F.col("records.Topic")}
        """
    query = transform(tmp_path, monkeypatch, body, "mm2_test_own_case")
    used = used_columns(fed_rows(session, "token", COLUMNS), query)
    assert used == {"key", "value", "topic", "timestamp", "headers"}
    assert checked(rows_with_fillers(session, [Row(1)]), query).collect()[0].value == b"V"


REFUSED_FUNCTIONS = {
    "module mm2_test_refused cannot be imported (ModuleNotFoundError: No module named 'nowhere')": "import nowhere",
    "module mm2_test_refused has no function change": "def other(records): ...",
    "mm2_test_refused:change raised KeyError: 'a'": "def change(records): return {}['a']",
    "mm2_test_refused:change returned NoneType; it must return a dict": "def change(records): return None",
    "returned 'topic', which cannot be set": "def change(records): return {'topic': records['topic']}",
    "returned 'VALUE', which cannot be set": "def change(records): return {'VALUE': F.lit('x'), 'value': F.lit('y')}",
    "`_Mm2_Offset` cannot be resolved": "def change(records): return {'where': F.col('_Mm2_Offset') > 1}",
    "returned str for value; it must be a Column": "def change(records): return {'value': 'x'}",
    "calls a Python UDF": "def change(records): return {'value': udf(lambda value: value, 'binary')(records['value'])}",
    "is not deterministic: (rand(": "def change(records): return {'where': F.rand() > 0.5}",
    "aes_encrypt without an IV": "def change(records): return {'value': F.aes_encrypt('value', F.lit('k' * 16))}",
    "relative to now": "def change(records): return {'where': records['timestamp'] > 'today'}",
    "value has the type int": "def change(records): return {'value': records['partition']}",
    "[UNRESOLVED_COLUMN": "def change(records): return {'value': F.col('amount')}",
}


@pytest.mark.parametrize("reason", REFUSED_FUNCTIONS)
def test_a_function_is_refused(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.delitem(sys.modules, "mm2_test_refused", raising=False)
    query = transform(tmp_path, monkeypatch, REFUSED_FUNCTIONS[reason], "mm2_test_refused")
    with pytest.raises(QueryRefusedError) as caught:
        checked(rows_with_fillers(session, [Row(1)]), query)
    assert reason in str(caught.value)


# -- the message for a failed record


def message(
    session: SparkSession, query: LaneQuery, value: bytes | None, headers: tuple[tuple[str, bytes], ...] = ()
) -> str | None:
    batch = Batch(records=[Record(17, 1_700_000_000_000, None, value, headers)], codec=3).encode()
    return message_for(session, failed_record(query, batch))


def failed_record(query: LaneQuery, batch: bytes) -> FailedRecord:
    return FailedRecord(number=1, query=query, topic="t", partition=2, batch=base64.b64encode(batch).decode())


def test_sparks_message_for_a_record(session: SparkSession) -> None:
    query = lane_query("offset = 17", value="CAST(CAST(CAST(value AS STRING) AS INT) AS STRING)")
    assert (message(session, query, b"abc") or "").startswith("[CAST_INVALID_INPUT] The value 'abc'")
    assert message(session, query, b"12") is None
    assert (message(session, with_references(query), b"abc") or "").startswith("[CAST_INVALID_INPUT] (the rest")
    hidden = message(session, replace(query, hides_values=True), b"abc") or ""
    assert hidden.startswith("[CAST_INVALID_INPUT] (the rest, which can quote the record")
    assert "abc" not in hidden
    assert message(session, query, None) is None
    assert message(session, lane_query("offset <> 17", value=query.action.columns["value"]), b"abc") is None  # type: ignore


def test_a_failed_record_that_cannot_be_decoded(session: SparkSession) -> None:
    batch = bytearray(Batch(records=[Record(17, 0, None, b"x" * 100)], codec=4).encode())
    batch[70:] = bytes(len(batch) - 70)
    assert "offset 17" in (message_for(session, failed_record(lane_query(), bytes(batch))) or "")
    assert "no record" in (message_for(session, failed_record(lane_query(), b"")) or "")


def test_the_message_for_a_query_that_is_refused(session: SparkSession) -> None:
    assert "[UNRESOLVED_ROUTINE]" in (message(session, lane_query(value="mask_card(value)"), b"") or "")
