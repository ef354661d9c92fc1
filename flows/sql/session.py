"""The SQL session of the engine, which is opened by the first SQL lane: other lanes need none."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.logger import PySparkLogger

from flows.sql.refusal import QueryRefusedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIRED = ("pyarrow", "pandas")

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers to which PySpark writes every error, with its stack trace and the values of the record that caused it."""

DEFAULTS = {"spark.sql.session.timeZone": "UTC"}
"""Settings that the file can override."""


class SqlSession:
    """Opens the session of a Spark context when it is needed first."""

    def __init__(self, spark: SparkContext) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        self._session: SparkSession | None = None

    def open(self) -> SparkSession:
        """Return the session. Raises QueryRefusedError if a package that it needs is not installed."""
        missing = [name for name in REQUIRED if find_spec(name) is None]
        if missing:
            raise QueryRefusedError(
                f"SQL flows need {' and '.join(missing)}; install them from requirements-runtime.lock (README.md)"
            )
        with self._lock:
            if self._session is None:
                self._session = self._opened()
            return self._session

    def _opened(self) -> SparkSession:
        from pyspark.sql import SparkSession  # noqa: PLC0415 see above

        from flows.sql.rows import BYTES_PER_BATCH, OUTPUT_BUFFER_BYTES, ROWS_PER_BATCH  # noqa: PLC0415

        for name in _LOGGERS:
            PySparkLogger.getLogger(name).disabled = True
        set_by_file = self._spark.getConf()
        defaults = {name: value for name, value in DEFAULTS.items() if not set_by_file.contains(name)}
        needed = {
            "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_PER_BATCH),
            "spark.sql.execution.arrow.maxBytesPerBatch": str(BYTES_PER_BATCH),
            "spark.sql.execution.pandas.udf.buffer.size": str(OUTPUT_BUFFER_BYTES),
            "spark.sql.execution.arrow.useLargeVarTypes": "false",  # the feeder's schema has none
            "spark.sql.subexpressionElimination.enabled": "false",  # see flows/sql/rewriting.py
        }
        return SparkSession(self._spark, options={**defaults, **needed})
