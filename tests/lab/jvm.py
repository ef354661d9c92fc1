"""The Java that everything in the lab runs on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# For programs that live seconds to minutes: no time spent on the second compiler, no collector threads, no counters for
# jstat, which are sampled 20 times a second.
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")


def java() -> str:
    """The java command: from JAVA_HOME, otherwise from PATH. Raises RuntimeError if there is none."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise RuntimeError("no Java: install a JDK 17 or newer (make setup does), or set JAVA_HOME")
    return found


def javac() -> str:
    """The compiler next to `java`, otherwise from PATH. Raises RuntimeError if there is none."""
    beside = Path(java()).with_name("javac")
    found = str(beside) if beside.is_file() else shutil.which("javac")
    if found is None:
        raise RuntimeError("no javac: install a JDK 17 or newer, not only a JRE (make setup does), or set JAVA_HOME")
    return found


def log_options(level: str) -> tuple[str, ...]:
    """Settings of slf4j-simple, which is on Kafka's class path here: everything to standard error, with the time."""
    return (
        f"-Dorg.slf4j.simpleLogger.defaultLogLevel={level}",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        "-Dorg.slf4j.simpleLogger.showShortLogName=true",
    )
