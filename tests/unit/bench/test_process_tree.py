"""Measurement of real processes that burn a known amount of CPU time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import IO

import pytest

from tests.bench.process_tree import ProcessTree
from tests.lab.waiting import wait_until
from tests.unit.bench import family
from tests.unit.bench.family import BURNED

TICKS = 0.05  # CPU-seconds: the kernel reports hundredths for each process
OVERHEAD = 0.25  # CPU-seconds to start a few interpreters; less than one burner counted twice


class Family:
    """The program in family.py and its measurement from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin: IO[str] = process.stdin
        self._stdout: IO[str] = process.stdout
        self.tree = ProcessTree(process.pid)

    def do(self, command: str) -> None:
        self._stdin.write(f"{command}\n")
        self._stdin.flush()
        assert self._stdout.readline() == "done\n"


@pytest.fixture
def root() -> Iterator[Family]:
    command = [sys.executable, "-IS", family.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        one = Family(process)
        yield one
        for member in one.tree.alive():
            member.kill()


def test_children_that_were_never_observed_count(root: Family) -> None:
    for command in ("burn", "child", "child"):
        root.do(command)
    assert 3 * BURNED - TICKS <= root.tree.cpu_seconds() <= 3 * BURNED + OVERHEAD


def test_orphan_is_still_measured(root: Family) -> None:
    root.do("grandchild")
    wait_until(lambda: len(root.tree.alive()) == 3, 10, "three generations are observed")
    root.do("orphan it")
    wait_until(lambda: root.tree.cpu_seconds() >= BURNED - TICKS, 30, "the orphan has burned its share")
    orphans = [one for one in root.tree.alive() if "sleeper" in one.cmdline()]
    assert len(orphans) == 1
    orphans[0].kill()
    wait_until(lambda: len(root.tree.alive()) == 1, 10, "the orphan has ended")
    assert BURNED - TICKS <= root.tree.cpu_seconds() <= BURNED + OVERHEAD
