"""A move from Java's MirrorMaker to this program and back, as docs/migrating.md has it, with consumer groups.

Each of the three reigns copies new records, and then a group on the source moves on; when the target knows of its new
position, it is written down where the group would go on there. What was seen is judged elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from mm2.core.formats import Checkpoint
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import Outcome, run
from tests.lab.history import Partitions, read_topic
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.node import Node
from tests.lab.records import every_shape, plain, write, write_transactions
from tests.lab.settings import ONE_COPY
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until
from tests.parity.guide import MIGRATING, commands

ORDERS, LEDGER = "orders", "ledger"
PARTITIONS: Mapping[str, int] = {ORDERS: 2, LEDGER: 1}
GROUPS = ("billing", "prüfung 7")
CHECKPOINTS = "A.checkpoints.internal"
REIGNS = ("Java", "mm2", "Java again")

LAG_MAX = 10  # offset.lag.max
REIGN_RECORDS = 150  # new ones of ORDERS in each reign
BEHIND = 3  # records that a group has not read when it stops
SOON = 60.0  # seconds for something to arrive, with a Java MirrorMaker, Spark and two brokers on two cores

Offsets = Mapping[Place, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Where a group stopped on the source, its last checkpoint, and its committed offset on the target; by source
    topic and partition."""

    reign: str
    group: str
    upstream: Mapping[tuple[str, int], int]
    checkpoint: Mapping[tuple[str, int], int]
    committed: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """What was seen. ``outcomes``: the commands of the page that end by themselves."""

    source: Mapping[str, Partitions]
    remote: Mapping[str, Partitions]
    checkpoints: Partitions
    landings: tuple[Landing, ...]
    outcomes: Mapping[str, Outcome]
    waiting_log: str
    log: str
    exit_code: int


