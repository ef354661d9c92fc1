"""The Spark context of a node."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

HIDDEN_BY_SPARK = re.compile("secret|password|token|access[.]?key|credential", re.IGNORECASE)
"""Names of settings whose values Spark hides in its own displays (spark.redaction.regex)."""


def open_context(app_name: str, settings: Mapping[str, str]) -> SparkContext:
    """Create the Spark context of this node.

    It has no SQL session until the first SQL lane (`flows.sql.session`): other lanes move no rows through Spark, and
    without Catalyst the JVM needs half the CPU to start and two thirds of the memory
    (docs/adr/0002-lanes-are-rdd-tasks.md).

    Secret settings are set in the running JVM, not on its command line, which every user of the machine can read.
    """
    shown = [(name, value) for name, value in settings.items() if not HIDDEN_BY_SPARK.search(name)]
    gateway = launch_gateway(SparkConf().setAll(shown))  # type: ignore[no-untyped-call]  # PySpark leaves it untyped
    conf = SparkConf().setAppName(app_name).setAll(list(settings.items()))
    return SparkContext(conf=conf, gateway=gateway)


def ui_url(reported: str | None) -> str | None:
    """Return the URL of Spark's UI with SPARK_LOCAL_IP, where it listens; Spark reports its name for executors."""
    if reported is None or "SPARK_LOCAL_IP" not in os.environ:
        return reported
    parts = urlsplit(reported)
    return f"{parts.scheme}://{os.environ['SPARK_LOCAL_IP']}:{parts.port}"
