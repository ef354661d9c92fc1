"""A migration from Java's MirrorMaker to mm2 and back, following docs/how-to/migrating.md, with consumer groups.

In each of three phases new records are copied and groups on the source commit new offsets. Once the target has the new
offsets, the translated ones are recorded. test_migration.py checks the results.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import Checkpoint
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import Outcome, run
from tests.lab.groups import commit
from tests.lab.guide import MIGRATING, commands
from tests.lab.history import Partitions, read_topic
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.node import Node
from tests.lab.records import every_shape, plain, write, write_transactions
from tests.lab.settings import ONE_COPY
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until
from tests.parity.internal_records import positions

ORDERS, LEDGER = "orders", "ledger"
PARTITIONS: Mapping[str, int] = {ORDERS: 2, LEDGER: 1}
GROUPS = ("billing", "prüfung 7")
CHECKPOINTS, OFFSETS = "A.checkpoints.internal", "mm2-offsets.A.internal"
PHASES = ("Java", "mm2", "Java again")

LAG_MAX = 10  # offset.lag.max
PHASE_RECORDS = 150  # new records of ORDERS in each phase
BEHIND = 3  # records that a group has not read when it stops
SOON = 60.0  # seconds for something to arrive, with a Java MirrorMaker, Spark and two brokers on two cores

Offsets = Mapping[Place, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """Offsets of a group by source topic and partition: on the source, in its last checkpoint, and on the target."""

    phase: str
    group: str
    upstream: Mapping[tuple[str, int], int]
    checkpoint: Mapping[tuple[str, int], int]
    committed: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """Results of the migration. ``outcomes``: results of the page's commands that exit on their own."""

    source: Mapping[str, Partitions]
    remote: Mapping[str, Partitions]
    checkpoints: Partitions
    group_offsets: tuple[GroupOffsets, ...]
    outcomes: Mapping[str, Outcome]
    waiting_log: str
    log: str
    exit_code: int


@contextmanager
def migrate(rng: random.Random) -> Iterator[Migration]:
    """Carry out the page's steps. Raises GaveUp if a step has no effect, KeyError for an unknown command."""
    with KafkaCluster("a") as a, KafkaCluster("b") as b, ExitStack() as ends:
        for topic, partitions in PARTITIONS.items():
            a.create_topic(topic, partitions)
        node = Node(_properties(a, b))
        ends.push(node)
        java = JavaMirrorMaker(node.file.read_text())
        ends.enter_context(java)
        yield _Runner(a=a, b=b, node=node, java=java, rng=rng).run_all()


def _properties(a: KafkaCluster, b: KafkaCluster) -> dict[str, str]:
    return {
        "clusters": "A, B",
        "A.bootstrap.servers": a.bootstrap,
        "B.bootstrap.servers": b.bootstrap,
        "A->B.enabled": "true",
        "A->B.topics": ", ".join(PARTITIONS),
        "B->A.emit.heartbeats.enabled": "false",
        "offset.lag.max": str(LAG_MAX),
        "B.offset.flush.interval.ms": "1000",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        **ONE_COPY,
    }


