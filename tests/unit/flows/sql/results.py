"""Rows as a query returns them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from flows.sql.rows import ERROR, FAILED, FRAME, OFFSET, SCHEMA
from flows.sql.written import RowColumns

RESULT = pa.schema([SCHEMA.field(name) for name in ("key", "value", "timestamp", "headers")]).append(
    pa.field(FAILED, pa.bool_())
)
for _name in (OFFSET, FRAME, ERROR):
    RESULT = RESULT.append(SCHEMA.field(_name))


def row(offset: int | None, frame: int = 0, **columns: Any) -> dict[str, Any]:
    """Return a row; ``offset`` None: a filler. The timestamp is in epoch microseconds."""
    given: dict[str, Any] = {"key": b"k", "value": b"v", "timestamp": 5_000, "headers": None, FAILED: False}
    if offset is None:
        given = dict.fromkeys(given)
    return {**given, ERROR: None, OFFSET: offset, FRAME: frame, **columns}


def arrow(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=RESULT)


def columns(rows: Iterable[dict[str, Any]]) -> RowColumns:
    return RowColumns(arrow(rows))
