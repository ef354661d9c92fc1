"""The reader with which tests show that another user reads nothing can read, where Spark does not authenticate."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.lab.spark_blocks import read_as_nobody


async def test_blocks_of_a_driver_without_authentication_are_read(session: SparkSession) -> None:
    spark = session.sparkContext
    gateway, java = spark._gateway, spark._jsc
    assert gateway is not None
    assert java is not None
    planted = java.broadcast("planted-in-broadcast")
    try:
        found = await read_as_nobody(gateway.proc.pid, first=planted.id())
        assert any(b"planted-in-broadcast" in block for block in found)
    finally:
        planted.destroy()
