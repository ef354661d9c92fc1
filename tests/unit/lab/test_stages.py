"""The table of what goes together in a parallel run, against the files that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lab.commands import ROOT
from tests.lab.stages import STAGES, stage

CONFTESTS = sorted((ROOT / "tests").rglob("conftest.py"))
PACKAGE_FIXTURE = re.compile(r'^@pytest\.fixture\(scope="package"\)\ndef (\w+)\(', re.MULTILINE)


@pytest.mark.parametrize("pattern", [pattern for row in STAGES for pattern in row])
def test_every_pattern_names_a_file(pattern: str) -> None:
    assert [*ROOT.glob(pattern)]


@pytest.mark.parametrize("conftest", CONFTESTS, ids=lambda path: path.parent.name)
def test_files_that_share_what_a_directory_makes_are_one_stage(conftest: Path) -> None:
    """A file that takes such a fixture by its name is in the row of the others."""
    names = PACKAGE_FIXTURE.findall(conftest.read_text())
    taken = re.compile(rf"[(, ](?:{'|'.join(names)}): \w")
    users = [file for file in conftest.parent.rglob("test_*.py") if names and taken.search(file.read_text())]
    rows = {stage(file.relative_to(ROOT).as_posix()) for file in users}
    assert None not in rows
    assert len(rows) <= 1, f"{names}: rows {rows}"


def test_the_shared_node_and_the_story_are_among_them() -> None:
    """So that the test before this one is not one of nothing."""
    found = {name for conftest in CONFTESTS for name in PACKAGE_FIXTURE.findall(conftest.read_text())}
    assert found >= {"shared", "story"}
