"""MirrorMaker 1: the real one of Kafka 3.9.1, and ``kafka-mirror-maker`` of ours, with the same files and options."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import javaproperties
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition

from tests.lab import jars, jvm, scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.processes import LabProcess

MAIN = "kafka.tools.MirrorMaker"
OURS = "from mm2.app import kafka_mirror_maker; kafka_mirror_maker()"
STOPS_WITHIN = 60.0
JAVA, MM2 = "java", "mm2"


class Mirror1:
    """One process with ``options`` and two files; ``kind`` is `JAVA` or `MM2`."""

    def __init__(
        self,
        kind: str,
        source: KafkaCluster,
        target: KafkaCluster,
        *options: str,
        group: str,
        consumer: Mapping[str, str] | None = None,
        producer: Mapping[str, str] | None = None,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """``consumer`` and ``producer``: more properties; an empty one is left out of the file. ``env``: variables in
        addition to those of this process."""
        self.name = name or f"mirror1-{kind}"
        self.directory = scratch.directory(self.name)
        files = {
            "consumer": {"bootstrap.servers": source.bootstrap, "group.id": group, **(consumer or {})},
            "producer": {"bootstrap.servers": target.bootstrap, **(producer or {})},
        }
        given: list[str] = []
        for role, properties in files.items():
            path = self.directory / f"{role}.properties"
            given_values = {name: value for name, value in properties.items() if value}
            path.write_text(javaproperties.dumps(given_values, timestamp=False))
            given += [f"--{role}.config", str(path)]
        program: tuple[str, ...] = (sys.executable, "-c", OURS)
        if kind == JAVA:
            class_path = jars.class_path(jars.KAFKA_3)
            program = (
                jvm.java(), "-Xmx256m", *jvm.QUICK_START, *jvm.log_options("info"), "-cp", class_path, MAIN
            )  # fmt: skip
        self._command = (*program, *given, *options)
        self._env = {**os.environ, **(env or {})}
        self._process: LabProcess | None = None

    @property
    def process(self) -> LabProcess:
        """The running or last process."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    def start(self) -> Self:
        """Start it; it joins its group some seconds later."""
        self._process = LabProcess(
            self.name, self._command, self.directory / "mirror.log", cwd=self.directory, env=self._env
        )
        return self

    def stop(self) -> int:
        """SIGTERM: it completes what is in flight, commits, and leaves the group. Returns the exit code."""
        return self.process.stop(STOPS_WITHIN)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.running:
            self.process.kill_group()


def committed(cluster: KafkaCluster, group: str, topic: str, partitions: int) -> list[int]:
    """Return the committed offsets of a group, -1001 where there is none, also if it has no coordinator yet."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        return [one.offset for one in consumer.committed(places, 30)]
    except KafkaException:
        return [OFFSET_INVALID] * partitions
    finally:
        consumer.close()