@dataclass(slots=True, kw_only=True)
class _Runner:
    a: KafkaCluster
    b: KafkaCluster
    node: Node
    java: JavaMirrorMaker
    rng: random.Random
    group_offsets: list[GroupOffsets] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    waiting_log: str = ""
    exit_code: int = -1

    def run_all(self) -> Migration:
        self._run_phase(PHASES[0])
        for command in commands(MIGRATING):
            self._steps()[command](command)
        self._run_phase(PHASES[2])
        return Migration(
            source={topic: read_topic(self.a.bootstrap, topic, isolation="read_uncommitted") for topic in PARTITIONS},
            remote={topic: read_topic(self.b.bootstrap, f"A.{topic}") for topic in PARTITIONS},
            checkpoints=read_topic(self.b.bootstrap, CHECKPOINTS),
            group_offsets=tuple(self.group_offsets),
            outcomes=self.outcomes,
            waiting_log=self.waiting_log,
            log=self.node.process.output(),
            exit_code=self.exit_code,
        )

    def _steps(self) -> dict[str, Callable[[str], None]]:
        """Return the implementation of each command on the page."""
        return {
            "mm2 check mm2.properties": self._run_command,
            "mm2 run mm2.properties": self._run_beside_java,
            "kill -TERM $(pgrep -f org.apache.kafka.connect.mirror.MirrorMaker)": self._stop_java,
            "mm2 status mm2.properties": self._run_command,
            "mm2 lag mm2.properties": self._run_command,
            "mm2 offsets mm2.properties --flow 'A->B'": self._run_command,
            "kill -TERM $(pgrep -f 'mm2 run')": self._stop_node,
            "connect-mirror-maker.sh mm2.properties": self._start_java,
        }

    def _run_command(self, command: str) -> None:
        words = [word.strip("'") for word in command.replace("mm2.properties", str(self.node.file)).split()]
        self.outcomes[command] = run(words[0], *words[1:])

    def _run_beside_java(self, _: str) -> None:
        self.node.start().wait_answering()

        def waits() -> bool:
            return any("Java" in reason for reason in self.node.flow("A->B").get("reasons", ()))

        wait_until(waits, SOON, "the node reports that Java holds the group")
        self.waiting_log = self.node.process.output()

    def _stop_java(self, _: str) -> None:
        self.java.stop()
        self.node.wait_running()
        self._run_phase(PHASES[1])

    def _stop_node(self, _: str) -> None:
        self.exit_code = self.node.stop()

    def _start_java(self, _: str) -> None:
        self.java.start()

    # -- steps of each phase

    def _run_phase(self, name: str) -> None:
        """Copy new records, commit new group offsets, and wait until they are translated on the target."""
        orders = every_shape(self.rng, PHASE_RECORDS, partitions=PARTITIONS[ORDERS], value_bytes=50)
        write(self.a.bootstrap, ORDERS, orders, codec="lz4", records_per_batch=20)
        transactions = [(list(plain(7)), number % 3 != 1) for number in range(6)]
        write_transactions(self.a.bootstrap, LEDGER, transactions, transactional_id="ledger")
        for topic in PARTITIONS:
            source, remote = (self.a.bootstrap, topic), (self.b.bootstrap, f"A.{topic}")
            wait_until_copied(source, remote, SOON, isolation="read_uncommitted")
        wait_until(self._stored, SOON, f"{name}: the source offsets of all records are stored")
        for group in GROUPS:
            self._move(name, group)

    def _stored(self) -> bool:
        """Return whether the last source offsets are stored: offset syncs and exact offsets are written before them.

        A group that moves earlier can get a less precise checkpoint first.
        """
        found = positions(read_topic(self.b.bootstrap, OFFSETS))
        return all(
            found.get(TopicPartition(topic, number)) == records[-1].offset + 1
            for topic in PARTITIONS
            for number, records in read_topic(self.a.bootstrap, topic, isolation="read_uncommitted").items()
        )

    def _move(self, phase: str, group: str) -> None:
        upstream = {}
        for topic in PARTITIONS:
            for number, records in read_topic(self.a.bootstrap, topic, isolation="read_uncommitted").items():
                upstream[topic, number] = records[-BEHIND].offset
        commit(self.a, group, upstream)
        self.group_offsets.append(
            GroupOffsets(
                phase=phase,
                group=group,
                upstream=upstream,
                checkpoint=wait_until(
                    lambda: self._checkpointed(group, upstream), SOON, f"{phase}: checkpoints of {group} at {upstream}"
                ),
                committed=wait_until(
                    lambda: self._committed(group, upstream), SOON, f"{phase}: offsets of {group} on the target"
                ),
            )
        )

    def _checkpointed(self, group: str, upstream: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Return the group's checkpoints for these source offsets, or nothing until all exist."""
        found: dict[tuple[str, int], int] = {}
        for record in read_topic(self.b.bootstrap, CHECKPOINTS).get(0, ()):
            checkpoint = Checkpoint.decode(record.content[0], record.content[1])
            place = checkpoint.topic_partition.topic.removeprefix("A."), checkpoint.topic_partition.partition
            if checkpoint.group == group and checkpoint.upstream_offset == upstream[place]:
                found[place] = checkpoint.downstream_offset
        return found if found.keys() == upstream.keys() else {}

    def _committed(self, group: str, upstream: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Return the group's offsets on the target once they match its checkpoints, or nothing before that."""
        consumer = Consumer({"bootstrap.servers": self.b.bootstrap, "group.id": group, "log_level": 0})
        try:
            places = [Place(f"A.{topic}", number) for topic, number in upstream]
            found = {
                (p.topic.removeprefix("A."), p.partition): p.offset for p in consumer.committed(places, timeout=10)
            }
        finally:
            consumer.close()
        return found if found == self._checkpointed(group, upstream) else {}
