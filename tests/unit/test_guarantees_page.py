"""docs/explanation/guarantees.md links its statements to tests: all of them exist, and run as often as it says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

from tests.faults.fault_page import COLUMNS, MEASURED, NOT_RUN, merge, results_block, table
from tests.faults.fault_scenarios import FAULTS
from tests.faults.mode import OURS, slug
from tests.faults.test_fault_table import OURS_ONLY, TOPOLOGIES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/guarantees.md").read_text("utf-8")

TEST = re.compile(r"`(tests/[a-z0-9_/]+\.py)::(\w+)`(?: \u00d7(\d+))?")
COLLECTED = re.compile(r"^(tests/\S+?\.py)::(\w+)", re.MULTILINE)
NONE = "\u2013"  # in a cell
OWN_ROW = re.compile(r'fault_row\("([^"]+)"\)')


@cache
def runs() -> Counter[tuple[str, str]]:
    """Return how often each test of the files named on the page runs, with the long ones."""
    files = sorted({path for path, _, _ in TEST.findall(PAGE) if (ROOT / path).is_file()})
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "--long", "-p", "no:cacheprovider", *files]
    collected = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert collected.returncode == 0, collected.stdout + collected.stderr
    return Counter((path, test) for path, test in COLLECTED.findall(collected.stdout))


def fault_rows() -> list[list[str]]:
    """Return the cells of the rows of the tables of faults, without their headers."""
    parts = [part for part in re.split(r"^(?=## )", PAGE, flags=re.MULTILINE) if part.startswith("## Faults")]
    lines = [line for part in parts for line in part.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines if not line.startswith("| fault |")]


def own_rows() -> set[str]:
    """Return the rows of tests with a stage of their own."""
    return {name for path in (ROOT / "tests/faults").glob("test_*.py") for name in OWN_ROW.findall(path.read_text())}


def rows_of_make_faults() -> set[str]:
    """Return the names that ``make faults ROW=`` accepts."""
    return {slug(fault.name) for fault in FAULTS} | {slug(name) for name in own_rows()}


def test_every_named_test_exists() -> None:
    named = TEST.findall(PAGE)
    assert len(named) > 40
    assert [f"{path}::{test}" for path, test, _ in named if not runs()[path, test]] == []
    assert PAGE.count("::") == len(named), "a test is named in a different form"


def test_numbers_of_runs_are_true() -> None:
    stated = {(path, test): int(number) for path, test, number in TEST.findall(PAGE) if number}
    found = {(path, test): runs()[path, test] for path, test in stated}
    assert {test: number for test, number in found.items() if number != stated[test]} == {}


def test_every_row_of_make_faults_is_on_the_page_once() -> None:
    named = [name for cells in fault_rows() for name in re.findall(r"`([a-z-]+)`", cells[1])]
    assert sorted(named) == sorted(rows_of_make_faults())


def test_every_result_names_its_rounds_commit_and_date() -> None:
    header, *rows = table(results_block(PAGE))
    assert header == ["fault", *COLUMNS]
    wrong = [
        (fault, cell) for fault, *cells in rows for cell in cells if cell != NOT_RUN and not MEASURED.fullmatch(cell)
    ]
    assert wrong == []
    assert merge(PAGE, {}) == PAGE, "make faults would rewrite rows that it did not run"


def test_every_row_has_a_result_in_both_columns_of_ours() -> None:
    """Unless the fault is not possible there."""
    stages = [replace(one, mode=mode) for mode in OURS for one in (*TOPOLOGIES, *OURS_ONLY)]
    possible = {
        (fault.name, one.mode.name)
        for fault in FAULTS
        for one in stages
        if one.only in ("", fault.name) and fault.possible(one)
    }
    wanted = possible | {(name, mode.name) for name in own_rows() for mode in OURS}
    _, *rows = table(results_block(PAGE))
    found = {
        (fault, mode) for fault, *cells in rows for mode, cell in zip(COLUMNS, cells, strict=True) if cell != NOT_RUN
    }
    assert sorted(wanted - found) == []


def test_every_fault_has_a_row_or_a_test() -> None:
    assert len(fault_rows()) > 20
    assert [cells[0] for cells in fault_rows() if cells[1] == NONE and not TEST.search(cells[-1])] == []
