"""The stages of a parallel run and their order, checked against the existing files."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.lab import durations
from tests.lab.commands import ROOT
from tests.lab.stages import HEAVY, LONGER, LONGEST_S, STAGES, StageScheduling, seconds_by_stage, stage

CONFTESTS = sorted((ROOT / "tests").rglob("conftest.py"))
PACKAGE_FIXTURE = re.compile(r'^@pytest\.fixture\(scope="package"\)\ndef (\w+)\(', re.MULTILINE)


@pytest.mark.parametrize("pattern", [pattern for names in STAGES for pattern in names])
def test_every_pattern_matches_a_file(pattern: str) -> None:
    assert [*ROOT.glob(pattern)]


def test_long_stages_have_a_reason() -> None:
    long = {name: seconds for name, seconds in seconds_by_stage().items() if seconds > LONGEST_S}
    assert {name: seconds for name, seconds in long.items() if name not in LONGER} == {}, (
        "split these files, or give the reason in LONGER of tests/lab/stages.py"
    )
    assert LONGER.keys() <= seconds_by_stage().keys(), "remove stages that do not exist"


@pytest.mark.parametrize("conftest", CONFTESTS, ids=lambda path: path.parent.name)
def test_files_that_share_a_package_fixture_are_one_stage(conftest: Path) -> None:
    names = PACKAGE_FIXTURE.findall(conftest.read_text())
    taken = re.compile(rf"[(, ](?:{'|'.join(names)}): \w")
    users = [file for file in conftest.parent.rglob("test_*.py") if names and taken.search(file.read_text())]
    assert len({stage(file.relative_to(ROOT).as_posix()) for file in users}) <= 1


def test_known_shared_fixtures_are_found() -> None:
    """Otherwise the previous test could have no cases."""
    found = {name for conftest in CONFTESTS for name in PACKAGE_FIXTURE.findall(conftest.read_text())}
    assert found >= {"shared", "scenario"}


class Worker:
    """A worker of xdist and the tests that it received."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.given: list[int] = []

    def send_runtest_some(self, tests: list[int]) -> None:
        self.given += tests

    def shutdown(self) -> None:
        self.shutting_down = True


def test_longest_stages_come_first_and_heavy_stages_have_light_neighbours() -> None:
    files = [*durations.stored(), "tests/integration/test_new.py"]
    tests = [f"{file}::test_{number}" for file in sorted(files) for number in range(3)]
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
    while any(len(worker.given) > done[worker.gateway.id] for worker in workers):
        for worker in workers:
            if len(worker.given) > done[worker.gateway.id]:
                scheduling.mark_test_complete(worker, worker.given[done[worker.gateway.id]])
                done[worker.gateway.id] += 1

    played = [list(dict.fromkeys(stage(tests[n].partition("::")[0]) for n in worker.given)) for worker in workers]
    assert sorted(heavy.given + light.given) == list(range(len(tests)))
    assert not set(played[0]) & set(played[1]), "every stage runs on one worker"
    by_length = sorted(seconds_by_stage(), key=lambda name: seconds_by_stage()[name], reverse=True)
    assert played[0][0] == next(name for name in by_length if name.startswith(HEAVY))
    assert played[1][0] == next(name for name in by_length if not name.startswith(HEAVY))
