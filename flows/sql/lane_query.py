"""The Spark query of a SQL lane: its feeder, the rewritten query of the user, and the lane runner."""

from __future__ import annotations

import secrets

from pyspark.sql import DataFrame, SparkSession

from flows.sql.feeder import Feeder
from flows.sql.lane_task import NO_ROWS, SqlLaneTask
from flows.sql.refusal import QueryRefusedError
from flows.sql.rewriting import rewritten
from flows.sql.row_select import select_of, visible
from flows.sql.rows import SPARK_SCHEMA
from flows.sql.select_checks import check_select
from mm2.core.lanes.lease import LaneQuery, LeasePlace


def result_of(session: SparkSession, query: LaneQuery, *, lane: int, token: str, place: LeasePlace) -> DataFrame:
    """Return the query of a lane, which ends when the lane ends and has no rows.

    Raises QueryRefusedError with Spark's message if Spark does not accept the query.
    """
    feeder_token = secrets.token_hex(16)
    feeder = Feeder(token=feeder_token)
    task = SqlLaneTask(lane=lane, place=place, token=token, feeder_token=feeder_token)
    rows = session.range(0, 1, 1, 1).mapInArrow(feeder, SPARK_SCHEMA)
    return checked(rows, query).mapInArrow(task, NO_ROWS)


def checked(rows: DataFrame, query: LaneQuery) -> DataFrame:
    """Return the result of a query over ``rows`` (`flows.sql.rewriting.rewritten`). Raises QueryRefusedError."""
    records = visible(rows)
    try:
        select = select_of(query.action, records)
        check_select(select, records)
    except QueryRefusedError as error:
        raise QueryRefusedError(error.shown_for(query.action)) from None
    return rewritten(rows, select)
