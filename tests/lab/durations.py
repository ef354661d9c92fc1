"""What each file of the slow tiers takes: ``tests/durations.json``, by which `stages` orders a run.

Every run measures the files that it runs completely, and leaves that in pytest's cache. `make durations` (``python -m
tests.lab.durations``) takes it over, and runs the files that still have no value; with FILES, it measures these.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DURATIONS = ROOT / "tests/durations.json"  # whole seconds by file, at least 1
SLOW = ("tests/integration", "tests/parity", "tests/faults")
MEASURED = "mm2/durations"  # in pytest's cache
FIX = "measure new files and drop old ones: make durations"


def stored() -> dict[str, int]:
    """Return the seconds of each file as they are committed."""
    found: dict[str, int] = json.loads(DURATIONS.read_text())
    return found


def slow_files(root: Path = ROOT) -> set[str]:
    """Return all test files of the slow tiers."""
    return {file.relative_to(root).as_posix() for tier in SLOW for file in (root / tier).rglob("test_*.py")}


class DurationRecorder:
    """A pytest plugin of the process that collects reports. A run that selects tests within files measures nothing."""

    def __init__(self, config: pytest.Config) -> None:
        self._cache: pytest.Cache | None = getattr(config, "cache", None)
        option = config.option
        selective = option.keyword or option.markexpr or option.long or option.collectonly or option.maxfail
        selective = selective or config.getoption("lf", False)  # an option of pytest's cache, like its place below
        self._arguments = [] if selective or any("::" in name for name in config.args) else list(config.args)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._cache is None or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        ran = measured(slow_files(), self._arguments, self._seconds)
        if ran:
            self._cache.set(MEASURED, {**self._cache.get(MEASURED, {}), **ran})


def measured(files: Iterable[str], arguments: Iterable[str], seconds: Mapping[str, float]) -> dict[str, int]:
    """Return the whole seconds of each of ``files`` that one of pytest's ``arguments`` names, itself or its directory.

    A file whose tests are all left out (long ones) takes 1."""
    chosen = [argument.rstrip("/") for argument in arguments]
    return {
        file: max(1, round(seconds.get(file, 0.0)))
        for file in files
        if any(file == one or file.startswith(f"{one}/") for one in chosen)
    }


def merged(old: Mapping[str, int], new: Mapping[str, int], files: Iterable[str]) -> dict[str, int]:
    """Return the new content of `DURATIONS`: nothing about files that do not exist."""
    both = {**old, **new}
    return {file: both[file] for file in sorted(files) if file in both}


def _take_over() -> set[str]:
    """Rewrite `DURATIONS` from the cache; return the files without a value."""
    cache = ROOT / ".pytest_cache/v" / MEASURED
    files = slow_files()
    new = merged(stored(), json.loads(cache.read_text()) if cache.exists() else {}, files)
    DURATIONS.write_text(json.dumps(new, indent=1) + "\n")
    return files - new.keys()


def main() -> int:
    """Return 0 if every file has a value, and pytest's exit code if tests failed while they were measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", default="3")
    parser.add_argument("files", nargs="*", help="files or directories to measure; without, those that have no value")
    arguments = parser.parse_args()
    unknown = _take_over()
    wanted = arguments.files or sorted(unknown)
    ended = 0
    if wanted:
        command = [sys.executable, "-m", "pytest", "-n", arguments.workers, "--dist", "loadfile", *wanted]
        ended = subprocess.run(command, cwd=ROOT, check=False).returncode
        unknown = _take_over()
    for file in sorted(unknown):
        print(f"durations: no value for {file}")
    return ended or bool(unknown)


if __name__ == "__main__":
    sys.exit(main())
