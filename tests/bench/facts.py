"""When, where and with what a benchmark ran: everything a reader needs, nothing that names the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version

import psutil

from tests.lab import jvm
from tests.lab.commands import ROOT
from tests.lab.jars import KAFKA_4


def gather(command: str) -> tuple[tuple[str, str], ...]:
    """Pairs of what and which."""
    return (
        ("date", datetime.now(UTC).strftime("%Y-%m-%d")),
        ("commit", _commit()),
        ("command", command),
        ("Kafka and Java MM2", KAFKA_4),
        ("Java", _java_version()),
        ("Python", platform.python_version()),
        ("PySpark", version("pyspark")),
        ("aiokafka", version("aiokafka")),
        ("machine", f"{os.cpu_count()} cores, {_memory_gib()} GiB memory, {platform.system()} {platform.machine()}"),
    )


def _commit() -> str:
    commit = _said("git", "rev-parse", "--short=10", "HEAD").strip() or "unknown"
    changed = _said("git", "status", "--porcelain", "--untracked-files=no", "--", "mm2", "flows", "tests").strip()
    return f"{commit} with changes" if changed else commit


def _java_version() -> str:
    """The first line, such as ``openjdk 17.0.15 2025-04-15``."""
    lines = _said(jvm.java(), "-version").splitlines()
    return lines[0].replace('"', "").replace(" version", "") if lines else "unknown"


def _memory_gib() -> int:
    return round(psutil.virtual_memory().total / 2**30)


def _said(*command: str) -> str:
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, timeout=30, check=False
    )
    return ended.stdout if ended.returncode == 0 else ""
