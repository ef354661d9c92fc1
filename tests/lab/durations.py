"""``pytest --store-durations``: writes the seconds of each test file to `stages.DURATIONS`."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from tests.lab.stages import DURATIONS

LEAST_S = 2.0  # files below it do not matter to the order of a run


class DurationRecorder:
    """A pytest plugin of the process that collects reports. Files that did not run keep their stored value."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        stored = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
        root = DURATIONS.parents[1]
        merged = {**stored, **{file: round(seconds) for file, seconds in self._seconds.items()}}
        kept = {file: seconds for file, seconds in merged.items() if seconds >= LEAST_S and (root / file).exists()}
        DURATIONS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
