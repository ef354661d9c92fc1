"""``make demo`` as a newcomer runs it: it proves its copies, and leaves nothing behind when interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.lab import scratch
from tests.lab.commands import ROOT
from tests.lab.processes import LabProcess
from tests.lab.waiting import wait_until

COMMAND = (sys.executable, "-m", "tests.demo")


def test_a_short_demo_replicates_and_proves_it() -> None:
    demo = start("5")

    assert demo.wait(120, "the demo ends by itself") == 0
    assert "every record arrived as it was written" in demo.output()


def test_an_interrupted_demo_leaves_nothing_behind() -> None:
    demo = start("")
    demo.wait_until_output("B on 127.0.0.1", 60, "the demo's brokers run")
    children = psutil.Process(demo.pid).children(recursive=True)

    demo.signal(signal.SIGINT)

    assert demo.wait(60, "the demo ends after Ctrl-C") in (0, 130)
    assert children
    assert not [child for child in children if child.is_running()]
    assert not list(Path(scratch.run_directory().parent).glob(f"{scratch.PREFIX}{demo.pid}-*"))


@pytest.mark.parametrize("wrong", ["soon", "0", "-1", "inf"])
def test_a_wrong_number_of_seconds_is_a_usage_error(wrong: str) -> None:
    ended = subprocess.run(
        COMMAND, env={**os.environ, "DEMO_SECONDS": wrong}, capture_output=True, text=True, cwd=ROOT, check=False
    )

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"DEMO_SECONDS={wrong}: ")


def test_a_killed_node_is_replaced_and_comes_back() -> None:
    demo = start("60", nodes="2")
    told = re.compile(r"Kill demo-node-1 +kill -9 (\d+)")
    wait_until(lambda: told.search(demo.output()), 150, "both nodes run")
    found = told.search(demo.output())
    assert found is not None

    os.kill(int(found.group(1)), signal.SIGKILL)

    assert demo.wait(240, "the demo ends by itself") == 0
    assert "demo-node-1 is gone" in demo.output()
    assert "demo-node-1 is started again" in demo.output()
    assert "every record arrived as it was written, some of them twice: a node was killed" in demo.output()


@pytest.mark.parametrize("wrong", ["none", "0", "-1", "6"])
def test_a_wrong_number_of_nodes_is_a_usage_error(wrong: str) -> None:
    ended = subprocess.run(
        COMMAND, env={**os.environ, "NODES": wrong}, capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"NODES={wrong}: ")


def start(seconds: str, *, nodes: str = "") -> LabProcess:
    environment = {**os.environ, "DEMO_SECONDS": seconds, "NODES": nodes}
    return LabProcess("demo", COMMAND, scratch.directory("demo") / "demo.log", cwd=ROOT, env=environment)
