"""docs/explanation/guarantees.md links each statement to tests: all of them exist, and run as often as the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/guarantees.md").read_text("utf-8")

TEST = re.compile(r"`(tests/[a-z0-9_/]+\.py)::(\w+)`(?: ×(\d+))?")
COLLECTED = re.compile(r"^(tests/\S+?\.py)::(\w+)", re.MULTILINE)
FAULTS = "## Faults"


@cache
def runs() -> Counter[tuple[str, str]]:
    """Return how often each test of the files named on the page runs, with the long ones."""
    files = sorted({path for path, _, _ in TEST.findall(PAGE) if (ROOT / path).is_file()})
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "--long", "-p", "no:cacheprovider", *files]
    collected = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert collected.returncode == 0, collected.stdout + collected.stderr
    return Counter((path, test) for path, test in COLLECTED.findall(collected.stdout))


def rows() -> list[str]:
    """Return the rows of the tables of faults, without their headers."""
    faults = [part for part in re.split(r"^(?=## )", PAGE, flags=re.MULTILINE) if part.startswith(FAULTS)]
    lines = [line for part in faults for line in part.splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith("| fault |")]


def test_every_named_test_exists() -> None:
    named = TEST.findall(PAGE)
    assert len(named) > 40
    assert [f"{path}::{test}" for path, test, _ in named if not runs()[path, test]] == []
    assert PAGE.count("::") == len(named), "a test is named in a different form"


def test_numbers_of_runs_are_true() -> None:
    stated = {(path, test): int(number) for path, test, number in TEST.findall(PAGE) if number}
    wrong = [
        f"{path}::{test} runs {runs()[path, test]} times"
        for path, test in stated
        if runs()[path, test] != stated[path, test]
    ]
    assert wrong == []


def test_every_fault_has_a_test() -> None:
    assert len(rows()) > 20
    assert [row for row in rows() if not TEST.search(row) and "the same tests" not in row] == []
