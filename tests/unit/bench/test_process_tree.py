"""Real processes that burn a known amount of CPU time, and what is seen of them from outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import IO

import pytest

from tests.bench.process_tree import ProcessTree, busy_seconds
from tests.lab.waiting import wait_until
from tests.unit.bench import family
from tests.unit.bench.family import BURNED

TICKS = 0.05  # CPU-seconds: the kernel tells hundredths, of each process
OVERHEAD = 0.25  # CPU-seconds to start a few interpreters; less than one burner counted twice


class Family:
    """The program in family.py, and a look at it from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders: IO[str] = process.stdin
        self._answers: IO[str] = process.stdout
        self.tree = ProcessTree(process.pid)

    def do(self, word: str) -> None:
        self._orders.write(f"{word}\n")
        self._orders.flush()
        assert self._answers.readline() == "done\n"


@pytest.fixture
def root() -> Iterator[Family]:
    command = [sys.executable, "-IS", family.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        one = Family(process)
        yield one
        for member in one.tree.alive():
            member.kill()


def test_children_that_were_never_seen_count(root: Family) -> None:
    for word in ("burn", "child", "child"):
        root.do(word)
    assert 3 * BURNED - TICKS <= root.tree.cpu_seconds() <= 3 * BURNED + OVERHEAD


def test_looking_often_changes_nothing(root: Family) -> None:
    for word in ("burn", "child", "child"):
        root.do(word)
        root.tree.cpu_seconds()
    assert 3 * BURNED - TICKS <= root.tree.cpu_seconds() <= 3 * BURNED + OVERHEAD


def test_an_orphan_stays_in_view(root: Family) -> None:
    root.do("grandchild")
    wait_until(lambda: len(root.tree.alive()) == 3, 10, "three generations are seen")
    root.do("orphan it")
    wait_until(lambda: root.tree.cpu_seconds() >= BURNED - TICKS, 30, "the orphan has burned its share")
    orphans = [one for one in root.tree.alive() if "stayer" in one.cmdline()]
    assert len(orphans) == 1
    orphans[0].kill()
    wait_until(lambda: len(root.tree.alive()) == 1, 10, "the orphan is gone")
    assert BURNED - TICKS <= root.tree.cpu_seconds() <= BURNED + OVERHEAD


def test_memory_is_that_of_all_and_its_peak_is_kept(root: Family) -> None:
    alone = root.tree.memory_bytes()
    root.do("grandchild")
    wait_until(lambda: len(root.tree.alive()) == 3, 10, "three generations are seen")
    wait_until(lambda: root.tree.memory_bytes() > 1.5 * alone, 10, "two more interpreters take more memory")
    peak = root.tree.peak_memory_bytes
    root.do("orphan it")
    assert root.tree.memory_bytes() <= peak == root.tree.peak_memory_bytes


def test_the_machines_busy_time_grows_with_ours(root: Family) -> None:
    before = busy_seconds()
    root.do("burn")
    assert busy_seconds() - before >= BURNED - 2 * TICKS
