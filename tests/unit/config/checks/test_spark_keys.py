"""Names and values of spark.*. Messages: tests/snapshots/config/bad/spark-keys.txt and spark-cluster-keys.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.sql.rows import BYTES_PER_BATCH, OUTPUT_BUFFER_BYTES, ROWS_PER_BATCH
from mm2.config.checks.spark_keys import OVERRULED
from mm2.config.checks.spark_names import NAMES
from tests.lab.spark_keys import FILE, module, names
from tests.unit.config.files import loaded

QUERY = "mm2.sql.x.topics = a\nmm2.sql.x.query = SELECT upper(value) AS value FROM records\n"
CLUSTER = (
    "spark.master = spark://127.0.0.1:7077\nspark.authenticate = true\nspark.authenticate.secret = sesame\n"
    "spark.network.crypto.enabled = true\n"
)


def errors(directory: Path, lines: str) -> list[str]:
    return [str(one.key) for one in loaded(directory, lines).problems if not one.is_warning]


def warnings(directory: Path, lines: str) -> list[str]:
    return [str(one.key) for one in loaded(directory, lines).problems if one.is_warning]


def test_the_list_is_that_of_the_installed_spark() -> None:
    found = names()
    assert {prefix + name for prefix, those in NAMES.items() for name in those.split()} == found
    version = FILE.read_text("utf-8").split("Spark ")[1].split(",")[0]
    assert module(version, found) == FILE.read_text("utf-8")
    assert {"spark.task.cpus", "spark.sql.session.timeZone", "spark.executor.memory", "spark.ui.port"} <= found


def test_lanes_set_these() -> None:
    assert OVERRULED["spark.sql.execution.arrow.maxRecordsPerBatch"] == str(ROWS_PER_BATCH)
    assert OVERRULED["spark.sql.execution.arrow.maxBytesPerBatch"] == str(BYTES_PER_BATCH)
    assert OVERRULED["spark.sql.execution.pandas.udf.buffer.size"] == str(OUTPUT_BUFFER_BYTES)
    assert OVERRULED.keys() <= names()


@pytest.mark.parametrize(
    "line",
    [
        "spark.hadoop.fs.s3a.acces.key = x",
        "spark.executorEnv.JAVA_HOME = /java",
        "spark.kubernetes.driver.label.team = x",
        "spark.task.resource.gpu.amount = 1",
        "spark.rapids.sql.concurrentGpuTasks = 2",
        "spark.sql.session.timeZone = Europe/Paris",
        "spark.driver.memory = 466m",
        "spark.executor.memory = 1m",
        "spark.ui.port = 65535",
        "spark.driver.port = 0",
    ],
)
def test_settings_that_are_fine(tmp_path: Path, line: str) -> None:
    assert loaded(tmp_path, f"{line}\n").problems == ()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("spark.sql.ansi.enabled = false\n", []),
        (f"{QUERY}spark.sql.ansi.enabled = FALSE\n", ["spark.sql.ansi.enabled"]),
        (f"{QUERY}spark.sql.ansi.enabled = true\n", []),
        (f"{QUERY}spark.sql.ansi.enabeld = false\n", ["spark.sql.ansi.enabeld"]),
        ("spark.sql.ansi.enabeld = false\n", []),
        (f"{QUERY}spark.ui.port = 65535\n", ["spark.ui.port"]),
        ("spark.ui.port = 65536\n", ["spark.ui.port"]),
        ("spark.ui.port = none\n", ["spark.ui.port"]),
        ("spark.task.cpus = 2\n", ["spark.task.cpus"]),
        ("spark.task.cpus = 0\n", ["spark.task.cpus"]),
        ("spark.task.cpus = 1\n", []),
        ("spark.driver.memory = 100m\n", ["spark.driver.memory"]),
        ("spark.driver.memory = 512\n", ["spark.driver.memory"]),
        (f"{CLUSTER}spark.task.cpus = 2\n", ["spark.task.cpus"]),
        (f"{CLUSTER}spark.task.cpus = 2\nspark.executor.cores = 2\n", []),
        (f"{CLUSTER}spark.cores.max = 1\nspark.executor.cores = 2\n", ["spark.cores.max"]),
        (f"{CLUSTER}spark.executor.memory = 449m\n", ["spark.executor.memory"]),
        (f"{CLUSTER}spark.executor.memory = 1g\n", []),
        (f"{CLUSTER}spark.executor.instances = 0\n", ["spark.executor.instances"]),
    ],
)
def test_values_with_which_nothing_would_run(tmp_path: Path, lines: str, expected: list[str]) -> None:
    assert errors(tmp_path, lines) == expected


def test_misspelt_names_without_queries_are_warnings(tmp_path: Path) -> None:
    assert warnings(tmp_path, "spark.executer.memory = 1g\nspark.sql.sesion.timeZone = UTC\n") == [
        "spark.executer.memory",
        "spark.sql.sesion.timeZone",
    ]
