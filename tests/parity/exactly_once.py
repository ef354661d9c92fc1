"""Two programs that replicate one flow with exactly-once, one after the other, under load: mm2 and Java's MirrorMaker.

Both continue the transactional ids of the other. Whatever the first left unfinished is aborted by the second.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from tests.lab import scratch
from tests.lab.arrivals import Arrivals
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import read_topic
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.settings import one_flow
from tests.lab.stored_batches import StoredBatch, stored_batches
from tests.lab.verify import Verdict, compare, wait_until_copied

PARTITIONS = 3
TASKS_MAX = 2
PER_SECOND = 1_500
JAVA, MM2 = "Java", "mm2"
COPIES = 90.0  # seconds: a program starts on busy cores, and waits for the session of a killed one (10 s)
READ_WITHIN = 1.0  # seconds until the reader has everything that was committed before
COPIED = 60.0  # seconds until the rest is copied after the load


class Program(Protocol):
    """What `Node` and `JavaMirrorMaker` have in common."""

    def start(self) -> object:
        """Start the process."""

    def stop(self) -> object:
        """Send SIGTERM and wait for the end."""

    def kill(self) -> None:
        """Send kill -9."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactlyOnceFlow:
    """A flow under load, and the two programs that can run it with the same file."""

    source: KafkaCluster
    target: KafkaCluster
    topic: str
    remote: str
    load: Load
    arrivals: Arrivals
    node: Node
    java: JavaMirrorMaker

    def program(self, name: str) -> Program:
        return self.java if name == JAVA else self.node

    def set_tasks_max(self, name: str, tasks_max: int) -> None:
        """Change the number of source tasks in the file of a program that does not run."""
        file = self.java.file if name == JAVA else self.node.file
        before, after = f"tasks.max={TASKS_MAX}\n", f"tasks.max={tasks_max}\n"
        text = file.read_text()
        assert before in text
        file.write_text(text.replace(before, after))

    def wait_copies(self) -> None:
        """Wait until every remote partition gets committed records, and a second's worth more is written."""
        self.arrivals.wait_for_all(time.monotonic() + READ_WITHIN, COPIES)
        self.load.wait_for_more(PER_SECOND)

    def end_offsets(self) -> dict[int, int]:
        """Return the end of each remote partition."""
        ends = dict.fromkeys(range(PARTITIONS), 0)
        for one in self.batches():
            ends[one.partition] = max(ends[one.partition], one.last_offset + 1)
        return ends

    def batches(self) -> list[StoredBatch]:
        return stored_batches(self.target.broker(1).directory / scratch.DATA, self.remote)

    def verify(self) -> Verdict:
        """End the load and check that a read_committed consumer of the target gets each source record once, in order.

        Raises GaveUp with the location of both saved histories.
        """
        self.load.stop()
        source, remote = (self.source.bootstrap, self.topic), (self.target.bootstrap, self.remote)
        return wait_until_copied(source, remote, COPIED, repeats_allowed=False)

    def verify_uncommitted(self) -> Verdict:
        """Check that a read_uncommitted consumer of the target loses nothing either; it also gets aborted records."""
        source = read_topic(self.source.bootstrap, self.topic)
        found = compare(source, read_topic(self.target.bootstrap, self.remote, isolation="read_uncommitted"))
        assert found.complete, str(found)
        return found


@contextmanager
def under_load(source: KafkaCluster, target: KafkaCluster) -> Iterator[ExactlyOnceFlow]:
    """Prepare a flow whose source topic is written to. No program runs yet; those that run at the end are killed."""
    a, b = unique_name("A"), unique_name("B")
    topic = source.create_topic(unique_name(f"{a}-t"), PARTITIONS)
    properties = one_flow(source, target, aliases=(a, b), topics=f"{a}-.*") | {
        f"{b}.exactly.once.source.support": "enabled",
        f"{a}.consumer.isolation.level": "read_committed",
        f"{b}->{a}.emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "tasks.max": str(TASKS_MAX),
    }
    node = Node(properties)
    java = JavaMirrorMaker(node.file.read_text())
    remote = f"{a}.{topic}"
    try:
        with (
            Arrivals(target, remote, partitions=PARTITIONS) as arrivals,
            Load(source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
        ):
            yield ExactlyOnceFlow(
                source=source,
                target=target,
                topic=topic,
                remote=remote,
                load=load,
                arrivals=arrivals,
                node=node,
                java=java,
            )
    finally:
        java.__exit__(None, None, None)
        node.__exit__(None, None, None)
