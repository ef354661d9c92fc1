"""Timestamps under another time zone of the session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from flows.sql.lane_query import checked
from mm2.core.lanes.lease import LaneQuery
from tests.integration.sql.queries import Row, lane_query, rows_with_fillers

ZONE = "spark.sql.session.timeZone"
NEW_YEAR_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
FIVE_HOURS_MS = 5 * 3_600_000


@pytest.fixture
def in_new_york(session: SparkSession) -> Iterator[SparkSession]:
    before = session.conf.get(ZONE)
    session.conf.set(ZONE, "America/New_York")
    yield session
    assert before is not None
    session.conf.set(ZONE, before)


def milliseconds(session: SparkSession, query: LaneQuery) -> tuple[int, str]:
    """Return timestamp and value of the record of the new year, as a lane runner gets them."""

    def received(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            timestamps = batch.column("timestamp").cast(pa.int64())
            yield pa.RecordBatch.from_arrays([timestamps, batch.column("value")], ["at", "value"])

    rows = rows_with_fillers(session, [Row(1, timestamp_ms=NEW_YEAR_MS)])
    found = checked(rows, query).mapInArrow(received, "at bigint, value binary").collect()[0]
    return found.at // 1_000, found.value.decode()


def test_a_timestamp_is_preserved_and_its_text_is_in_the_time_zone(in_new_york: SparkSession) -> None:
    query = lane_query(value="CAST(timestamp AS STRING)")
    assert milliseconds(in_new_york, query) == (NEW_YEAR_MS, "2023-12-31 19:00:00")


def test_a_text_is_read_in_the_time_zone(in_new_york: SparkSession) -> None:
    query = lane_query("timestamp < '2024-01-01'", timestamp="to_timestamp('2024-01-01 00:00:00')")
    assert milliseconds(in_new_york, query) == (NEW_YEAR_MS + FIVE_HOURS_MS, "v")
