"""One temporary directory per test run, for data and logs of what the lab starts."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
import time
from pathlib import Path

import psutil

PREFIX = "mm2-lab-"
DATA = ".data"  # subdirectories of this name are never kept
KEPT = 24 * 3600.0  # seconds that logs of a failed run are kept
LOG_SUFFIXES = {".log", ".properties"}  # kept from a failed run

_numbers = itertools.count(1)
_run: list[Path] = []
_keep_logs: list[bool] = []


def directory(name: str) -> Path:
    """A new directory ``<run>/<number>-<name>``."""
    path = run_directory() / f"{next(_numbers):02d}-{name}"
    path.mkdir()
    return path


def run_directory() -> Path:
    """The directory of this test run. Removed at exit; after `keep_logs` only its data is removed."""
    if not _run:
        remove_orphans()
        _run.append(Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")))
        atexit.register(_clean, _run[0])
    return _run[0]


def keep_logs() -> None:
    """Keep logs and settings at exit, because a test failed."""
    _keep_logs.append(True)


def _clean(run: Path) -> None:
    if not _keep_logs:
        shutil.rmtree(run, ignore_errors=True)
        return
    for path in sorted(run.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.suffix not in LOG_SUFFIXES or DATA in path.parts:
            path.unlink(missing_ok=True)


def remove_orphans() -> None:
    """Remove directories of killed runs and old logs; a directory's name contains the process that created it."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = path.name.removeprefix(PREFIX).partition("-")[0]
        if not owner.isdigit() or psutil.pid_exists(int(owner)):
            continue
        killed = any(path.glob(f"*/{DATA}"))  # a failed run removes its data and keeps its logs on purpose
        if killed or time.time() - path.stat().st_mtime > KEPT:
            shutil.rmtree(path, ignore_errors=True)
