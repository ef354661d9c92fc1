"""The examples of docs/how-to/queries.md do in Spark what the page says."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from flows.sql.lane_query import checked
from flows.sql.rows import FAILED, FRAME, OFFSET, SCHEMA
from mm2.config.load import load
from mm2.core.lanes.lease import LaneQuery
from mm2.core.settings.row_query import RowQuery, RowTransform
from tests.lab.commands import ROOT
from tests.lab.docs import write_blocks

PAGE = ROOT / "docs/how-to/queries.md"
MODULE = "acme_queries"
CARD = '{"test":false,"card":"4111222233334444"}'
TEST = '{"test":true,"card":"4111222233334444"}'

Action = RowQuery | RowTransform


@pytest.fixture
def actions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, Action]]:
    """Return the queries of the page by their names, and its module."""
    monkeypatch.setenv("SALT", "pepper")
    write_blocks(PAGE, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    loaded = load(tmp_path / "mm2.properties")
    assert loaded.settings is not None
    queries = {one.name: one.action for one in loaded.settings.flows[0].queries.in_order}
    yield {**queries, MODULE: RowTransform(module=MODULE, function="without_secrets")}
    sys.modules.pop(MODULE, None)


@pytest.mark.parametrize(
    ("name", "column", "expected"),
    [
        ("mask", "value", {CARD: CARD.replace("411122223333", "*" * 12), None: None}),
        ("country", "value", {'{"country":"DE"}': '{"country":"DE"}', None: None}),
        ("keys", "key", {"u1": hashlib.sha256(b"pepperu1").hexdigest(), None: None}),
        ("origin", "headers", {"v": [("Session", b"1"), ("session", b"2"), ("origin", b"t-0@0")]}),
        ("headers", "headers", {"v": [("session", b"1")]}),
        ("live", "value", {"v": "v"}),
        ("large", "value", {"1000": "1000"}),
        (MODULE, "value", {CARD: CARD.replace("4111222233334444", "***"), None: None}),
        (MODULE, "headers", {CARD: [("Session", b"1"), ("session", b"2"), ("origin", b"t")]}),
    ],
)
def test_example(
    session: SparkSession, actions: Mapping[str, Action], name: str, column: str, expected: Mapping[str | None, Any]
) -> None:
    dropped = {"mask": TEST, "country": '{"country":"FR"}', "live": None, "large": "many", MODULE: TEST}
    given = [*expected, *([dropped[name]] if name in dropped else [])]
    rows = [
        {
            "key": None if text is None else text.encode(),
            "value": None if text is None else text.encode(),
            "topic": "t",
            "partition": 0,
            "offset": offset,
            "timestamp": 0,
            "timestampType": 0,
            "headers": [{"key": "Session", "value": b"1"}, {"key": "session", "value": b"2"}],
            OFFSET: offset,
            FRAME: 0,
        }
        for offset, text in enumerate(given)
    ]
    table = session.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))
    found = checked(table, LaneQuery(name="example", action=actions[name])).collect()
    assert [row[FAILED] for row in found] == [False] * len(expected)
    assert [_plain(row[column]) for row in found] == list(expected.values())


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [(one["key"], bytes(one["value"])) for one in value]
    return None if value is None else bytes(value).decode()
