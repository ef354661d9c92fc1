"""The rewriting of a query, so that it runs for ever: it fails for single records, and never for a filler.

All expressions are evaluated at one place, inside Catalyst's TryEval, which is NULL if anything in it fails:

    _mm2_result = CASE WHEN filler THEN NULL
                  ELSE TryEval({CASE WHEN condition THEN {what is set, true} ELSE {NULL, false} END}) END

A filler, a failed record and a record to keep pass the filter after it. Spark's optimizer must not take it apart:

(A) It contains a call of spark_partition_id(), which is not deterministic, so that neither the filter nor the columns
    of the result are moved to the other side, and the expressions are evaluated once per record.
(B) Inside the TryEval is a struct with one field, since the optimizer moves functions of a CASE into its branches, and
    the condition would be outside.
(C) Common subexpressions are evaluated where they are written: the session has
    spark.sql.subexpressionElimination.enabled = false (`flows.sql.session`).
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from flows.sql.row_select import RowSelect
from flows.sql.rows import FAILED, OFFSET, RESULT
from mm2.core.settings.row_query import COLUMNS, TABLE, ResultColumn

_RESULT = "_mm2_result"
_GUARDED = "guarded"
_KEEP = "keep"


Guard = Callable[[DataFrame, Column], Column]
"""Returns an expression over rows that is NULL where the given one fails (`try_eval`)."""


def try_eval(rows: DataFrame, expression: Column) -> Column:
    """Return Catalyst's TryEval of an expression, which Spark's Python API does not have."""
    jvm = rows.sparkSession._jvm
    assert jvm is not None
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    inner = utils.expression(expression._jc)
    return ClassicColumn(utils.column(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(inner)))


def rewritten(rows: DataFrame, select: RowSelect, *, guard: Guard = try_eval) -> DataFrame:
    """Return the result of a checked query over ``rows``, with the columns `flows.sql.rows.RESULT`."""
    if not select.columns and select.condition is None:
        return rows.withColumn(FAILED, F.lit(False)).select(*RESULT)
    filler = F.col(OFFSET).isNull()
    never = F.spark_partition_id() < 0
    guarded = guard(rows, F.struct(_evaluation(select).alias(_GUARDED)))
    evaluated = rows.alias(TABLE).select("*", F.when(filler | never, F.lit(None)).otherwise(guarded).alias(_RESULT))
    result = F.col(_RESULT)
    kept = evaluated.where(filler | result.isNull() | result[_GUARDED][_KEEP])
    set_by_query = {str(column): result[_GUARDED][column] for column in select.columns}
    set_by_query[FAILED] = F.col(OFFSET).isNotNull() & result.isNull()
    return kept.select(*(set_by_query.get(name, F.col(name)).alias(name) for name in RESULT))


def typed_values(select: RowSelect) -> dict[ResultColumn, Column]:
    """Return what a query sets, in the types of a record."""
    return {column: expression.cast(COLUMNS[column]) for column, expression in select.columns.items()}


def _evaluation(select: RowSelect) -> Column:
    values = typed_values(select)
    kept = F.struct(*(value.alias(column) for column, value in values.items()), F.lit(True).alias(_KEEP))
    if select.condition is None:
        return kept
    nothing = (F.lit(None).cast(COLUMNS[column]).alias(column) for column in values)
    dropped = F.struct(*nothing, F.lit(False).alias(_KEEP))
    return F.when(F.coalesce(select.condition, F.lit(False)), kept).otherwise(dropped)
