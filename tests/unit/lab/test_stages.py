"""The table of what goes together in a parallel run, against the files that there are, and how it is handed out."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.lab.commands import ROOT
from tests.lab.stages import STAGES, StageScheduling, stage

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


class Worker:
    """One of xdist's: what it was told to run."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.told: list[int] = []

    def send_runtest_some(self, tests: list[int]) -> None:
        self.told += tests

    def shutdown(self) -> None:
        self.shutting_down = True


def test_a_heavy_stage_has_a_light_neighbour_and_stays_whole() -> None:
    files = [next(ROOT.glob(pattern)).relative_to(ROOT).as_posix() for row in STAGES for pattern in row]
    tests = [f"{file}::test_{number}" for file in ("tests/a.py", *files, "tests/b.py") for number in range(3)]
    config = SimpleNamespace(getvalue=lambda _: ["popen", "popen"], option=SimpleNamespace(loadscopereorder=True))
    heavy, light = Worker("gw0"), Worker("gw1")
    workers = [cast("Any", heavy), cast("Any", light)]
    scheduling = StageScheduling(cast("Any", config))
    for worker in workers:
        scheduling.add_node(worker)
    for worker in workers:
        scheduling.add_node_collection(worker, tests)
    scheduling.schedule()
    done = {worker.gateway.id: 0 for worker in workers}
    while any(len(worker.told) > done[worker.gateway.id] for worker in workers):
        for worker in workers:
            if len(worker.told) > done[worker.gateway.id]:
                scheduling.mark_test_complete(worker, worker.told[done[worker.gateway.id]])
                done[worker.gateway.id] += 1

    played = [[tests[number].partition("::")[0] for number in worker.told] for worker in workers]
    assert sorted(heavy.told + light.told) == list(range(len(tests)))
    assert stage(played[0][0]) == 0
    assert list(dict.fromkeys(played[1]))[:2] == ["tests/a.py", "tests/b.py"]
    rows = [{stage(file) for file in one} - {None} for one in played]
    assert not rows[0] & rows[1], "no stage is played in two places"
    assert max(cast("set[int]", rows[0])) < min(cast("set[int]", rows[1]))
