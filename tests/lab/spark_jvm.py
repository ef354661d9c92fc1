"""How tests start Spark's JVM: with a class-data archive, as `class_data` has it for brokers, and with one compiler.

Each of them saves about a third of the CPU of a start, and the tests start Spark some forty times.

The JVM takes an archive only with the very jars it was made of, so it lives and dies with the environment of the jars.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mm2.core.lanes.lease import LaneQuery
from mm2.core.settings.row_query import COLUMNS, ResultColumn, RowQuery
from mm2.node.engine.spark_settings import engine_environment, spark_settings
from tests.lab import class_data, jvm
from tests.lab.commands import ROOT

if TYPE_CHECKING:
    import pyarrow as pa

OPTIONS = "SPARK_SUBMIT_OPTS"  # in the environment: Spark's launcher adds it to the JVM's command line, silently
ONE_COMPILER = "-XX:TieredStopAtLevel=1"  # the second one pays off after minutes: 15 s of CPU become 10 for a query
MADE_WITHIN = 600.0  # seconds: 30 alone, for a start of Spark with a query and 160 MB that the JVM writes at its end


def archive() -> Path:
    """Return the path of the archive for this Spark and this Java, whether it exists or not."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    java = Path(shutil.which(jvm.java()) or jvm.java()).resolve()
    files = [java, *sorted(Path(spec.origin).with_name("jars").iterdir())]
    told = "".join(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}\n" for file in files)
    return Path(sys.prefix) / f"spark-sql.{hashlib.sha256(told.encode()).hexdigest()[:12]}.jsa"


def use() -> None:
    """Make every Spark of this process and its children start quickly, with the archive if there is one."""
    file = archive()
    options = class_data.using(file) if file.exists() else ()
    os.environ.setdefault(OPTIONS, " ".join((ONE_COMPILER, *options)))


def make() -> None:
    """Run Spark briefly and archive its classes. If the JVM writes no archive, Spark starts as before.

    Raises CalledProcessError or TimeoutExpired."""
    file = archive()
    part = class_data.part_of(file)
    environment = {**os.environ, OPTIONS: " ".join(class_data.recording_options(part))}
    subprocess.run([sys.executable, "-m", __name__], env=environment, cwd=ROOT, timeout=MADE_WITHIN, check=True)
    if part.exists():
        part.replace(file)


def _nothing(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in rows:
        continue
    return iter(())


def _live_once() -> None:
    """Run Spark as the engine starts it, with a Python task and a query, until its JVM exits."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - not for those who only ask for the archive
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    from flows.sql.lane_query import checked  # noqa: PLC0415
    from flows.sql.rows import spark_schema  # noqa: PLC0415
    from flows.sql.session import SqlSession  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as directory:
        settings = spark_settings({}, lanes=2, sql_lanes=1, temp_dir=Path(directory), lane_buffer_bytes=0)
        os.environ |= engine_environment(settings, Path(directory))
        conf = SparkConf().setAppName("class data").setAll(list(settings.items()))
        gateway = launch_gateway(conf)  # type: ignore[no-untyped-call]
        spark = SparkContext(conf=conf, gateway=gateway)
        spark.parallelize([None], numSlices=1).mapPartitions(list).collect()
        rows = SqlSession(spark).open().range(0, 1, 1, 1).mapInArrow(_nothing, spark_schema(COLUMNS))
        columns = {ResultColumn.VALUE: "regexp_replace(CAST(value AS STRING), 'a', 'b')"}
        condition = "get_json_object(CAST(value AS STRING), '$.a') = 'b'"
        action = RowQuery(columns=columns, condition=condition, text="", sha256="")
        checked(rows, LaneQuery(name="classes", action=action)).mapInArrow(_nothing, "nothing boolean").collect()
        spark.stop()
        gateway.proc.stdin.close()  # makes its JVM exit
        gateway.proc.wait()


if __name__ == "__main__":
    _live_once()
