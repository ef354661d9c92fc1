"""One Spark session for all tests of queries, without authentication: see `test_spark_blocks`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.lab.spark_sql import sql_session


@pytest.fixture(scope="package")
def session() -> Iterator[SparkSession]:
    with sql_session({"spark.authenticate": "false"}) as session:
        yield session
