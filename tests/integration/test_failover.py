"""docs/how-to/failover.md step by step: its file, its commands and its programs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.lab import jars, jvm
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT, command_path, run_within
from tests.lab.groups import commit, committed, delete_groups
from tests.lab.node import Node
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.records import plain, write
from tests.lab.settings import ONE_COPY
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

# Two clusters, a node, three starts of Java. In the gate: the translation that the page relies on and group offset sync
# (test_flow_groups.py), its commands (test_command_offsets.py, test_node_commands.py), the client library
# (tests/integration/client).
pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

PAGE = ROOT / "docs/how-to/failover.md"
GROUP = "billing"
ON_A, ON_B = 600, 40  # records of orders, in two partitions
STOPPED_AT = {0: 221, 1: 300}  # offsets at which the group stops on A: in the middle, and at the end
SOON = 60.0  # seconds for copies, checkpoints and synced offsets, each of which happens every few seconds
RUNS = 60.0  # seconds for a command of the page, including those that start Java


def blocks(language: str) -> list[str]:
    """Return the page's code blocks of one language, in order."""
    return re.findall(rf"```{language}\n(.*?)```\n", PAGE.read_text("utf-8"), re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Carries out the page's steps in a directory with the mm2.properties of the page.

    Changes only addresses, the port, the replication factor, and the interval in which groups are refreshed.
    """

    a: KafkaCluster
    b: KafkaCluster
    port: int
    directory: Path

    def text(self, block: str) -> str:
        return (
            block.replace("kafka-a.example.com:9092", self.a.bootstrap)
            .replace("kafka-b.example.com:9092", self.b.bootstrap)
            .replace("127.0.0.1:8083", f"{HOST}:{self.port}")
        )

    def file(self) -> str:
        (text,) = blocks("properties")
        soon = text.replace("refresh.groups.interval.seconds = 60", "refresh.groups.interval.seconds = 2")
        more = "".join(f"{key} = {value}\n" for key, value in ONE_COPY.items())
        return f"{self.text(soon)}{more}refresh.topics.interval.seconds = 1\n"

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in that directory. Fails on any exit code except 0."""
        path = os.pathsep.join([str(self.directory), str(Path(command_path("mm2")).parent), os.environ["PATH"]])
        env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
        done = run_within(RUNS, command, cwd=self.directory, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{done.args}: {done.stderr}"
        return done

    def shell(self, block: str) -> subprocess.CompletedProcess[str]:
        return self.run("bash", "-euo", "pipefail", "-c", self.text(block))

    def offsets(self, flow: str) -> list[dict[str, object]]:
        """Return the group's partitions from ``mm2 offsets --json``."""
        done = self.shell(f"mm2 offsets mm2.properties --flow '{flow}' --group {GROUP} --json")
        (group,) = json.loads(done.stdout)["groups"]
        return list(group["partitions"])


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with KafkaCluster("a") as a, KafkaCluster("b") as b:
        port = reserve_port()
        reader = Reader(a=a, b=b, port=port, directory=tmp_path)
        (tmp_path / "mm2.properties").write_text(reader.file())
        _install_kafka_consumer_groups(tmp_path)
        yield reader
        release_port(port)


def _install_kafka_consumer_groups(directory: Path) -> None:
    """Create the script of the same name in Kafka distributions."""
    main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    words = (jvm.java(), *jvm.QUICK_START, *jvm.log_options("error"), "-cp", jars.class_path(jars.KAFKA_4), main)
    script = directory / "kafka-consumer-groups.sh"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    script.chmod(0o755)


def read_all(cluster: KafkaCluster, expected: int) -> dict[tuple[str, int], int]:
    """Read both topics to the end and commit, as the page's consumer does after a start.

    Returns the first offset read from each partition.
    """
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "log_level": 0})
    first: dict[tuple[str, int], int] = {}
    read = 0

    def done() -> bool:
        nonlocal read
        for message in consumer.consume(1_000, 1.0):
            assert message.error() is None
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            first.setdefault((topic, partition), offset)
            read += 1
        return read >= expected

    try:
        consumer.subscribe([r"^([^.]+\.)?orders$"])
        wait_until(done, SOON, f"the consumers of {cluster.name} read {expected} records")
        assert read == expected
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return first