@contextmanager
def carried_out(rng: random.Random) -> Iterator[Migration]:
    """Do what the page says. Raises GaveUp with what did not happen, KeyError for a command nobody here knows."""
    with KafkaCluster("a") as a, KafkaCluster("b") as b, ExitStack() as ends:
        for topic, partitions in PARTITIONS.items():
            a.create_topic(topic, partitions)
        node = Node(_properties(a, b))
        ends.push(node)
        java = JavaMirrorMaker(node.file.read_text())
        ends.enter_context(java)
        yield _Player(a=a, b=b, node=node, java=java, rng=rng).play()


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
class _Player:
    a: KafkaCluster
    b: KafkaCluster
    node: Node
    java: JavaMirrorMaker
    rng: random.Random
    landings: list[Landing] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    waiting_log: str = ""
    exit_code: int = -1

    def play(self) -> Migration:
        self._reign(REIGNS[0])
        for command in commands(MIGRATING):
            self._known()[command](command)
        self._reign(REIGNS[2])
        return Migration(
            source={topic: read_topic(self.a.bootstrap, topic, isolation="read_uncommitted") for topic in PARTITIONS},
            remote={topic: read_topic(self.b.bootstrap, f"A.{topic}") for topic in PARTITIONS},
            checkpoints=read_topic(self.b.bootstrap, CHECKPOINTS),
            landings=tuple(self.landings),
            outcomes=self.outcomes,
            waiting_log=self.waiting_log,
            log=self.node.process.output(),
            exit_code=self.exit_code,
        )

    def _known(self) -> dict[str, Callable[[str], None]]:
        """What stands for each command of the page."""
        return {
            "mm2 check mm2.properties": self._ends_by_itself,
            "mm2 run mm2.properties": self._run_beside_java,
            "kill -TERM $(pgrep -f org.apache.kafka.connect.mirror.MirrorMaker)": self._stop_java,
            "mm2 status mm2.properties": self._ends_by_itself,
            "mm2 lag mm2.properties": self._ends_by_itself,
            "mm2 offsets mm2.properties --flow 'A->B'": self._ends_by_itself,
            "kill -TERM $(pgrep -f 'mm2 run')": self._stop_node,
            "connect-mirror-maker.sh mm2.properties": self._start_java,
        }

    def _ends_by_itself(self, command: str) -> None:
        words = [word.strip("'") for word in command.replace("mm2.properties", str(self.node.file)).split()]
        self.outcomes[command] = run(words[0], *words[1:])

    def _run_beside_java(self, _: str) -> None:
        self.node.start().wait_answering()

        def waits() -> bool:
            return any("Java" in reason for reason in self.node.flow("A->B").get("reasons", ()))

        wait_until(waits, SOON, "our node names Java as who holds the group")
        self.waiting_log = self.node.process.output()

    def _stop_java(self, _: str) -> None:
        self.java.stop()
        self.node.wait_running()
        self._reign(REIGNS[1])

    def _stop_node(self, _: str) -> None:
        self.exit_code = self.node.stop()

    def _start_java(self, _: str) -> None:
        self.java.start()

    # -- what happens in each reign

    def _reign(self, name: str) -> None:
        """New records are copied, the groups move on, and the target learns of it."""
        orders = every_shape(self.rng, REIGN_RECORDS, partitions=PARTITIONS[ORDERS], value_bytes=50)
        write(self.a.bootstrap, ORDERS, orders, codec="lz4", records_per_batch=20)
        transactions = [(list(plain(7)), number % 3 != 1) for number in range(6)]
        write_transactions(self.a.bootstrap, LEDGER, transactions, transactional_id="ledger")
        for topic in PARTITIONS:
            source, remote = (self.a.bootstrap, topic), (self.b.bootstrap, f"A.{topic}")
            wait_until_copied(source, remote, SOON, isolation="read_uncommitted")
        for group in GROUPS:
            self._move(name, group)

    def _move(self, reign: str, group: str) -> None:
        upstream = {}
        for topic in PARTITIONS:
            for number, records in read_topic(self.a.bootstrap, topic, isolation="read_uncommitted").items():
                upstream[topic, number] = records[-BEHIND].offset
        consumer = Consumer({"bootstrap.servers": self.a.bootstrap, "group.id": group, "log_level": 0})
        try:
            places = [Place(topic, number, offset) for (topic, number), offset in upstream.items()]
            consumer.commit(offsets=places, asynchronous=False)
        finally:
            consumer.close()
        self.landings.append(
            Landing(
                reign=reign,
                group=group,
                upstream=upstream,
                checkpoint=wait_until(
                    lambda: self._checkpointed(group, upstream), SOON, f"{reign}: checkpoints of {group} at {upstream}"
                ),
                committed=wait_until(
                    lambda: self._committed(group, upstream), SOON, f"{reign}: offsets of {group} on the target"
                ),
            )
        )

    def _checkpointed(self, group: str, upstream: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """The group's newest checkpoints, once they are of these positions; empty before."""
        found: dict[tuple[str, int], int] = {}
        for record in read_topic(self.b.bootstrap, CHECKPOINTS).get(0, ()):
            checkpoint = Checkpoint.decode(record.content[0], record.content[1])
            place = checkpoint.topic_partition.topic.removeprefix("A."), checkpoint.topic_partition.partition
            if checkpoint.group == group and checkpoint.upstream_offset == upstream[place]:
                found[place] = checkpoint.downstream_offset
        return found if found.keys() == upstream.keys() else {}

    def _committed(self, group: str, upstream: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """The group's offsets on the target, once they are what its checkpoints say; empty before."""
        consumer = Consumer({"bootstrap.servers": self.b.bootstrap, "group.id": group, "log_level": 0})
        try:
            places = [Place(f"A.{topic}", number) for topic, number in upstream]
            found = {
                (p.topic.removeprefix("A."), p.partition): p.offset for p in consumer.committed(places, timeout=10)
            }
        finally:
            consumer.close()
        return found if found == self._checkpointed(group, upstream) else {}
