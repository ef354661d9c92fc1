"""The Spark context of a node, and the executors that a Spark cluster gives it."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from flows.spark.lane_job import LaneJob

EMPTY_FOR_S = 30.0
"""A cluster that removed all executors and has provided none for this long may have lost this application, as a
restarted standalone master does. The application is then registered again, once; after that the engine waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkClusterView:
    """The executors that a cluster provides, and the lanes without one. ``ended``: why the cluster provides no more."""

    executors: int = 0
    unplaced: tuple[int, ...] = ()
    ended: str | None = None


class ClusterWatch:
    """Observes the executors of an application. Without a cluster, lanes run in the engine's own JVM."""

    def __init__(self, master: str, *, on_cluster: bool) -> None:
        self._master = master
        self._on_cluster = on_cluster
        self._executors_at: float | None = None  # None: there has never been one

    def view(self, spark: SparkContext, jobs: Mapping[int, LaneJob]) -> SparkClusterView:
        """Return what the cluster provides for the jobs, by lane."""
        if not self._on_cluster:
            return SparkClusterView()
        scala = spark._jsc.sc()  # PySpark itself provides none of what follows
        if scala.isStopped():
            return SparkClusterView(ended=f"Spark master {self._master} ended the application")
        executors = len(scala.statusTracker().getExecutorInfos()) - 1  # the driver counts as one
        now = time.monotonic()
        if executors or (self._executors_at is not None and not jobs):
            self._executors_at = now
        ended = None
        if self._executors_at is not None and now - self._executors_at > EMPTY_FOR_S:
            ended = f"Spark master {self._master} has provided no executors for {EMPTY_FOR_S:.0f} s; registering again"
        unplaced = tuple(lane for lane, job in jobs.items() if not job.has_ended and job.unplaced)
        return SparkClusterView(executors=executors, unplaced=unplaced, ended=ended)


HIDDEN_BY_SPARK = re.compile("secret|password|token|access[.]?key|credential", re.IGNORECASE)
"""Names of settings whose values Spark hides in its own displays (spark.redaction.regex)."""


_REDACTION = "spark.redaction.regex"

_FOR_LAUNCH = re.compile(
    r"spark\.(?:master|submit\.|driver\.(?:memory|default|extra)|jars|files|archives|repositories)"
)
"""Names of settings that only the start of the JVM can apply."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MORE_JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"  # in the environment; Spark's script appends them to the command line
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"  # in the environment, the only way to pass PySpark the name of a file


def open_context(app_name: str, settings: Mapping[str, str], hidden: Collection[str] = ()) -> SparkContext:
    """Create the Spark context of this node.

    It has no SQL session until the first SQL lane (`flows.sql.session`): other lanes move no rows through Spark, and
    without Catalyst the JVM needs half the CPU to start and two thirds of the memory
    (docs/adr/0002-lanes-are-rdd-tasks.md).

    No setting is on a command line, which every user of the machine can read: those that the JVM needs at its start are
    in a file (`_launch`). Secret settings, those with ``hidden`` names among them, are set in the running JVM, and
    Spark's UI does not show them.
    """
    secret = [name for name in hidden if not (HIDDEN_BY_SPARK.search(name) or _FOR_LAUNCH.match(name))]
    redacted = [name for name in hidden if not HIDDEN_BY_SPARK.search(name)]
    if _JAVA_OPTIONS in redacted:  # the UI shows the system properties, too
        options = shlex.split(settings[_JAVA_OPTIONS])
        redacted += [option[2:].partition("=")[0] for option in options if option.startswith("-D")]
    if redacted:
        names = "|".join(re.escape(name.removeprefix("spark.hadoop.")) for name in redacted)  # Hadoop's are shown twice
        settings = {_REDACTION: f"(?i){HIDDEN_BY_SPARK.pattern}|{names}", **settings}
    shown = {name: value for name, value in settings.items() if not HIDDEN_BY_SPARK.search(name) and name not in secret}
    gateway = _launch(shown)
    conf = SparkConf().setAppName(app_name).setAll(list(settings.items()))
    return SparkContext(conf=conf, gateway=gateway)


def _launch(settings: Mapping[str, str]) -> Any:
    """Start the JVM with these settings, from files that only this user can read and that are removed afterwards.

    Returns py4j's gateway to it.

    Options of Java are in another file than Spark's settings, as Spark would append them to the command line.
    """
    options = [*shlex.split(os.environ.pop(_MORE_JAVA_OPTIONS, "")), *shlex.split(settings.get(_JAVA_OPTIONS, ""))]
    with tempfile.TemporaryDirectory(prefix="launch-") as directory:
        if options:
            file = _write(Path(directory) / "java.options", map(_java_argument, options))
            settings = {**settings, _JAVA_OPTIONS: f"@{file}"}
        file = _write(Path(directory) / "spark.properties", (_property(*setting) for setting in settings.items()))
        arguments = ("--properties-file", str(file), "--load-spark-defaults", "pyspark-shell")
        os.environ[_SUBMIT_ARGUMENTS] = shlex.join(arguments)
        try:
            return launch_gateway()  # type: ignore[no-untyped-call]  # PySpark leaves it untyped
        finally:
            del os.environ[_SUBMIT_ARGUMENTS]


def _write(file: Path, lines: Iterable[str]) -> Path:
    file.touch(mode=0o600)
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return file


def _java_argument(text: str) -> str:
    """Return a line of a file of Java's arguments (``java @FILE``)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "=": "\\=", ":": "\\:"}


def _property(name: str, value: str) -> str:
    """Return a line of Java's properties format, in UTF-8."""
    key, text = ("".join(_ESCAPED.get(letter, letter) for letter in part) for part in (name, value))
    return f"{key}={_leading_space(text)}"


def _leading_space(text: str) -> str:
    return f"\\{text}" if text.startswith(" ") else text


def ui_url(reported: str | None) -> str | None:
    """Return the URL of Spark's UI with SPARK_LOCAL_IP, where it listens; Spark reports its name for executors."""
    if reported is None or "SPARK_LOCAL_IP" not in os.environ:
        return reported
    parts = urlsplit(reported)
    return f"{parts.scheme}://{os.environ['SPARK_LOCAL_IP']}:{parts.port}"
