"""Queries and rows for tests on a Spark session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from flows.sql.rows import ERROR, FRAME, OFFSET, SCHEMA
from mm2.core.lanes.lease import LaneQuery
from mm2.core.settings.row_query import COLUMNS, ResultColumn, RowQuery

FRAME_NUMBER = 7

Headers = Sequence[tuple[str, bytes | None]]


class Row(NamedTuple):
    """A record of partition 3 of topic t."""

    offset: int
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: Headers = ()
    timestamp_ms: int = 1_700_000_000_000

    def columns(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "value": self.value,
            "topic": "t",
            "partition": 3,
            "offset": self.offset,
            "timestamp": self.timestamp_ms * 1_000,
            "timestampType": 0,
            "headers": list(self.headers),
        }


def lane_query(condition: str | None = None, name: str = "mask", **columns: str) -> LaneQuery:
    """A query that sets ``columns``, as its reader returns it."""
    listed = ", ".join(f"{expression} AS {name}" for name, expression in columns.items()) or "*"
    text = f"SELECT {listed} FROM records" + (f" WHERE {condition}" if condition is not None else "")
    set_by_query = {ResultColumn(column): expression for column, expression in columns.items()}
    return LaneQuery(name=name, action=RowQuery(columns=set_by_query, condition=condition, text=text, sha256="0"))


def rows_with_fillers(session: SparkSession, rows: Sequence[Row], *, error: str | None = None) -> DataFrame:
    """What the feeder yields for ``rows``: a filler with an ``error`` after them, and padding.

    The rows are in an RDD, so that queries run in tasks, as generated code; the optimizer would evaluate constants.
    """
    records = [{**row.columns(), OFFSET: row.offset, FRAME: FRAME_NUMBER} for row in rows]
    fillers = [{FRAME: FRAME_NUMBER, ERROR: error}, *[{FRAME: FRAME_NUMBER}] * 2]
    return session.createDataFrame(pa.Table.from_pylist([*records, *fillers], SCHEMA)).localCheckpoint()


def visible_rows(session: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """The table of records, without hidden columns."""
    return session.createDataFrame(pa.Table.from_pylist([row.columns() for row in rows], SCHEMA)).select(*COLUMNS)
