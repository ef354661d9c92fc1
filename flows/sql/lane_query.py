"""The Spark query of a SQL lane: its feeder, the rewritten query of the user, and the lane runner."""

from __future__ import annotations

import secrets
from collections.abc import Collection

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flows.sql.lane_workers import NO_ROWS, Feeder, SqlLaneTask
from flows.sql.refusal import QueryRefusedError, is_hidden
from flows.sql.rewriting import Guard, rewritten, try_eval
from flows.sql.row_select import RowSelect, select_of, visible
from flows.sql.rows import ERROR, FRAME, OFFSET, spark_schema
from flows.sql.select_checks import check_select
from mm2.core.lanes.lease import LaneQuery, LeaseEndpoint
from mm2.core.settings.row_query import COLUMNS, ResultColumn


def result_of(session: SparkSession, query: LaneQuery, *, lane: int, token: str, place: LeaseEndpoint) -> DataFrame:
    """Return the query of a lane, which ends when the lane ends and has no rows.

    Raises QueryRefusedError with Spark's message if Spark does not accept the query.
    """
    feeder_token = secrets.token_hex(16)
    task = SqlLaneTask(lane=lane, place=place, token=token, feeder_token=feeder_token)
    used = used_columns(fed_rows(session, feeder_token, COLUMNS), query)
    return checked(fed_rows(session, feeder_token, used), query).mapInArrow(task, NO_ROWS)


def evaluate(result: DataFrame, query: LaneQuery) -> None:
    """Run a query of `result_of` to its end, in a Spark job.

    Spark's UI, its REST interface and its event log show the plans of queries, with all constants. Other users of the
    machine can open the UI, so a query with values of config providers runs as a job that is no query for Spark.
    """
    if is_hidden(query.action):
        result._jdf.queryExecution().toRdd().count()
    else:
        result._jdf.collectAsList()  # DataFrame.collect would name the stage after the line that calls it


def fed_rows(session: SparkSession, feeder_token: str, used: Collection[str]) -> DataFrame:
    """Return the rows of a feeder. Columns that are not ``used`` are NULL, and never leave the feeder."""
    feeder = Feeder(token=feeder_token, columns=frozenset(used))
    rows = session.range(0, 1, 1, 1).mapInArrow(feeder, spark_schema(used))
    columns = (
        F.col(name) if name in used else F.lit(None).cast(spark_type).alias(name)
        for name, spark_type in COLUMNS.items()
    )
    return rows.select(*columns, OFFSET, FRAME, ERROR)


def used_columns(rows: DataFrame, query: LaneQuery) -> frozenset[str]:
    """Return the columns of the user that a query reads or does not set. Raises QueryRefusedError."""
    select, columns_read = _selected(rows, query)
    return columns_read | (set(ResultColumn) - select.columns.keys())


def checked(rows: DataFrame, query: LaneQuery, *, guard: Guard = try_eval) -> DataFrame:
    """Return the result of a query over ``rows`` (`flows.sql.rewriting.rewritten`). Raises QueryRefusedError."""
    select, _ = _selected(rows, query)
    return rewritten(rows, select, guard=guard)


def _selected(rows: DataFrame, query: LaneQuery) -> tuple[RowSelect, frozenset[str]]:
    """Return the checked expressions of a query over ``rows``, and the columns that they read."""
    records = visible(rows)
    try:
        select = select_of(query.action, records)
        return select, check_select(select, records)
    except QueryRefusedError as error:
        raise QueryRefusedError(error.shown_for(query.action)) from None
