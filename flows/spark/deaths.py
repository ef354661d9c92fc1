"""Explains why the JVM that evaluates a query has ended."""

from __future__ import annotations

import re
import signal

DRIVER_MEMORY = "spark.driver.memory"
EXECUTOR_MEMORY = "spark.executor.memory"

_OUT_OF_MEMORY = (3, 52)
"""Exit codes of a JVM with -XX:+ExitOnOutOfMemoryError, and of an executor (SparkExitCode.OOM)."""

_BY_SIGNAL = 128
"""A shell returns this plus the number of the signal that ended a process."""

_EXIT_CODE = re.compile(r"exit(?:ed with)? (?:code|status):? (\d+)", re.IGNORECASE)
"""In what Spark says about a lost executor, by standalone, YARN or Kubernetes masters."""


def jvm_death(code: int, memory: str) -> str:
    """Return why a JVM ended with this exit code, as of `subprocess.Popen`.

    ``memory`` is its limit, such as ``spark.driver.memory = 1g``.
    """
    if code in _OUT_OF_MEMORY:
        return f"Java ran out of memory ({memory})"
    number = -code if code < 0 else code - _BY_SIGNAL
    if number in set(signal.Signals):
        killed = f"Java was ended by {signal.Signals(number).name}"
        return f"{killed}, possibly as the machine ran out of memory ({memory})" if number == signal.SIGKILL else killed
    return f"Java exited with code {code}"


def lane_death(error: str, memory: str) -> str | None:
    """Return what happened in the JVM of a lane, or to it, by Spark's error about the lane; None: it does not say."""
    if "java.lang.OutOfMemoryError" in error:
        return f"Java ran out of memory ({memory})"
    if "java.lang.StackOverflowError" in error:
        return "Java's stack overflowed (java.lang.StackOverflowError)"
    exited = _EXIT_CODE.search(error)
    return None if exited is None else jvm_death(int(exited[1]), memory)
