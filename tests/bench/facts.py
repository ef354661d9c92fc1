"""Date, versions and hardware of a benchmark run, without the name of the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from tests.lab import jvm
from tests.lab.commands import ROOT
from tests.lab.jars import KAFKA_4


def gather(command: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of name and value."""
    return (
        ("date", datetime.now(UTC).strftime("%Y-%m-%d")),
        ("commit", commit_of(ROOT)),
        ("command", command),
        ("Kafka and Java MM2", KAFKA_4),
        ("Java", _java_version()),
        ("Python", platform.python_version()),
        ("PySpark", version("pyspark")),
        ("aiokafka", version("aiokafka")),
        ("machine", f"{os.cpu_count()} cores, {_memory_gib()} GiB memory, {platform.system()} {platform.machine()}"),
    )


def commit_of(tree: Path) -> str:
    """Return the commit of a checkout, and whether its files differ from it."""
    git = ("git", "-C", str(tree))
    commit = _output_of(*git, "rev-parse", "--short=10", "HEAD").strip() or "unknown"
    changed = _output_of(*git, "status", "--porcelain", "--untracked-files=no", "--", "mm2", "flows", "tests").strip()
    return f"{commit} with changes" if changed else commit


def _java_version() -> str:
    """Return the first line of the version, such as ``openjdk 17.0.15 2025-04-15``."""
    lines = _output_of(jvm.java(), "-version").splitlines()
    return lines[0].replace('"', "").replace(" version", "") if lines else "unknown"


def _memory_gib() -> int:
    return round(psutil.virtual_memory().total / 2**30)


def _output_of(*command: str) -> str:
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, timeout=30, check=False
    )
    return ended.stdout if ended.returncode == 0 else ""
