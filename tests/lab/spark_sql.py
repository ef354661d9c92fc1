"""A SQL session as the engine opens it, in the process of the test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from pyspark import SparkContext
from pyspark.sql import SparkSession

from flows.spark.context import open_context
from flows.sql.session import SqlSession
from mm2.node.engine.spark_settings import engine_environment, spark_settings

ENDED_WITHIN = 30.0  # seconds for a JVM to exit


@contextmanager
def sql_session(user: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Start Spark, with settings of a file, and end it with its JVM."""
    with tempfile.TemporaryDirectory() as directory:
        settings = spark_settings(user or {}, lanes=1, sql_lanes=1, temp_dir=Path(directory), lane_buffer_bytes=0)
        with patch.dict(os.environ, engine_environment(settings, Path(directory))):
            spark = open_context("a test", settings)
        gateway = spark._gateway
        assert gateway is not None
        try:
            yield SqlSession(spark).open()
        finally:
            spark.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(ENDED_WITHIN)
            SparkContext._gateway = SparkContext._jvm = None
