"""``python -m tests.lab.confirm LOG``: decides about a test that failed beside others (`.ci/confirm`).

One failed test is run again, three times and alone. If it passes each time it is unstable: it is reported, with a row
for tests/unstable.md, and does not stop the merge. Everything else does: two failed tests, a run that ended for another
reason, and a wrong copy (lost, duplicated, reordered, changed, foreign or stale records), which is never repeated.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.lint import unstable

RECORD = "mm2/failed"  # in pytest's cache: what failed in the newest run, and how that ended
RUNS = 3
WRONG_COPY = re.compile(r"\d+ (lost|duplicated|reordered|changed|foreign|stale): ")  # tests/lab/verify.py: a Verdict
CAUSE_CHARACTERS = 160  # of a message, in a row


class FailureRecorder:
    """A pytest plugin of the process that collects reports (with pytest-xdist: not of its workers)."""

    def __init__(self, config: pytest.Config) -> None:
        self._cache: pytest.Cache | None = getattr(config, "cache", None)  # -p no:cacheprovider
        self._failed: dict[str, str] = {}
        self._passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.setdefault(report.nodeid, _message(report))
        elif report.when == "call" and report.passed:
            self._passed += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed.setdefault(report.nodeid, _message(report))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._cache is not None:
            record = {"failed": self._failed, "passed": self._passed, "exit": int(exitstatus)}
            self._cache.set(RECORD, record)


def _message(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the first line of the failure."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash is not None else str(report.longrepr)).strip().splitlines()
    return lines[0] if lines else "no message"


def recorded() -> dict[str, Any]:
    """Return the record of the newest run in this directory; one without tests if there is none."""
    file = Path(".pytest_cache/v") / RECORD
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"failed": {}, "passed": 0, "exit": 0}
    return found


def confirm(log: Path) -> str:
    """Return why the run whose output is in ``log`` has failed, or nothing if its only failed test is unstable."""
    first = recorded()
    if WRONG_COPY.search(log.read_text(errors="replace")):
        return "a copy was wrong; nothing is run again"
    if first["exit"] != pytest.ExitCode.TESTS_FAILED:
        return f"the run did not end with failed tests, but with pytest's exit code {first['exit']}"
    if len(first["failed"]) != 1:
        return f"{len(first['failed'])} tests failed; only a single one is run again"
    ((test, message),) = first["failed"].items()
    for run in range(1, RUNS + 1):
        print(f"confirm: run {run} of {RUNS}, alone: {test}", flush=True)
        ended = subprocess.run([sys.executable, "-m", "pytest", test], check=False)
        again = recorded()
        if ended.returncode or again["failed"] or again["passed"] != 1:
            return f"it failed again: {test}"
    print(f"UNSTABLE: {test}: failed beside other tests, and passed {RUNS} times alone")
    if any(row.test == test for row in unstable.rows(unstable.PAGE.read_text())):
        print(f"confirm: it is listed in {unstable.PAGE}; repair it")
    else:
        print(f"confirm: repair it, or add this row to {unstable.PAGE}:\n{_row(test, message)}")
    return ""


def _row(test: str, message: str) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    today = datetime.now(UTC).date()
    cause = f"not known: {message[:CAUSE_CHARACTERS]}"
    return unstable.row(test, today, commit.stdout.strip() or "unknown", cause)


def main() -> int:
    """Return 0 if the build may continue."""
    problem = confirm(Path(sys.argv[1]))
    if problem:
        print(f"confirm: {problem}")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
