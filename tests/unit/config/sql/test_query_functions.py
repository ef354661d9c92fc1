"""Functions and texts whose values do not depend on the record alone, found by `mm2 check`."""

from __future__ import annotations

import re

import pytest

from mm2.config.sql.query_functions import KINDS, FunctionKind
from mm2.config.sql.query_parser import check_query
from mm2.config.sql.spark_functions import FUNCTIONS


def rules(expression: str, stored: str | None = None) -> list[str]:
    text = f"SELECT * FROM records WHERE {expression}"
    return [one.rule for one in check_query(text, stored).findings if not one.is_warning]


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("timestamp >= TIMESTAMP 'today Europe/Berlin'", "TIMESTAMP 'today Europe/Berlin'"),
        ("timestamp >= timestamp_ltz 'NOW z'", "timestamp_ltz 'NOW z'"),
        ("timestamp >= DATE 'tomorrow UTC'", "DATE 'tomorrow UTC'"),
        ("timestamp >= TIMESTAMP 'today+01:00'", "TIMESTAMP 'today+01:00'"),
        ("timestamp >= TIMESTAMP 'T10:15'", "TIMESTAMP 'T10:15'"),
        ("timestamp >= CAST('now' AS TIMESTAMP)", "'now' as a time"),
        ("timestamp >= try_cast(r'now' AS DATE)", "r'now' as a time"),
        ("timestamp >= 'now'::timestamp", "'now' as a time"),
        ("timestamp >= to_timestamp('now')", "'now' as a time"),
        ("timestamp >= TO_DATE('today')", "'today' as a time"),
        ("timestamp >= date('today')", "'today' as a time"),
        ("timestamp >= 'yesterday'", "'yesterday' as a time"),
        ("`timestamp` <=> ' Yesterday UTC'", "' Yesterday UTC' as a time"),
        ("timestamp BETWEEN 'yesterday' AND 'today'", "'yesterday' as a time"),
        ("'10:00' < records.timestamp", "'10:00' as a time"),
        ("'today' < timestamp", "'today' as a time"),
        ("records.timestamp > 'today'", "'today' as a time"),
    ],
)
def test_times_relative_to_now(condition: str, text: str) -> None:
    assert rules(condition) == [f"{text} depends on when the query runs, not on the record"]
    hidden = "a text that is read as a time depends on when the query runs, not on the record"
    assert rules(condition, "${env:X}") == [hidden]


@pytest.mark.parametrize(
    "condition",
    [
        "topic = 'today'",
        "timestamp > '2024-01-01'",
        "timestamp > TIMESTAMP '2024-01-01 10:00:00'",
        "timestamp > TIMESTAMP 'epoch'",
        "CAST(value AS STRING) IN ('now', 'today')",
        "upper('now') = topic",
        "CAST('now' AS STRING) = topic",
        "'today'::string = topic",
        "from_json(topic, 'timestamp STRING').timestamp = 'now'",
        "topic > 'now'",
        "'nowhere' < timestamp",
        "date_format(timestamp, 'HH:mm') = '10:00'",
        "'now' = records.topic",
    ],
)
def test_texts_that_are_no_times_or_fixed(condition: str) -> None:
    assert rules(condition) == []


AES = "aes_encrypt encrypts a value differently each time, unless it has an IV or the mode 'ECB'"


@pytest.mark.parametrize(
    "arguments",
    [
        "value, key",
        "value, key, 'GCM'",
        "value, key, 'CBC', 'PKCS'",
        "value, key, mode => 'GCM', padding => 'DEFAULT'",
        "value, concat(key, 'ECB'), 'GCM'",
        "value, key, 'GCM', 'DEFAULT', ''",
        "value, key, upper(array('ecb')[0])",
    ],
)
def test_encryption_with_a_random_iv(arguments: str) -> None:
    assert rules(f"aes_encrypt({arguments}) IS NULL") == [AES]


@pytest.mark.parametrize(
    "arguments",
    [
        "value, key, 'ECB'",
        "value, key, 'ecb', 'PKCS'",
        "value, key, mode => 'ECB'",
        "value, key, 'GCM', 'DEFAULT', substr(sha2(value, 256), 1, 12)",
        "value, key, 'GCM', 'DEFAULT', array(key, key)[0], 'aad'",
        "value, key, iv => unhex(left(sha2(value, 256), 24))",
    ],
)
def test_encryption_that_is_deterministic(arguments: str) -> None:
    assert rules(f"aes_encrypt({arguments}) IS NULL") == []


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        ("current_timezone()", "current_timezone depends on the Spark session, not on the record"),
        (
            "kll_sketch_merge_bigint(key, value)",
            "kll_sketch_merge_bigint is not deterministic: a record that is copied again would differ",
        ),
    ],
)
def test_functions_that_spark_does_not_mark(call: str, rule: str) -> None:
    assert rules(f"{call} IS NULL") == [rule]


def test_every_kind_but_one_is_rejected() -> None:
    assert list(FUNCTIONS) == list(FunctionKind)
    for listed, kind in KINDS.items():
        if kind is not FunctionKind.DETERMINISTIC:
            name, _, count = listed.partition("/")
            call = f"{name}({', '.join(['value'] * int(count or 1))})"
            assert rules(f"{call} IS NULL"), call


def test_functions_are_sorted_and_have_one_kind() -> None:
    assert sum(len(names.split()) for names in FUNCTIONS.values()) == len(KINDS)
    for names in FUNCTIONS.values():
        assert names.split() == sorted(names.split())
        assert all(re.fullmatch(r"[a-z_][a-z0-9_]*(/\d)?", name) for name in names.split())


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        ("unix_timestamp( )", "unix_timestamp() depends on when the query runs, not on the record"),
        ("unix_timestamp(topic)", None),
        (
            "convert_timezone('UTC', timestamp)",
            "convert_timezone with 2 arguments depends on the Spark session, not on the record",
        ),
        ("convert_timezone('Asia/Tokyo', concat('U', 'TC'), timestamp)", None),
    ],
)
def test_functions_that_read_the_session_if_an_argument_is_missing(call: str, rule: str | None) -> None:
    assert rules(f"{call} IS NULL") == ([] if rule is None else [rule])


@pytest.mark.parametrize(
    ("expression", "rule"),
    [
        ("current_date", "current_date depends on when the query runs, not on the record"),
        ("CURRENT_USER", "current_user depends on the Spark session, not on the record"),
        ("user", "records has no column user"),
        ("headers[0].current_date", None),
        ("transform(headers, user -> user.key)", None),
        ("CAST(value AS struct<version: int>)", None),
        ("topic LIKE ANY ('a', 'b')", None),
    ],
)
def test_functions_without_parentheses(expression: str, rule: str | None) -> None:
    assert rules(f"{expression} IS NULL") == ([] if rule is None else [rule])
