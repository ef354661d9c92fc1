"""What a lane shows in Spark's UI, and why it has ended."""

from __future__ import annotations

import subprocess
import sys
from typing import NoReturn, cast

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkException

from flows.spark.lane_job import LONGEST_TEXT, LaneJob, error_name, job_title, last_line
from flows.sql.session import SqlSession
from mm2.core.lanes.engine_orders import LaneStart
from mm2.core.lanes.lease import LaneQuery, LeaseEndpoint
from mm2.core.settings.row_query import RowQuery, RowTransform

MEMORY = "spark.driver.memory = 1g"


def start(action: RowQuery | RowTransform | None = None) -> LaneStart:
    query = None if action is None else LaneQuery(name="mask", action=action)
    return LaneStart(lane=2, token="t", description="A->B lane 2", query=query)


def test_the_title_of_a_job_is_what_is_fixed_about_its_lane() -> None:
    assert job_title(start()) == "A->B lane 2"


def test_the_title_of_a_sql_lane_has_its_query() -> None:
    text = "SELECT upper(value) AS value FROM records"
    query = RowQuery(columns={}, condition=None, text=text, sha256="0")
    assert job_title(start(query)) == f"A->B lane 2: query mask: {text}"
    assert job_title(start(RowTransform(module="shop", function="mask"))) == "A->B lane 2: query mask: shop:mask"


def test_the_title_of_a_long_query_is_cut_off() -> None:
    title = job_title(start(RowQuery(columns={}, condition=None, text="x" * 5_000, sha256="0")))
    assert len(title) == len("A->B lane 2: query mask: ") + LONGEST_TEXT
    assert title.endswith("x…")


def test_the_last_line_that_names_an_error() -> None:
    assert last_line("Job aborted\njava.lang.Exception: no\n  at x\n") == "java.lang.Exception: no"
    assert last_line("a.QueryFailed: stuck\n\tat org.Runner.handlePythonException(PythonRunner.scala:1)\n") == (
        "a.QueryFailed: stuck"
    )
    crashed = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
    assert last_line(f"{crashed}\n\tat x\nCaused by: java.io.EOFException\n\tat y\n") == crashed
    assert last_line("Caused by: java.io.EOFException") == "Caused by: java.io.EOFException"
    assert last_line("An error occurred while calling o1.x.\n: org.apache.spark.SparkException: no\n") == (
        "org.apache.spark.SparkException: no"
    )
    assert last_line("one\ntwo\n") == "two"
    assert last_line("") == "unknown error"


def test_the_name_of_an_error_without_its_message() -> None:
    """For a query with references: the message can quote the values."""
    trace = "Job aborted: sesame\njava.lang.StackOverflowError: at 'sesame'\n  at x\n"
    assert error_name(trace) == "java.lang.StackOverflowError"
    assert error_name("Py4JError: sesame") == "Py4JError"
    assert error_name("sesame") == "unknown error"


@pytest.mark.parametrize("has_references", [False, True])
def test_why_a_lane_has_ended_contains_no_value_of_a_config_provider(*, has_references: bool) -> None:
    query = RowQuery(columns={}, condition="'sesame'", text="${env:SALT}", sha256="0", has_references=has_references)

    class Session(SqlSession):
        def open(self) -> NoReturn:
            raise PySparkException("org.apache.spark.SparkException: cannot evaluate 'sesame'")

    class Context(SparkContext):
        def __init__(self) -> None: ...
        def setJobGroup(self, *_: object, **__: object) -> None: ...
        def setLocalProperty(self, *_: object) -> None: ...

    context = Context()
    job = LaneJob(context, Session(context), LeaseEndpoint(url="http://127.0.0.1:1"), start(query), memory=MEMORY)
    job.run()
    assert (job.end.error or "").startswith("org.apache.spark.SparkException")
    assert ("sesame" in (job.end.error or "")) is not has_references


def test_the_end_of_a_lane_is_reported_when_it_is_known() -> None:
    """By the job itself: the engine may be waiting for orders of the node."""

    class Context(SparkContext):
        def __init__(self) -> None: ...
        def setJobGroup(self, *_: object, **__: object) -> None: ...
        def setLocalProperty(self, *_: object) -> None: ...
        def parallelize(self, *_: object, **__: object) -> NoReturn:
            raise PySparkException("java.lang.Exception: executor lost")

    ends: list[tuple[bool, str | None]] = []
    context = Context()
    place = LeaseEndpoint(url="http://127.0.0.1:1")
    job = LaneJob(
        context,
        SqlSession(context),
        place,
        start(),
        lambda ended: ends.append((ended.has_ended, ended.end.error)),
        memory=MEMORY,
    )
    assert not job.has_ended
    job.run()
    assert ends == [(True, "java.lang.Exception: executor lost")]


def test_the_text_of_an_error_can_need_the_jvm_that_has_ended() -> None:
    """It must not look like a lane that ended because its orders ended it."""

    class TextlessError(PySparkException):
        def __str__(self) -> str:
            raise ConnectionRefusedError("py4j cannot connect")

    class Context(SparkContext):
        def __init__(self) -> None: ...
        def setJobGroup(self, *_: object, **__: object) -> NoReturn:
            raise TextlessError("the JVM has ended")

    ends: list[tuple[bool, str | None]] = []
    context = Context()
    job = LaneJob(
        context,
        SqlSession(context),
        LeaseEndpoint(url="http://127.0.0.1:1"),
        start(),
        lambda ended: ends.append((ended.lost_java, ended.end.error)),
        memory=MEMORY,
    )
    job.run()
    ((lost_java, error),) = ends
    assert lost_java
    assert error is not None


def test_the_engine_imports_nothing_of_sql_flows() -> None:
    """Which are an extra that is not always installed, and take half a second."""
    show = "import sys, flows.engine; print(*(name for name in ('pandas', 'pyarrow', 'numpy') if name in sys.modules))"
    shown = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.split() == []


def test_the_name_of_a_job_group_is_no_secret() -> None:
    """Spark's UI shows it."""
    order = LaneStart(lane=2, token="open-sesame", description="A->B lane 2", query=None)
    jobs = [
        LaneJob(cast("SparkContext", None), cast("SqlSession", None), LeaseEndpoint(url=""), order, memory=MEMORY)
        for _ in range(2)
    ]
    groups = {job._group for job in jobs}
    assert len(groups) == 2
    assert not any("open" in group for group in groups)
