"""The two mirrors under test, started with the same settings and measured from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import javaproperties
import psutil

from tests.bench.digests import Framing, framed
from tests.bench.process_tree import ProcessTree
from tests.bench.workloads import PARTITIONS
from tests.lab import jars, jvm, scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import command_path
from tests.lab.java_mm2 import MAIN
from tests.lab.processes import LabProcess
from tests.lab.settings import ONE_COPY
from tests.lab.waiting import GaveUp, wait_until

EXITS_WITHIN = 60.0  # seconds after SIGTERM: Java drains each task in turn
CHILDREN_EXIT_WITHIN = (
    15.0  # seconds for child processes after the tool itself has exited: the lease time of mm2's lanes
)

# JVM options of Kafka's bin/connect-mirror-maker.sh.
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
    """A mirror: its name in results, and the command that runs it with a file.

    ``exactly_once``: it writes transactions, and reads only committed records. ``flow``: further keys of its flow.
    ``expected`` returns what it makes of a source record.
    """

    name: str
    title: str
    command: Callable[[Path], tuple[str, ...]]
    exactly_once: bool = False
    flow: Mapping[str, str] = field(default_factory=dict)
    expected: Framing = framed

    def remote_topic(self, topic: str) -> str:
        """Return the name of the remote topic that this tool writes."""
        return f"{self._aliases[0]}.{topic}"

    def settings(self, source: KafkaCluster, target: KafkaCluster, topic: str) -> dict[str, str]:
        """Return Java's defaults, except for a replication factor of 1 and no heartbeats.

        Each tool has its own aliases, and therefore its own internal topics and groups. There is one task per core, so
        that both can use the whole machine.
        """
        upstream, downstream = self._aliases
        return {
            "clusters": f"{upstream}, {downstream}",
            f"{upstream}.bootstrap.servers": source.bootstrap,
            f"{downstream}.bootstrap.servers": target.bootstrap,
            f"{upstream}->{downstream}.enabled": "true",
            f"{upstream}->{downstream}.topics": topic,
            "emit.heartbeats.enabled": "false",  # otherwise Java runs another worker for the opposite direction
            "tasks.max": str(min(os.cpu_count() or 1, PARTITIONS)),
            **ONE_COPY,
            **(self._exactly_once_settings if self.exactly_once else {}),
            **{f"{upstream}->{downstream}.{key}": value for key, value in self.flow.items()},
        }

    @property
    def _exactly_once_settings(self) -> dict[str, str]:
        upstream, downstream = self._aliases
        return {
            f"{downstream}.exactly.once.source.support": "enabled",
            f"{upstream}.consumer.isolation.level": "read_committed",
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
OURS_EXACTLY_ONCE = replace(OURS, name="ours-exactly-once", title=f"{OURS.title}, exactly-once", exactly_once=True)
JAVA_EXACTLY_ONCE = replace(JAVA, name="java-exactly-once", title=f"{JAVA.title}, exactly-once", exactly_once=True)


class RunningTool:
    """A running mirror of one topic: a context manager that stops it and its child processes."""

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
        """Raise GaveUp with the end of its log if the tool has exited."""
        if not self._process.running:
            raise GaveUp(f"{self.tool.title} exited\n{self._process.report()}")

    def report(self) -> str:
        """Return the location of its log and the last lines."""
        return self._process.report()

    def stop(self) -> None:
        """Send SIGTERM and wait until the tool and its child processes have exited. Raises GaveUp if they do not."""
        self.tree.alive()
        self._process.stop(EXITS_WITHIN)
        wait_until(lambda: not self.tree.alive(), CHILDREN_EXIT_WITHIN, f"no process of {self.tool.title} is left")

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
