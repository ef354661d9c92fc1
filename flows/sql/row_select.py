"""A query as Spark columns: what it sets, and its condition, for the table ``records``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from flows.sql.refusal import QueryRefusedError, spark_message
from mm2.core.settings.row_query import COLUMNS, TABLE, ResultColumn, RowQuery, RowTransform

_CONDITION = "where"
_TO_SET = ", ".join(ResultColumn)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelect:
    """The expressions of what is set, and a condition; a record is dropped if it is false or NULL."""

    columns: Mapping[ResultColumn, Column]
    condition: Column | None


def visible(rows: DataFrame) -> DataFrame:
    """Return the table that a query reads: without the hidden columns."""
    return rows.select(*COLUMNS).alias(TABLE)


def select_of(action: RowQuery | RowTransform, records: DataFrame) -> RowSelect:
    """Return the expressions of a query over ``records``, the result of `visible`.

    Raises QueryRefusedError if they cannot be parsed, or if a transform does not return what it has to.
    """
    if isinstance(action, RowTransform):
        return _transformed(action, records)
    try:
        return RowSelect(
            columns={column: F.expr(text) for column, text in action.columns.items()},
            condition=None if action.condition is None else F.expr(action.condition),
        )
    except PySparkException as error:
        raise QueryRefusedError.of_spark(str(error)) from error


def untouched(records: DataFrame, select: RowSelect) -> DataFrame:
    """Return the query as its user wrote it: it fails as a whole if it fails for a record."""
    kept = records if select.condition is None else records.where(select.condition)
    return kept.select(*(expression.alias(column) for column, expression in select.columns.items()))


def _transformed(transform: RowTransform, records: DataFrame) -> RowSelect:
    try:
        function = getattr(import_module(transform.module), transform.function)
    except AttributeError:
        raise QueryRefusedError(f"module {transform.module} has no function {transform.function}") from None
    except (Exception, SystemExit) as error:
        raise QueryRefusedError(
            f"module {transform.module} cannot be imported ({_described(error)}); modules must be installed or on"
            " PYTHONPATH, the directory of the properties file is not searched"
        ) from error
    try:
        result = function(records)
    except (Exception, SystemExit) as error:
        raise QueryRefusedError(f"{transform} raised {_described(error)}") from error
    if not isinstance(result, Mapping):
        raise QueryRefusedError(
            f"{transform} returned {type(result).__name__}; it must return a dict of Columns: {_TO_SET}, {_CONDITION}"
        )
    for name, value in result.items():
        if name not in (*ResultColumn, _CONDITION):
            raise QueryRefusedError(f"{transform} returned {name!r}, which cannot be set; can be set: {_TO_SET}")
        if not isinstance(value, Column):
            raise QueryRefusedError(f"{transform} returned {type(value).__name__} for {name}; it must be a Column")
    return RowSelect(
        columns={column: result[column] for column in ResultColumn if column in result},
        condition=result.get(_CONDITION),
    )


def _described(error: BaseException) -> str:
    text = spark_message(str(error)) if str(error).strip() else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
