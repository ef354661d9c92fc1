"""``kafka-mirror-maker`` with the ACLs of docs/how-to/mirror-maker-1.md, and with fewer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.access.guarded_flow import LISTENER, PASSWORD, security
from tests.integration.mirror1 import user_classes
from tests.integration.mirror1.test_guide import PAGE
from tests.lab import jars, jvm
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.docs import run_block, shell_blocks
from tests.lab.fixtures import unique_name
from tests.lab.history import count, read_topic
from tests.lab.listeners import AUTHORIZER
from tests.lab.mirror1 import MM2, Mirror1, committed
from tests.lab.records import Outgoing, plain, write
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

GROUP = "mirror"
USER = "mirror"
RECORDS = 100
COPIED = 90.0  # seconds: what was refused is tried again after 30 s
CREATED = 60.0
EARLIEST = {"auto.offset.reset": "earliest"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """Two clusters on which the user of the program has the ACLs that a test creates."""

    source: KafkaCluster
    target: KafkaCluster
    directory: Path

    def run(self, commands: str) -> None:
        """Run commands of the page with Kafka's own tool, as an administrator."""
        for name, cluster in (("kafka-a", self.source), ("kafka-b", self.target)):
            commands = commands.replace(f"{name}.example.com:9092", cluster.bootstrap)
        env = {**os.environ, "PATH": os.pathsep.join((str(self.directory), os.environ["PATH"]))}
        run_block(commands, self.directory, env, timeout=CREATED)

    def mirror(self, *options: str, **env: str) -> Mirror1:
        consumer, producer = (security(cluster, USER) for cluster in (self.source, self.target))
        given = {"group": GROUP, "consumer": {**EARLIEST, **consumer}, "producer": producer, "env": env}
        return Mirror1(MM2, self.source, self.target, *options, **given)  # type: ignore[arg-type]

    def copied(self, topic: str) -> int:
        exists = topic in self.target.admin.list_topics(timeout=10).topics
        return count(read_topic(self.target.bootstrap, topic)) if exists else 0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("kafka-acls")
    tool = directory / "kafka-acls.sh"
    command = f"exec {jvm.java()} -cp {jars.class_path(jars.KAFKA_4)} org.apache.kafka.tools.AclCommand"
    tool.write_text(f'#!/bin/sh\n{command} "$@"\n')
    tool.chmod(0o755)
    listening = {"listeners": (LISTENER,), "users": {USER: PASSWORD}, "properties": AUTHORIZER}
    with (
        KafkaCluster("mirror-source", **listening) as source,  # type: ignore[arg-type]
        KafkaCluster("mirror-target", **listening) as target,  # type: ignore[arg-type]
    ):
        yield Guarded(source=source, target=target, directory=directory)


@pytest.mark.long  # topics that cannot be read: test_topics.py
def test_the_acls_of_the_page(guarded: Guarded) -> None:
    """Without those of the dead-letter topic, only a partition with a record that cannot be written waits for them."""
    needed, for_dead_letters = (block for block in shell_blocks(PAGE) if "kafka-acls.sh" in block)
    rejected, other = unique_name("orders"), unique_name("orders")
    for topic in (rejected, other):
        guarded.source.create_topic(topic, 1)
    guarded.target.create_topic(rejected, 1, config={"max.message.bytes": "10000"})
    write(guarded.source.bootstrap, rejected, [Outgoing(key=b"large", value=b"x" * 20_000, partition=0)])
    for topic in (rejected, other):
        write(guarded.source.bootstrap, topic, plain(RECORDS))
    guarded.run(needed)
    options = ("--include", "orders.*", "--abort.on.send.failure", "false", "--offset.commit.interval.ms", "1000")
    with guarded.mirror(*options) as mirror:
        wait_until(lambda: guarded.copied(other) == RECORDS, COPIED, "the topic is created and copied")
        wait_until(lambda: committed(guarded.source, GROUP, other, 1) == [RECORDS], COPIED, "it is committed")
        letters = f"mm2-dead-letters.{GROUP}.internal"
        mirror.process.wait_until_output(f"requires CREATE on topic {letters}", COPIED, "the missing ACL is named")
        mirror.process.wait_until_output(f"cannot be written to {letters}", COPIED, "the record is rejected")
        assert guarded.copied(rejected) == 0
        guarded.run(for_dead_letters)
        wait_until(lambda: guarded.copied(rejected) == RECORDS, COPIED, "the rest is copied")
        (letter,) = read_topic(guarded.target.bootstrap, letters)[0]
        assert letter.key == b"large"
        assert mirror.stop() == 0
    assert "Traceback" not in mirror.process.output()


@pytest.mark.long  # topics that cannot be read: test_topics.py
def test_a_topic_of_a_handler_that_cannot_be_created(guarded: Guarded) -> None:
    needed, _ = (block for block in shell_blocks(PAGE) if "kafka-acls.sh" in block)
    guarded.run(needed)
    topic = guarded.source.create_topic(unique_name("orders"), 1)
    write(guarded.source.bootstrap, topic, plain(RECORDS))
    handler = f"{user_classes.__name__}:UpperCase"
    options = ("--include", topic, "--message.handler", handler, "--message.handler.args", "copy-")
    with guarded.mirror(*options, PYTHONPATH=str(ROOT)) as mirror:
        assert mirror.process.wait(COPIED, "it ends") == 1
    said = mirror.process.output()
    assert f"copy-{topic}" in said
    assert "TOPIC_AUTHORIZATION_FAILED; requires" in said
    assert "Traceback" not in said
