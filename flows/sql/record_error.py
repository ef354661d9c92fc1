"""Spark's message for a record for which a query failed."""

from __future__ import annotations

import base64
import binascii

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flows.sql.frames import Frame
from flows.sql.refusal import QueryRefusedError
from flows.sql.rewriting import typed_values
from flows.sql.row_select import RowSelect, select_of, untouched
from flows.sql.rows import ERROR, OFFSET, offset_of_error, rows_of
from mm2.core.lanes.engine_orders import FailedRecord
from mm2.core.settings.row_query import COLUMNS, TABLE

_ROW = ", ".join(
    f"timestamp_millis(:{name})" if spark_type == "timestamp" else f"CAST(:{name} AS {spark_type})"
    for name, spark_type in COLUMNS.items()
)


def message_for(session: SparkSession, failed: FailedRecord) -> str | None:
    """Return Spark's message for the query of a record; None if the query does not fail.

    No Spark job runs, which could wait for a free executor: the optimizer evaluates a query over constants itself.
    """
    try:
        records = _table(session, failed)
        select = select_of(failed.query.action, records)
        values = RowSelect(columns=typed_values(select), condition=select.condition)
        untouched(records, values)._jdf.queryExecution().optimizedPlan()
    except PySparkException as error:
        return QueryRefusedError.of_spark(str(error)).shown_for_record(failed.query)
    except QueryRefusedError as error:
        return error.shown_for_record(failed.query)
    except UndecodableRecordError as error:
        return str(error)
    return None


class UndecodableRecordError(Exception):
    """The batch of a failed record is corrupt."""


def _table(session: SparkSession, failed: FailedRecord) -> DataFrame:
    """Return the table of the record alone. Raises UndecodableRecordError."""
    try:
        blob = base64.b64decode(failed.batch, validate=True)
    except binascii.Error as error:
        raise UndecodableRecordError(f"invalid base64: {error}") from error
    frame = Frame(0, 0, failed.topic, failed.partition, blob)
    first = next(rows_of(frame)).slice(0, 1)
    columns = dict(zip(first.schema.names, first.columns, strict=True))
    columns["timestamp"] = columns["timestamp"].cast(pa.int64())  # Python has no times after the year 9999
    row = {name: column[0].as_py() for name, column in columns.items()}
    if row[OFFSET] is None:
        _, why = offset_of_error(row[ERROR] or "the batch has no record")
        raise UndecodableRecordError(why)
    arguments = {name: F.lit(row[name]) for name in COLUMNS}
    arguments["timestamp"] = F.lit(row["timestamp"] // 1_000)
    arguments["headers"] = F.array(
        *(F.struct(F.lit(one["key"]).alias("key"), F.lit(one["value"]).alias("value")) for one in row["headers"])
    )
    query = f"SELECT * FROM VALUES ({_ROW}) AS {TABLE} ({', '.join(COLUMNS)})"  # noqa: S608 only our own names
    return session.sql(query, args=arguments).alias(TABLE)
