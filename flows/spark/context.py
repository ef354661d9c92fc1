"""The Spark context of a node."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

HIDDEN_BY_SPARK = re.compile("secret|password|token|access[.]?key|credential", re.IGNORECASE)
"""Names of settings whose values Spark hides in its own displays (spark.redaction.regex)."""


_REDACTION = "spark.redaction.regex"

_FOR_LAUNCH = re.compile(
    r"spark\.(?:master|submit\.|driver\.(?:memory|default|extra)|jars|files|archives|repositories)"
)
"""Names of settings that only the start of the JVM can apply, most of them on its command line."""


def open_context(app_name: str, settings: Mapping[str, str], hidden: Collection[str] = ()) -> SparkContext:
    """Create the Spark context of this node.

    It has no SQL session until the first SQL lane (`flows.sql.session`): other lanes move no rows through Spark, and
    without Catalyst the JVM needs half the CPU to start and two thirds of the memory
    (docs/adr/0002-lanes-are-rdd-tasks.md).

    Secret settings, those with ``hidden`` names among them, are set in the running JVM, not on its command line, which
    every user of the machine can read. Spark's UI does not show them either.
    """
    secret = [name for name in hidden if not (HIDDEN_BY_SPARK.search(name) or _FOR_LAUNCH.match(name))]
    if secret:
        names = "|".join(re.escape(name.removeprefix("spark.hadoop.")) for name in secret)  # Hadoop's are shown twice
        settings = {_REDACTION: f"(?i){HIDDEN_BY_SPARK.pattern}|{names}", **settings}
    shown = [
        (name, value) for name, value in settings.items() if not HIDDEN_BY_SPARK.search(name) and name not in secret
    ]
    gateway = launch_gateway(SparkConf().setAll(shown))  # type: ignore[no-untyped-call]  # PySpark leaves it untyped
    conf = SparkConf().setAppName(app_name).setAll(list(settings.items()))
    return SparkContext(conf=conf, gateway=gateway)


def ui_url(reported: str | None) -> str | None:
    """Return the URL of Spark's UI with SPARK_LOCAL_IP, where it listens; Spark reports its name for executors."""
    if reported is None or "SPARK_LOCAL_IP" not in os.environ:
        return reported
    parts = urlsplit(reported)
    return f"{parts.scheme}://{os.environ['SPARK_LOCAL_IP']}:{parts.port}"