def delete_group(cluster: KafkaCluster) -> None:
    """Delete the group."""
    delete_groups(cluster, [GROUP])
    assert committed(cluster, GROUP) == {}


def test_steps_of_the_page(reader: Reader) -> None:
    """Offsets on B equal those on A, since the topics contain only these records."""
    a, b = reader.a, reader.b
    for cluster, records in ((a, ON_A), (b, ON_B)):
        cluster.create_topic("orders", 2)
        write(cluster.bootstrap, "orders", plain(records, partitions=2))
    commit(a, GROUP, {("orders", number): offset for number, offset in STOPPED_AT.items()})
    translated = {("A.orders", number): offset for number, offset in STOPPED_AT.items()}

    with Node(reader.file()) as node:
        node.wait_running()
        _move_as_planned(reader, translated)
        _move_back(reader)
        assert node.stop() == 0

    a.broker(1).kill()
    alone = reader.shell(f"mm2 offsets mm2.properties --flow 'A->B' --group {GROUP}")
    assert "positions are those of the last checkpoints" in alone.stderr
    for move in (_move_in_python, _move_in_java, _move_with_commands, _move_all_groups):
        delete_group(b)
        move(reader)
        assert committed(b, GROUP) == translated, move.__name__


def _move_as_planned(reader: Reader, translated: dict[tuple[str, int], int]) -> None:
    wait_until_copied((reader.a.bootstrap, "orders"), (reader.b.bootstrap, "A.orders"), SOON)
    wait_until(lambda: _can_move(reader.offsets("A->B")), SOON, "a planned move can start")
    looks, *_ = blocks("sh")
    reader.shell(looks)
    assert committed(reader.b, GROUP) == translated
    first = read_all(reader.b, expected=ON_A - sum(STOPPED_AT.values()) + ON_B)
    assert first == {("A.orders", 0): STOPPED_AT[0], ("orders", 0): 0, ("orders", 1): 0}, (
        "no record is repeated or skipped"
    )


def _can_move(partitions: list[dict[str, object]]) -> bool:
    return all(one["answer"] == "exact" and one["target_offset"] == one["translated_offset"] for one in partitions)


def _move_back(reader: Reader) -> None:
    """Offsets of B's own topic are synced back, those of the remote topic of A are not."""
    stayed = {("orders", number): offset for number, offset in STOPPED_AT.items()}
    home = {("B.orders", number): ON_B // 2 for number in STOPPED_AT}
    wait_until(
        lambda: committed(reader.a, GROUP) == stayed | home, SOON, "the group's offsets of B.orders are synced to A"
    )
    answers = {one["topic"]: one["answer"] for one in reader.offsets("B->A")}
    assert answers == {"orders": "exact", "A.orders": "none"}


def _move_in_python(reader: Reader) -> None:
    (program,) = blocks("python")
    reader.run(sys.executable, "-c", program)


def _move_in_java(reader: Reader) -> None:
    (source,) = blocks("java")
    (reader.directory / "MoveGroup.java").write_text(reader.text(source))
    classes = jars.class_path(jars.KAFKA_4)
    reader.run(jvm.javac(), "-cp", classes, "MoveGroup.java")
    reader.run(jvm.java(), *jvm.QUICK_START, *jvm.log_options("error"), "-cp", f".:{classes}", "MoveGroup")


def _move_with_commands(reader: Reader) -> None:
    _, commands, *_ = blocks("sh")
    reader.shell(commands)


def _move_all_groups(reader: Reader) -> None:
    *_, translate, reset = blocks("sh")
    (shown,) = re.findall(r'```text title="groups.csv"\n(.*?)```\n', PAGE.read_text("utf-8"), re.DOTALL)
    done = reader.run("bash", "-c", f"{translate.strip()} || test $? -eq 3")
    assert (reader.directory / "groups.csv").read_text() == shown
    (end,) = (line for line in done.stderr.splitlines() if not line.startswith("mm2 translate: "))
    assert end == f"group {GROUP}: orders:1:{STOPPED_AT[1]}: end A.orders:1:{STOPPED_AT[1]} (caught up)"
    reader.shell(reset)
