"""docs/how-to/mirror-maker-1.md: its files and commands as they stand, but for the names of brokers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.docs import next_with, run_block, shell_blocks, write_blocks
from tests.lab.fixtures import StartCluster
from tests.lab.history import count, read_topic
from tests.lab.node import Node
from tests.lab.records import Outgoing, plain, write
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(400)

PAGE = ROOT / "docs/how-to/mirror-maker-1.md"
RECORDS = 500
TOMBSTONES = [Outgoing(key=b"1", value=None, partition=0)] * 10  # which the handler drops
COPIED = 90.0
STEP = 60.0


class Shell:
    """Runs commands in a directory, with our programs in the PATH."""

    def __init__(self, directory: Path, brokers: dict[str, str]) -> None:
        self.directory = directory
        self._brokers = brokers
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        self._env = {**os.environ, "PATH": path}

    def replaced(self, text: str) -> str:
        for name, own in self._brokers.items():
            text = text.replace(name, own)
        return text

    def run(self, commands: str) -> str:
        """Run the commands, which must succeed, and return their output."""
        return run_block(self.replaced(commands), self.directory, self._env, timeout=STEP)


@pytest.fixture
def clusters(start_cluster: StartCluster) -> tuple[KafkaCluster, KafkaCluster]:
    return start_cluster("a"), start_cluster("b")


@pytest.mark.long  # the process: test_mirror_maker.py; the migration: tests/integration/test_migrate_mm1.py
def test_the_page(clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path) -> None:
    source, target = clusters
    source.create_topic("orders", 2)
    write(source.bootstrap, "orders", plain(RECORDS, partitions=2))
    brokers = {"kafka-a.example.com:9092": source.bootstrap, "kafka-b.example.com:9092": target.bootstrap}
    shell = Shell(tmp_path, brokers)
    assert write_blocks(PAGE, tmp_path) == ["consumer.properties", "producer.properties", "prefixing.py"]
    for name in ("consumer.properties", "producer.properties"):
        file = tmp_path / name
        file.write_text(shell.replaced(file.read_text()))
    blocks = iter(shell_blocks(PAGE))

    assert shell.run(next_with(blocks, "--check")).startswith("ok: topics orders.*")
    shell.run(next_with(blocks, "mirror.pid"))
    wait_until(lambda: copied(target) == RECORDS, COPIED, "everything is copied")
    checker = next_with(blocks, "kafka-consumer-offset-checker")
    wait_until(lambda: shell.run(checker).count(" 250 ") >= 2, COPIED, "the offsets are committed")
    shell.run(next_with(blocks, "kill -TERM"))
    log = tmp_path / "mirror.log"
    wait_until(lambda: "all offsets are committed" in log.read_text(), COPIED, "it has stopped")

    write(source.bootstrap, "orders", [*plain(RECORDS, partitions=2, first=RECORDS), *TOMBSTONES])
    shell.run(next_with(blocks, "prefixing:Prefixing"))
    wait_until(lambda: copied(target, "copy-orders") == RECORDS, COPIED, "its topic is created")
    shell.run(next_with(blocks, "kill -TERM"))
    log = tmp_path / "handler.log"
    wait_until(lambda: "all offsets are committed" in log.read_text(), COPIED, "it has stopped")
    assert len(read_topic(target.bootstrap, "copy-orders")) == 2
    assert copied(target) == RECORDS

    assert "kafka-acls.sh" in next(blocks)  # test_acls.py
    assert "kafka-acls.sh" in next(blocks)
    shell.run(next_with(blocks, "mm2.properties\n"))
    write(source.bootstrap, "orders", plain(RECORDS, partitions=2, first=2 * RECORDS))
    assert "stored 2 offsets of group mirror" in shell.run(next_with(blocks, "--write-offsets"))
    assert "mm2 run mm2.properties" in next(blocks)
    with Node((tmp_path / "mm2.properties").read_text(), name="migrated") as node:
        wait_until(lambda: copied(target) == 2 * RECORDS, COPIED, "the rest is copied")
        assert node.stop() == 0
    assert copied(target) == 2 * RECORDS, "nothing is repeated"
    assert list(blocks) == []


def copied(target: KafkaCluster, topic: str = "orders") -> int:
    topics = target.admin.list_topics(timeout=10).topics
    return count(read_topic(target.bootstrap, topic)) if topic in topics else 0
