"""The list of functions that `mm2 check` reads is that of Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.lab.spark_functions import COMMAND, FILE, changes, functions, module


def test_the_stored_list_is_that_of_spark(session: SparkSession) -> None:
    kinds = functions(session)
    found = "\n".join(changes(kinds))
    assert not found, f"run {COMMAND}; can new functions depend on anything but their arguments?\n{found}"
    assert FILE.read_text("utf-8") == module(session.version, kinds), f"run {COMMAND}"
