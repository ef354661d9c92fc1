"""``make demo``: verifies its copies, and leaves no processes or files after an interrupt."""

from __future__ import annotations

import json
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


def _long(*wrong: str) -> list[object]:
    """Parameters for `make test-long`: each starts the demo's process, and is rejected like the others."""
    return [pytest.param(one, marks=pytest.mark.long) for one in wrong]


def test_short_demo_replicates_and_verifies() -> None:
    """Its brokers are new, so its node also shows what a healthy first start logs."""
    demo = start("5")
    place = Path(scratch.run_directory().parent)
    logs = f"{scratch.PREFIX}{demo.pid}-*/*/node.log"
    wait_until(lambda: list(place.glob(logs)), 60, "the demo's node has a log")
    (file,) = place.glob(logs)

    with file.open(encoding="utf-8") as log:  # the demo deletes it
        assert demo.wait(120, "the demo exits on its own") == 0
        lines = log.read().splitlines()
    assert "every record arrived as it was written" in demo.output()
    first, *others = lines
    assert re.search(r" INFO    mm2\.node: mm2 \S+, node \S+, /.*/mm2\.properties$", first)
    assert [line for line in others if " has started:" in line]
    assert [line for line in others if re.match(r"\S+ (WARNING|ERROR) ", line)] == []


@pytest.mark.long  # the demo itself: the test above; queries on nodes: tests/integration/queries
def test_demo_with_a_query() -> None:
    demo = start("30", sql="1")  # a line every 5 s; those with samples need answers of both brokers within 2 s

    assert demo.wait(180, "the demo exits on its own") == 0
    output = demo.output()
    counts = re.findall(r"query mask: in ([\d,]+)  out ([\d,]+)  dropped ([\d,]+)", output)
    rows, out, dropped = (int(one.replace(",", "")) for one in counts[-1])
    assert rows == out + dropped
    assert dropped > 0
    before, after = map(json.loads, re.findall(r"on [AB]  (\{.*)", output)[:2])
    assert after == {**before, "card": "*" * 12 + before["card"][-4:]}
    assert re.search(r"payments .* \d+ test orders dropped, all other card numbers masked", output)
    assert "every record arrived as it was written, or as the query changes it" in output


def test_interrupted_demo_cleans_up() -> None:
    demo = start("")
    demo.wait_until_output("B on 127.0.0.1", 60, "the demo's brokers run")
    children = psutil.Process(demo.pid).children(recursive=True)

    demo.signal(signal.SIGINT)

    assert demo.wait(60, "the demo exits after Ctrl-C") in (0, 130)
    assert children
    wait_until(lambda: not any(map(runs, children)), 10, "the demo's processes end")
    assert not list(Path(scratch.run_directory().parent).glob(f"{scratch.PREFIX}{demo.pid}-*"))


@pytest.mark.parametrize("wrong", ["soon", *_long("0", "-1", "inf")])
def test_invalid_number_of_seconds_is_a_usage_error(wrong: str) -> None:
    ended = subprocess.run(
        COMMAND, env={**os.environ, "DEMO_SECONDS": wrong}, capture_output=True, text=True, cwd=ROOT, check=False
    )

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"DEMO_SECONDS={wrong}: ")


@pytest.mark.long
def test_killed_node_is_replaced_and_restarted() -> None:
    demo = start("60", nodes="2")
    copying = re.compile(r"(demo-node-\d) \(kill -9 (\d+)\)[^|]*: source task")
    wait_until(lambda: copying.search(demo.output()), 180, "a node copies")
    found = copying.search(demo.output())
    assert found is not None
    name, pid = found.groups()

    os.kill(int(pid), signal.SIGKILL)

    assert demo.wait(240, "the demo exits on its own") == 0
    assert f"{name} restarted" in demo.output()
    assert "every record arrived as it was written, some of them twice because a node was killed" in demo.output()
    after = demo.output().partition(f"{name} ended")[2]
    assert re.search(r"lag (unknown|at least [\d,]+) ", after), "partitions wait for a new owner"
    replicated = [int(one.replace(",", "")) for one in re.findall(r"replicated ([\d,]+)", demo.output())]
    assert replicated == sorted(replicated), "no count of records decreases"
    assert " -" not in "".join(re.findall(r"lag .* MB/s", demo.output())), "no rate is negative"


@pytest.mark.parametrize("wrong", ["6", *_long("none", "0", "-1")])
def test_invalid_number_of_nodes_is_a_usage_error(wrong: str) -> None:
    ended = subprocess.run(
        COMMAND, env={**os.environ, "NODES": wrong}, capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"NODES={wrong}: ")


def test_invalid_choice_of_a_query_is_a_usage_error() -> None:
    ended = subprocess.run(
        COMMAND, env={**os.environ, "SQL": "yes"}, capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("SQL=yes: ")


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def start(seconds: str, *, nodes: str = "", sql: str = "") -> LabProcess:
    environment = {**os.environ, "DEMO_SECONDS": seconds, "NODES": nodes, "SQL": sql}
    return LabProcess("demo", COMMAND, scratch.directory("demo") / "demo.log", cwd=ROOT, env=environment)
