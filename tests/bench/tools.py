"""The two mirrors under test, started on the same settings and looked at from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import javaproperties
import psutil

from tests.bench.process_tree import ProcessTree
from tests.bench.workloads import PARTITIONS
from tests.lab import jars, jvm, scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import command_path
from tests.lab.java_mm2 import MAIN
from tests.lab.processes import LabProcess
from tests.lab.settings import ONE_COPY
from tests.lab.waiting import GaveUp, wait_until

ENDS_WITHIN = 60.0  # seconds after SIGTERM: Java drains each task in turn
LEFT_WITHIN = 15.0  # seconds for children after the tool itself has ended: the lease time of our lanes

# What Kafka's own bin/connect-mirror-maker.sh gives its JVM.
STOCK_JVM = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A mirror: its name in results, and the command that runs it on a file."""

    name: str
    title: str
    command: Callable[[Path], tuple[str, ...]]

    def remote_topic(self, topic: str) -> str:
        """What this tool's copy of a topic is called on the target."""
        return f"{self._aliases[0]}.{topic}"

    def settings(self, source: KafkaCluster, target: KafkaCluster, topic: str) -> dict[str, str]:
        """Java's defaults, but for copies that one broker can hold and no heartbeats.

        Each tool has aliases, and by them internal topics and groups, of its own. A task for each core, so that both
        may use the whole machine.
        """
        upstream, downstream = self._aliases
        return {
            "clusters": f"{upstream}, {downstream}",
            f"{upstream}.bootstrap.servers": source.bootstrap,
            f"{downstream}.bootstrap.servers": target.bootstrap,
            f"{upstream}->{downstream}.enabled": "true",
            f"{upstream}->{downstream}.topics": topic,
            "emit.heartbeats.enabled": "false",  # else Java runs a whole worker for the way back
            "tasks.max": str(min(os.cpu_count() or 1, PARTITIONS)),
            **ONE_COPY,
        }

    @property
    def _aliases(self) -> tuple[str, str]:
        return f"{self.name}-a", f"{self.name}-b"


def _our_command(file: Path) -> tuple[str, ...]:
    return (command_path("mm2"), "run", str(file))


def _java_command(file: Path) -> tuple[str, ...]:
    return (jvm.java(), *STOCK_JVM, *jvm.log_options("warn"), "-cp", jars.class_path(jars.KAFKA_4), MAIN, str(file))


OURS = Tool(name="ours", title="mm2", command=_our_command)
JAVA = Tool(name="java", title=f"Java MM2 {jars.KAFKA_4}", command=_java_command)
TOOLS = (OURS, JAVA)


class RunningTool:
    """A mirror of one topic from its start to its end: a context manager that ends it and everything it started."""

    def __init__(self, tool: Tool, source: KafkaCluster, target: KafkaCluster, topic: str) -> None:
        self.tool = tool
        self.source = source
        self.target = target
        self.topic = topic
        self.remote_topic = tool.remote_topic(topic)
        directory = scratch.directory(tool.name)
        file = directory / "mm2.properties"
        file.write_text(javaproperties.dumps(tool.settings(source, target, topic), timestamp=False))
        self.started = time.monotonic()
        self._process = LabProcess(tool.name, tool.command(file), directory / f"{tool.name}.log", cwd=directory)
        self.tree = ProcessTree(self._process.pid)

    def check(self) -> None:
        """Raises GaveUp with the end of its log when it has ended by itself."""
        if not self._process.running:
            raise GaveUp(f"{self.tool.title} ended by itself\n{self._process.report()}")

    def report(self) -> str:
        """Where its log is, and the last lines of it."""
        return self._process.report()

    def stop(self) -> None:
        """SIGTERM, and wait until it and all it started are gone. Raises GaveUp when they are not."""
        self.tree.alive()
        self._process.stop(ENDS_WITHIN)
        wait_until(lambda: not self.tree.alive(), LEFT_WITHIN, f"nothing that {self.tool.title} started is left")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        left = self.tree.alive()
        self._process.kill_group()
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
