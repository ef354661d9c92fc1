"""A pytest plugin, ``-p tests.long.plugin``: lists tests, runs those listed, and stores each result at once.

With ``--listed FILE`` only the tests in FILE run. With ``--until TIME`` no further test starts after that time.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.long.journal import FAILED, PASSED, RESULTS, SKIPPED, Journal, Result

NAME = "tests.long.plugin"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("long", "parts of the long tests")
    group.addoption("--list-to", metavar="FILE", help="write the ids of the collected tests, and whether each is long")
    group.addoption("--listed", metavar="FILE", help="run only the tests in FILE, a JSON list of ids")
    group.addoption("--commit", default="", help="store results for this commit")
    group.addoption("--journal", metavar="FILE", default=str(RESULTS), help="the file of results")
    group.addoption("--until", type=float, metavar="TIME", help="start no test after this time, in seconds since 1970")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("commit") and not hasattr(config, "workerinput"):
        journal = Journal(Path(config.getoption("journal")))
        config.pluginmanager.register(Recorder(journal, config.getoption("commit"), config.getoption("until")))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (file := config.getoption("listed")) is not None:
        listed = set(json.loads(Path(file).read_text("utf-8")))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in listed])
        items[:] = [item for item in items if item.nodeid in listed]


def pytest_collection_finish(session: pytest.Session) -> None:
    if (file := session.config.getoption("list_to")) is not None:
        found = [(item.nodeid, item.get_closest_marker("long") is not None) for item in session.items]
        Path(file).write_text(json.dumps(found), encoding="utf-8")


class Recorder:
    """Stores the result of each test after its teardown. Runs in the process that receives all reports."""

    def __init__(self, journal: Journal, commit: str, until: float | None) -> None:
        self._journal = journal
        self._commit = commit
        self._until = until
        self._reports: defaultdict[str, list[pytest.TestReport]] = defaultdict(list)
        self._session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports[report.nodeid].append(report)
        if report.when == "teardown":
            self._journal.add(self._result(self._reports.pop(report.nodeid)))

    def pytest_runtest_logfinish(self) -> None:
        if self._until is not None and time.time() > self._until and self._session is not None:
            self._session.shouldstop = reason = "the time of this part is over"
            if (distributed := self._session.config.pluginmanager.getplugin("dsession")) is not None:
                distributed.shouldstop = reason  # xdist has a loop of its own

    def _result(self, reports: list[pytest.TestReport]) -> Result:
        failed = next((one for one in reports if one.failed), None)
        skipped = any(one.skipped for one in reports)
        return Result(
            test=reports[0].nodeid,
            outcome=FAILED if failed else SKIPPED if skipped else PASSED,
            seconds=round(sum(one.duration for one in reports), 1),
            commit=self._commit,
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
            reason=_reason(failed) if failed else "",
            properties=tuple(reports[-1].user_properties),
        )


def _reason(report: pytest.TestReport) -> str:
    """Return what failed in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash is not None else report.longreprtext).strip().splitlines()
    return lines[0] if lines else ""
