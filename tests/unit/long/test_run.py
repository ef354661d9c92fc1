"""Runs of parts: what is left, and the summary; the plugin with a real pytest."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.commands import ROOT
from tests.long.__main__ import main
from tests.long.journal import FAILED, PASSED, SKIPPED, Journal, Result
from tests.long.parts import PARTS, selected
from tests.long.run import MOST_SHOWN, Plan, complete, plan, summary

README = "tests/integration/test_readme.py::test_readme_literally"
COPY = "tests/integration/test_flow_copy.py::test_copy"
PROPERTY = "tests/property/test_leases.py::test_leases"
PATIENCE = 120.0  # seconds for a pytest with five tests on a busy machine


def result(test: str, outcome: str, reason: str = "") -> Result:
    return Result(test=test, outcome=outcome, seconds=60.0, commit="0123456789", date="2024-06-01", reason=reason)


def test_long_tests_of_selected_parts_are_planned() -> None:
    collected = [(COPY, False), (README, True), (PROPERTY, False)]
    assert plan(PARTS, collected, short_ones=False).tests == {"property": [PROPERTY], "readme": [README]}
    assert plan(selected(["integration"]), collected, short_ones=True).tests == {"integration": [COPY]}


def test_what_has_not_passed_is_left() -> None:
    tests = [f"tests/faults/test_a.py::test_{number}" for number in range(4)]
    results = {test: result(test, how) for test, how in zip(tests, (PASSED, FAILED, SKIPPED), strict=False)}
    assert Plan(tests={"faults": tests}).left("faults", results) == tests[1:]


def test_a_run_is_complete_when_all_ran_and_none_failed() -> None:
    both = Plan(tests={"readme": [README], "property": [PROPERTY]})
    results = {README: result(README, PASSED), PROPERTY: result(PROPERTY, SKIPPED)}
    assert complete(both, results)
    assert not complete(both, {README: results[README]})
    assert not complete(both, results | {PROPERTY: result(PROPERTY, FAILED)})


def test_summary_counts_and_names_what_failed_and_has_not_run() -> None:
    many = [f"tests/faults/test_a.py::test_{number}" for number in range(MOST_SHOWN + 3)]
    wanted = Plan(tests={"readme": [README], "faults": many})
    results = {README: result(README, PASSED), many[0]: result(many[0], FAILED, "AssertionError: 1 lost")}
    lines = list(summary(wanted, results, "0123456789"))
    assert [line.split() for line in lines[:4]] == [
        ["part", "passed", "failed", "skipped", "not", "run", "minutes"],
        ["readme", "1", "0", "0", "0", "1.0"],
        ["faults", "0", "1", "0", f"{MOST_SHOWN + 2}", "1.0"],
        ["total", "1", "1", "0", f"{MOST_SHOWN + 2}", "2.0"],
    ]
    assert f"  {many[0]}: AssertionError: 1 lost" in lines
    assert lines[-2] == "  and 2 more"
    assert "0123456789" in lines[-1]


def test_an_unknown_part_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test-long", "--part", "nonsense"]) == 2
    assert "parts: property readme " in capsys.readouterr().err


TESTS = """
import pytest

@pytest.fixture
def broken():
    yield
    raise RuntimeError("not stopped")

def test_passed(record_property):
    record_property("fault round", {"lost": 0})

def test_failed():
    assert 1 == 2, "one\\ntwo"

def test_broken(broken): pass

def test_skipped():
    pytest.skip("no root")

@pytest.mark.long
def test_not_listed(): pass
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\n")
    path = tmp_path / "test_some.py"
    path.write_text(TESTS)
    return path


def pytest_with_plugin(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.long.plugin", "--rootdir", str(file.parent)]
    command += ["-c", str(file.with_name("pytest.ini")), *options, str(file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_results_of_listed_tests_are_stored(file: Path, tmp_path: Path, workers: str) -> None:
    collected, listed, journal = (tmp_path / name for name in ("collected", "listed", "journal"))
    assert pytest_with_plugin(file, "--collect-only", "--list-to", str(collected)).returncode == 0
    found = dict(json.loads(collected.read_text()))
    assert [found[f"test_some.py::test_{name}"] for name in ("passed", "not_listed")] == [False, True]
    listed.write_text(json.dumps([test for test, is_long in found.items() if not is_long]))
    to = ("--listed", str(listed), "--commit", "0123456789", "--journal", str(journal), "-n", workers)
    ended = pytest_with_plugin(file, *to)
    results = {test.partition("::")[2]: one for test, one in Journal(journal).latest("0123456789").items()}
    assert {test: one.outcome for test, one in results.items()} == {
        "test_passed": PASSED,
        "test_failed": FAILED,
        "test_broken": FAILED,
        "test_skipped": SKIPPED,
    }, ended.stdout
    assert [list(one) for one in results["test_passed"].properties] == [["fault round", {"lost": 0}]]
    assert (results["test_failed"].reason, results["test_broken"].reason) == (
        "AssertionError: one",
        "RuntimeError: not stopped",
    )


@pytest.mark.parametrize("workers", ["0", "1"])
def test_no_test_starts_after_the_limit(file: Path, tmp_path: Path, workers: str) -> None:
    """A worker of xdist has up to two tests in advance."""
    # half a second: the controller must receive a result before the worker starts another test
    file.write_text("import time, pytest\n@pytest.mark.parametrize('n', range(6))\ndef test(n): time.sleep(0.5)\n")
    journal = tmp_path / "journal"
    to = ("--commit", "0123456789", "--journal", str(journal), "--until", str(time.time() - 1), "-n", workers)
    ended = pytest_with_plugin(file, *to)
    assert 1 <= len(Journal(journal).latest("0123456789")) <= 3, ended.stdout
    assert "the time of this part is over" in ended.stdout
