"""The pages of the tutorial in order: their files, commands and documented results."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.lab import jars, jvm
from tests.lab.commands import ROOT
from tests.lab.docs import next_with, run_block, shell_blocks, write_blocks
from tests.lab.ports import port_answers
from tests.lab.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

FIRST, DRILL = (ROOT / "docs/tutorial" / name for name in ("first-flow.md", "failover-drill.md"))
STEP = 120.0  # seconds for one block: each of Kafka's tools is a JVM
READY = 90.0  # seconds until brokers listen, and until a node runs

TOOLS = {
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}


class Terminal:
    """A shell in an empty directory, with Kafka's tools and ``mm2`` in its PATH."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "work"
        self.directory.mkdir()
        tools = directory / "bin"
        tools.mkdir()
        options = " ".join(("-Xmx256m", *jvm.QUICK_START, *jvm.log_options("warn")))
        for name, main in TOOLS.items():
            script = tools / name
            class_path = jars.class_path(jars.KAFKA_4)
            script.write_text(f'#!/bin/sh\nexec {jvm.java()} {options} -cp "{class_path}" {main} "$@"\n')
            script.chmod(0o755)
        path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
        self._env = {**os.environ, "PATH": path}

    def run(self, commands: str) -> str:
        """Run the commands; all must succeed. Returns what they print to standard output."""
        return run_block(commands, self.directory, self._env, timeout=STEP)

    def end(self) -> None:
        """Kill processes that the pages left running."""
        for file in self.directory.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.end()


def test_tutorial(terminal: Terminal) -> None:
    first, drill = (iter(shell_blocks(page)) for page in (FIRST, DRILL))
    assert write_blocks(FIRST, terminal.directory) == ["a.properties", "b.properties", "mm2.properties"]

    terminal.run(next_with(first, "kafka-server-start.sh"))
    wait_until(lambda: port_answers(19092) and port_answers(29092), READY, "both brokers listen")
    terminal.run(next_with(first, "--create --topic orders"))
    assert "error" not in terminal.run(next_with(first, "mm2 check"))
    terminal.run(next_with(first, "mm2 run"))
    wait_until(healthy, READY, "the node runs")
    assert "A.orders" in terminal.run(next_with(first, "mm2 status"))
    assert len(terminal.run(next_with(first, "--topic A.orders")).split()) == 3
    terminal.run(next_with(first, "seq 1001 1500"))
    assert re.search(r"^payments +- .*not replicated", terminal.run(next_with(first, "--topic payments")), re.MULTILINE)
    assert list(first) == []

    terminal.run(next_with(drill, "--max-messages 300"))
    offsets = next_with(drill, "mm2 offsets").strip()
    wait_until(lambda: is_synced(terminal.run(f"{offsets} --json")), READY, "the group's offsets are synced")
    terminal.run(next_with(drill, "kill -9"))
    wait_until(lambda: not healthy(), READY, "the node reports that A is down")
    assert "bootstrap.servers" in terminal.run(next_with(drill, "mm2 status"))
    assert terminal.run(next_with(drill, "--topic A.orders --group billing")).split() == ["1500"]
    terminal.run(next_with(drill, "kafka-server-start.sh a.properties"))
    wait_until(lambda: port_answers(19092) and healthy(), READY, "the flow has resumed")
    assert "RUNNING" in terminal.run(next_with(drill, "seq 1501 1600"))
    terminal.run(next_with(drill, "kill $(cat node.pid)"))
    assert list(drill) == []


def healthy() -> bool:
    try:
        return httpx.get("http://127.0.0.1:8083/health", timeout=10).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def is_synced(answer: str) -> bool:
    """Return whether the group's 300 records are translated and committed on B."""
    groups = json.loads(answer)["groups"]
    partitions = groups[0]["partitions"] if groups else []
    return sum(one["target_offset"] or 0 for one in partitions) == 300
